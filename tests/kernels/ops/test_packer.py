"""Packing in pieces gives the bytes of packing at once, and buffers outlive what they were cut from."""

from __future__ import annotations

import gc

import numpy as np
import pytest

from fewbit.kernels import storage
from fewbit.kernels.cpu.backend import CpuBackend
from fewbit.layouts.n32k32.reference import pack
from fewbit.platforms.x86.detect import detect
from fewbit.schemes import SCHEMES
from fewbit.schemes.reference import quantize
from fewbit.spec.dtype import F32
from fewbit.spec.scheme import QuantTensor


@pytest.fixture(scope="module")
def cpu() -> CpuBackend:
    return CpuBackend(detect(), threads=2)


def rows(tensor: QuantTensor, start: int, stop: int) -> QuantTensor:
    parts = {role: part[start:stop] for role, part in tensor.parts.items()}
    return QuantTensor(tensor.scheme, (parts["codes"].shape[0], tensor.shape[1]), parts)


@pytest.mark.parametrize("scheme", sorted(SCHEMES))
@pytest.mark.parametrize("n", [1, 32, 100])
@pytest.mark.parametrize("step", [32, 64, 128])
def test_pieces_join_to_the_layout(cpu: CpuBackend, scheme: str, n: int, step: int) -> None:
    weight = np.random.default_rng(n).standard_normal((n, 256)).astype(np.float32)
    tensor = quantize(weight, SCHEMES[scheme])
    layout = cpu.layout("n32k256" if tensor.scheme.super_scale else "n32k32", tensor.scheme)
    packer = cpu.packer(layout, n, 256)
    for start in range(0, n, step):
        packer.write(start, rows(tensor, start, start + step))
    packed = packer.finish()
    assert (packed.n, packed.k) == (n, 256)
    np.testing.assert_array_equal(storage.view(packed.data), pack(tensor, layout))


def test_pieces_that_are_no_panels_are_refused(cpu: CpuBackend) -> None:
    tensor = quantize(np.zeros((64, 32), np.float32), SCHEMES["i4g32"])
    packer = cpu.packer(cpu.layout("n32k32", tensor.scheme), 64, 32)
    for start, stop in ((0, 20), (20, 64)):
        with pytest.raises(ValueError, match=f"rows {start} to {stop} of 64 are no whole panels of 32 rows"):
            packer.write(start, rows(tensor, start, stop))
    packer.write(32, rows(tensor, 32, 64))
    with pytest.raises(ValueError, match="packed 32 of 64 rows"):
        packer.finish()
    whole = cpu.packer(cpu.layout("n32k32", tensor.scheme), 32, 32)
    with pytest.raises(ValueError, match=r"i4g32 \[64, 32\] at row 0 is no part of i4g32 \[32, 32\]"):
        whole.write(0, tensor)


def test_memory_lives_as_long_as_a_view_of_it(cpu: CpuBackend) -> None:
    view = storage.view(cpu.upload(np.arange(6.0).reshape(2, 3), F32).columns(1, 3))
    gc.collect()
    others = [cpu.empty((64,), F32) for _ in range(100)]
    np.testing.assert_array_equal(view, [[1, 2], [4, 5]])
    assert view.ctypes.data % 64 == 4 and all(other.handle.ctypes.data % 64 == 0 for other in others)
