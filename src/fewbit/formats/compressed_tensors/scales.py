"""Which weights share a scale, and the scales' part; the shape on disk must be the one that the config's strategy means."""

from __future__ import annotations

from fewbit.formats.compressed_tensors.config import Args
from fewbit.formats.folder.parts import Blocked, Part, Rows, Shared
from fewbit.formats.folder.resolve import Module
from fewbit.formats.folder.safetensors import DiskTensor
from fewbit.formats.folder.scales import check_border
from fewbit.spec.granularity import CHANNEL, TENSOR, Granularity, block, group

FLOATS = ("BF16", "F16", "F32")


def granularity_of(module: Module, args: Args, n: int, k: int) -> Granularity:
    match args.strategy:
        case "tensor":
            return TENSOR
        case "channel":
            return CHANNEL
        case "block":
            return block(*args.block)
        case _:
            if k % args.group_size:
                module.fail(
                    f"has K={k}, no multiple of its group size {args.group_size}; the config does not fit the tensors"
                )
            return group(args.group_size)


def scale_part(module: Module, scale: DiskTensor, granularity: Granularity, n: int, k: int) -> Part:
    expected = granularity.scale_shape(n, k)
    match granularity.sharing:
        case "tensor" if scale.shape in ((), (1,), (1, 1)):
            return Shared(scale, (1,))
        case "channel" if scale.shape in ((n,), (n, 1)):
            return Rows(scale, (1,))
        case "block" if scale.shape == expected:
            check_border(module, n, granularity.n)
            return Blocked(scale, granularity.n)
        case "group" if scale.shape == expected:
            return Rows(scale)
    module.wrong(scale, f"shape {list(expected)} of one scale a {granularity.sharing}")
