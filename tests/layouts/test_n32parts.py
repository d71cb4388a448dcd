"""Layout n32parts: parts come back from the bytes, the bytes are as drawn, and the library packs the same ones."""

from __future__ import annotations

import numpy as np
import pytest

from fewbit import layouts
from fewbit.kernels.cpu.backend import CpuBackend
from fewbit.layouts.n32parts.reference import pack, unpack
from fewbit.platforms.x86.detect import detect
from fewbit.registry.declare import PARTS
from fewbit.schemes.named import named
from fewbit.spec.dtype import BF16, F16, F32, I4, U4, U8
from fewbit.spec.granularity import group
from fewbit.spec.scheme import QuantTensor, Scheme
from tests.matrix.named import random_tensor

NAMED = [(name, scale) for name, scales in PARTS.items() for scale in scales]


def tensor_of(name: str, scale: str, n: int, k: int) -> QuantTensor:
    return random_tensor(named(name, scale, k), n, k, np.random.default_rng([n, k]))


@pytest.mark.parametrize(("name", "scale"), NAMED)
def test_parts_come_back(name: str, scale: str) -> None:
    for n, k in ((1, 128), (33, 256), (64, 384)):
        tensor = tensor_of(name, scale, n, k)
        layout = layouts.layout("n32parts", tensor.scheme)
        packed = pack(tensor, layout)
        assert packed.size == layouts.packed_bytes(layout, n, k) and packed.size % 64 == 0
        back = unpack(packed, layout, n, k)
        assert back.parts.keys() == tensor.parts.keys()
        for role, part in tensor.parts.items():
            assert back.parts[role].tobytes() == part.tobytes(), (n, k, role)


@pytest.mark.parametrize(("name", "scale"), NAMED)
def test_the_library_packs_the_same_bytes(name: str, scale: str) -> None:
    backend = CpuBackend(detect(), 1)
    n, k, cut = 150, 256, 128  # the cut is a multiple of every block's rows
    tensor = tensor_of(name, scale, n, k)
    layout = layouts.layout("n32parts", tensor.scheme)
    packer = backend.packer(layout, n, k)
    for start in range(0, n, cut):
        packer.write(start, rows_of(tensor, start, min(start + cut, n)))
    packed = np.asarray(backend.array(packer.finish().data)).view(np.uint8).reshape(-1)
    differ = np.flatnonzero(packed != pack(tensor, layout))
    assert not differ.size, f"first differing byte of {name}: {differ[0]}"


def rows_of(tensor: QuantTensor, start: int, stop: int) -> QuantTensor:
    parts, scheme = {}, tensor.scheme
    for role, part in tensor.parts.items():
        if role in ("codebook", "global_scale") or len(part) == 1 != tensor.shape[0]:
            parts[role] = part
        elif len(part) != tensor.shape[0]:
            parts[role] = part[start // scheme.block_n : -(-stop // scheme.block_n)]
        else:
            parts[role] = part[start:stop]
    return QuantTensor(scheme, (stop - start, tensor.shape[1]), parts)


def test_the_bytes_are_as_drawn() -> None:
    scheme = Scheme(I4, group(64), scale=F16, zero_point=I4)
    codes = np.full((33, 64), -8, np.int8)
    codes[0, :3], codes[32, 63] = (-7, -6, 7), 1
    scales, zeros = np.full((33, 1), 0.5, np.float16), np.full((33, 1), -3, np.int8)
    tensor = QuantTensor(scheme, (33, 64), {"codes": codes, "scale": scales, "zero_point": zeros})
    packed = pack(tensor, layouts.layout("n32parts", scheme))
    assert packed[:24].view(np.int32).tolist() == [1, 1, 0, 1, 8, 0] and not packed[24:128].any()
    panels = packed[128:].reshape(2, 1024 + 64 + 64)
    first, second = (panel[:1024].view(np.uint32) for panel in panels)
    assert first[0] == 1 | 15 << 4 | 2 << 16  # k = 0 and 2 in the low half-word, k = 1 in the high one
    assert first.nonzero()[0].tolist() == [0] and second.nonzero()[0].tolist() == [128 + 3 * 16]
    assert second[128 + 3 * 16] == 9 << 28
    assert panels[0, 1024:1088].view(np.float16).tolist() == [0.5] * 32
    assert panels[1, 1024:1088].view(np.float16).tolist() == [0.5] + [0.0] * 31
    assert panels[0, 1088:1120].tolist() == [5] * 32 and panels[1, 1088:1120].tolist() == [5] + [0] * 31


@pytest.mark.parametrize(
    "scheme",
    [
        Scheme(U4, group(48), scale=F16),
        Scheme(U4, group(16), scale=F16),
        Scheme(U4, group(64), scale=F16, zero_point=F16),
        Scheme(U4, group(64), scale=F32, zero_point=U8),
        Scheme(U4, group(64), scale=F16, offset=BF16),
        Scheme(U4, group(64), scale=F16, group_index=True),
        Scheme(I4, group(64), scale=F16, mask=True),
    ],
    ids=str,
)
def test_what_the_layout_does_not_hold_is_refused(scheme: Scheme) -> None:
    with pytest.raises(ValueError, match="does not hold scheme"):
        layouts.layout("n32parts", scheme)
    with pytest.raises(ValueError, match="K=48 is not a multiple of 32"):
        layouts.packed_bytes(layouts.layout("n32parts", Scheme(U4, group(64), scale=F16)), 32, 48)
