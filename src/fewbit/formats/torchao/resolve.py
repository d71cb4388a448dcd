"""Which modules of a torchao folder are quantized, and where their parts come from.

_weight_qdata  i8 or e4m3 [N, K]    _weight_scale  float [N / block, K / block]    _weight_zero_point  i8, of integers only
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from fewbit.formats.folder.parts import Blocked, Part, Rows, Shared
from fewbit.formats.folder.resolve import Claim, Module, Resolved, Unquantized, split_name
from fewbit.formats.folder.safetensors import DiskTensor
from fewbit.formats.torchao.config import METHOD, TorchAoConfig
from fewbit.formats.torchao.decode import BoundedCodes, SymmetricCodes
from fewbit.formats.torchao.described import Described, read_described, read_type
from fewbit.spec.dtype import I8
from fewbit.spec.granularity import CHANNEL, TENSOR, Granularity, group
from fewbit.spec.scheme import Scheme

PREFIX = "_weight_"
QDATA, SCALE, ZERO = (f"{PREFIX}{name}" for name in ("qdata", "scale", "zero_point"))
FLOATS = ("F32", "F16", "BF16")
PLAIN = "Tensor"


class TorchAoResolver:
    signs = frozenset({QDATA, SCALE, ZERO})

    def __init__(self, config: TorchAoConfig) -> None:
        self.config = config

    def split(self, name: str) -> tuple[str, str]:
        return split_name(name)

    def resolve(self, module: Module) -> Iterable[Claim]:
        packed = any(leaf.startswith(PREFIX) for leaf in module.leaves)
        skipped, said = module.rule(self.config.skips), self.config.metadata.get(f"{module.name}.weight")
        where = f"{next(iter(module.leaves.values())).file.path}: metadata of {module.name + '.weight'!r}"
        if packed and skipped:
            module.fail(
                f"is quantized (it has {', '.join(module.leaves)}), but {self.config.where}: modules_to_not_convert names "
                f"{skipped!r}; they contradict each other"
            )
        if packed:
            if said is None:
                module.fail(
                    f"is quantized (it has {', '.join(module.leaves)}), but the file's metadata does not describe it"
                )
            yield from self._packed(module, read_described(said, where))
        elif "weight" in module.leaves:
            if said is not None and (found := read_type(said, where)) != PLAIN:
                module.fail(
                    f"is plain, but the file's metadata calls it a {found!r}; they contradict each other"
                )
            if len(module.leaves["weight"].shape) == 2:
                yield Unquantized(
                    f"modules_to_not_convert names {skipped!r}"
                    if skipped
                    else "it is stored as a plain float"
                )

    def _packed(self, module: Module, described: Described) -> Iterator[Claim]:
        rule = f"{METHOD}'s {described.type}"
        if described.type != self.config.tensor_type:
            module.fail(f"is a {described.type!r}, but {self.config.where} makes {self.config.tensor_type!r}")
        names = {leaf.removeprefix(PREFIX) for leaf in module.leaves if leaf.startswith(PREFIX)}
        if names != described.names:
            for name in sorted(described.names - names):
                module.need(PREFIX + name, rule)
            extra = PREFIX + min(names - described.names)
            module.fail(f"has the tensor {extra!r}, which {rule} does not have; they contradict each other")
        element = described.codes
        qdata = module.need(QDATA, rule, "F8_E4M3" if element.is_float else "I8")
        if len(qdata.shape) != 2:
            module.wrong(qdata, "a matrix")
        n, k = qdata.shape
        granularity = _granularity(module, qdata, described.block)
        shape = (n // described.block[0], k // described.block[1])
        scale = module.need(SCALE, rule, *FLOATS, shape=shape)
        codes: Part = Rows(qdata) if element.bits == 8 else BoundedCodes(qdata, element)
        parts: dict[str, Part] = {"codes": codes, "scale": _part(scale, granularity)}
        zero = None
        if not element.is_float:
            zero = module.need(ZERO, rule, "I8", shape=shape)
            zeros = _part(zero, granularity)
            if self.config.symmetric:
                parts["codes"] = SymmetricCodes(codes, zeros, zero)
            else:
                parts["zero_point"] = zeros
        scheme = Scheme(
            element,
            granularity,
            scale=scale.dtype,
            zero_point=I8 if zero is not None and not self.config.symmetric else None,
        )
        yield Resolved(f"{module.name}.weight", scheme, (n, k), parts, rule, described.layer)


def _granularity(module: Module, qdata: DiskTensor, block: tuple[int, int]) -> Granularity:
    n, k = qdata.shape
    if n % block[0] or k % block[1]:
        module.wrong(qdata, f"whole blocks of {list(block)}")
    if block == (1, k):
        return CHANNEL
    if block[0] == 1:
        return group(block[1])
    return TENSOR if block == (n, k) else Granularity("block", *block)


def _part(tensor: DiskTensor, granularity: Granularity) -> Part:
    match granularity.sharing:
        case "tensor":
            return Shared(tensor, (1,))
        case "block":
            return Blocked(tensor, granularity.n)
    return Rows(tensor)
