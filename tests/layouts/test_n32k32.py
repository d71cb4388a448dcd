"""The panel layouts: a bijection on every shape, byte by byte as drawn, and byte-equal to the library's packing."""

from __future__ import annotations

import numpy as np
import pytest

from fewbit import layouts
from fewbit.kernels.cpu.backend import CpuBackend
from fewbit.layouts.n32k32.reference import pack, unpack
from fewbit.platforms.x86.detect import detect
from fewbit.schemes import SCHEMES
from fewbit.schemes.affine.scheme import I4G32, I8G32, U4G32O, U5G32O
from fewbit.schemes.arrays import array_dtype
from fewbit.schemes.plain.scheme import BF16
from fewbit.spec import dtype
from fewbit.spec.granularity import CHANNEL
from fewbit.spec.layout import Layout
from fewbit.spec.scheme import QuantTensor, Scheme


def layout_of(scheme: Scheme) -> Layout:
    return layouts.layout("n32k256" if scheme.super_scale else "n32k32", scheme)


def any_tensor(scheme: Scheme, n: int, k: int) -> QuantTensor:
    """Random bits in every part, NaN patterns of floats included."""
    rng = np.random.default_rng([n, k])
    parts = {}
    for role, shape in scheme.part_shapes(n, k).items():
        element = scheme.part_dtypes()[role]
        low, high = (0, 1 << element.bits) if element.is_float else (element.lowest, element.highest + 1)
        values = rng.integers(low, high, shape)
        stored = array_dtype(element)
        parts[role] = (
            values.astype(f"u{stored.itemsize}").view(stored) if element.is_float else values.astype(stored)
        )
    return QuantTensor(scheme, (n, k), parts)


def shapes(scheme: Scheme) -> list[tuple[int, int]]:
    step = layout_of(scheme).block_k
    grid = [(n, k) for n in (0, 1, 31, 32, 33, 64, 70) for k in (0, step, 2 * step, 3 * step)]
    return grid + ([(1, 1), (5, 7), (32, 31), (33, 33), (40, 65)] if scheme.is_plain else [])


@pytest.mark.parametrize("scheme", SCHEMES.values(), ids=str)
def test_unpack_undoes_pack(scheme: Scheme) -> None:
    layout = layout_of(scheme)
    for n, k in shapes(scheme):
        tensor = any_tensor(scheme, n, k)
        packed = pack(tensor, layout)
        assert packed.size == layouts.packed_bytes(layout, n, k) and packed.size % 64 == 0
        back = unpack(packed, layout, n, k)
        for role, part in tensor.parts.items():
            assert back.parts[role].tobytes() == part.tobytes(), (n, k, role)


@pytest.mark.parametrize("scheme", SCHEMES.values(), ids=str)
def test_every_byte_counts(scheme: Scheme) -> None:
    """pack is onto as well: other bytes unpack to another tensor, so nothing in a full panel is padding."""
    layout, k = layout_of(scheme), layout_of(scheme).block_k
    packed = pack(any_tensor(scheme, 32, k), layout)
    other = packed ^ np.random.default_rng(0).integers(0, 256, packed.size).astype(np.uint8)
    if not any(t.bits < 8 for role, t in scheme.part_dtypes().items() if role != "codes"):
        assert pack(unpack(other, layout, 32, k), layout).tobytes() == other.tobytes()


def test_the_bytes_are_as_drawn() -> None:
    codes = np.zeros((32, 32), np.uint8)
    codes[0, :8] = [1, 2, 3, 4, 5, 6, 7, 8]
    codes[1, 8] = 9  # n = 1 is the next lane, k = 8 the next word row
    codes[16, 1] = 10  # n = 16 is the other half
    parts = {
        "codes": codes,
        "scale": np.arange(32, dtype=np.float16)[:, None],
        "offset": np.full((32, 1), 2, np.float16),
    }
    packed = pack(QuantTensor(U4G32O, (32, 32), parts), layout_of(U4G32O))
    words = packed[:512].view(np.uint32)
    assert len(packed) == 640
    assert (
        words[0] == 0x8642_7531
    )  # k = 7 5 3 1 are 8 6 4 2 in the high half-word, k = 6 4 2 0 in the low one
    assert words[16 + 1] == 9
    assert words[64 + 0] == 10 << 16
    assert words.nonzero()[0].tolist() == [0, 17, 64]
    assert packed[512:576].view(np.float16).tolist() == list(range(32))
    assert packed[576:].view(np.float16).tolist() == [2.0] * 32


def test_planes_of_five_bits() -> None:
    codes = np.zeros((1, 32), np.uint8)
    codes[0, 0], codes[0, 3], codes[0, 31] = 0b10001, 0b10010, 0b11111
    parts = {"codes": codes, "scale": np.zeros((1, 1), np.float16), "offset": np.zeros((1, 1), np.float16)}
    words = pack(QuantTensor(U5G32O, (1, 32), parts), layout_of(U5G32O))[:640].view(np.uint32)
    assert words[0] == 1 | 2 << 20  # k = 3 is field 4 + 1
    assert words[3 * 16] == 15 << 28
    assert (
        words[128] == 1 | 1 << 17 | 1 << 31
    )  # the plane of the fifth bit: field of k = 3 is 16 + 1, of k = 31 is 31


def test_padding_rows_have_code_and_scale_zero() -> None:
    for scheme, stored in ((I4G32, 0x88), (I8G32, 0), (U4G32O, 0)):
        parts = {
            role: np.ones(shape, array_dtype(scheme.part_dtypes()[role]))
            for role, shape in scheme.part_shapes(1, 32).items()
        }
        packed = pack(QuantTensor(scheme, (1, 32), parts), layout_of(scheme))
        size = 32 * scheme.codes.bits * 4
        lanes = packed[:size].reshape(-1, 16, 4)
        assert (lanes[:, 1:] == stored).all()
        assert not packed[size:].view(np.float16).reshape(-1, 32)[:, 1:].any()


def test_what_a_layout_does_not_hold_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown layout 'n16'"):
        layouts.layout("n16", BF16)
    for name, scheme in (("n32k256", U4G32O), ("n32k32", Scheme(dtype.U4, CHANNEL, scale=dtype.F16))):
        with pytest.raises(ValueError, match="does not hold scheme"):
            layouts.layout(name, scheme)
    with pytest.raises(ValueError, match="K=48 is not a multiple of 32"):
        layouts.packed_bytes(layout_of(U4G32O), 32, 48)


@pytest.mark.parametrize("scheme", SCHEMES.values(), ids=str)
def test_the_library_packs_the_same_bytes(scheme: Scheme) -> None:
    backend = CpuBackend(detect(), 1)
    layout = layout_of(scheme)
    for n, k in ((1, layout.block_k), (70, 2 * layout.block_k), (64, 3 * layout.block_k)):
        tensor = any_tensor(scheme, n, k)
        packer = backend.packer(layout, n, k)
        for start in range(0, n, 32):
            rows = slice(start, min(start + 32, n))
            parts = {role: part[rows] for role, part in tensor.parts.items()}
            packer.write(start, QuantTensor(scheme, (rows.stop - rows.start, k), parts))
        packed = np.asarray(backend.array(packer.finish().data)).view(np.uint8).reshape(-1)
        expected = pack(tensor, layout)
        differ = np.flatnonzero(packed != expected)
        assert not differ.size, f"first differing byte of {scheme} [{n}, {k}]: {differ[0]}"
