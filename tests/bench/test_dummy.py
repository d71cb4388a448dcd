"""Random weights without a checkpoint: the bytes are those that the packer makes of the same weight, and the values are tame."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fewbit.bench.dummy import ROWS, Dummy, pack_dummy, random_tensor
from fewbit.bench.matrix import Matrix, Operands, check
from fewbit.bench.schemes import COMMON, Asked, parse_schemes
from fewbit.bench.shapes import Shape
from fewbit.kernels.cpu.backend import CpuBackend
from fewbit.layers.method import choose_matrix
from fewbit.platforms.x86.detect import detect
from fewbit.schemes.arrays import Array
from fewbit.schemes.reference import dequantize
from fewbit.spec.cell import Choice
from fewbit.spec.scheme import QuantTensor, Scheme

K = 512


@pytest.fixture(scope="module")
def backend() -> CpuBackend:
    return CpuBackend(detect(), 2)


def whole(tensor: QuantTensor, n: int) -> QuantTensor:
    """The tensor's rows again and again, as canonical parts."""
    parts = {}
    for role, shape in tensor.scheme.part_shapes(n, K).items():
        part: Array = tensor.parts[role]
        parts[role] = part if part.shape == shape else np.resize(part, shape)
    return QuantTensor(tensor.scheme, (n, K), parts)


def chosen(asked: Asked, n: int, backend: CpuBackend, activations: str = "auto") -> tuple[Scheme, Choice]:
    scheme = asked.of(K)
    return scheme, choose_matrix("weight", scheme, n, K, backend.selector, activations)[0]


@pytest.mark.parametrize("name", COMMON)
@pytest.mark.parametrize("n", [100, ROWS, 3 * ROWS, 2 * ROWS + 33])
def test_the_bytes_are_those_of_the_weight_packed_whole(name: str, n: int, backend: CpuBackend) -> None:
    (asked,) = parse_schemes(name)
    scheme, choice = chosen(asked, n, backend)
    tensor = random_tensor(scheme, min(n, ROWS), K, np.random.default_rng(3))
    packer = backend.packer(backend.layout(choice.layout, scheme), n, K)
    packer.write(0, whole(tensor, n))
    dummy = pack_dummy(backend, scheme, choice.layout, n, K, np.random.default_rng(3))
    assert np.array_equal(dummy.packed.data.handle, packer.finish().data.handle)
    assert np.array_equal(dummy.rows, dequantize(tensor))
    copy = dummy.copy()
    assert np.array_equal(copy.data.handle, dummy.packed.data.handle)
    assert copy.data.handle.ctypes.data != dummy.packed.data.handle.ctypes.data


@pytest.mark.parametrize("name", COMMON)
def test_values_are_finite_and_never_subnormal(name: str) -> None:
    (asked,) = parse_schemes(name)
    tensor = random_tensor(asked.of(K), 64, K, np.random.default_rng(4))
    rows = dequantize(tensor)
    assert np.isfinite(rows).all() and np.unique(rows).size > 3
    assert np.abs(rows[rows != 0]).min() >= 2.0**-126
    for role, part in tensor.parts.items():
        if part.dtype == np.float16:
            assert np.abs(part).min() >= 2.0**-14, role


def matrix(name: str, n: int, backend: CpuBackend, m: int, activations: str = "auto") -> Matrix:
    (asked,) = parse_schemes(name)
    scheme, choice = chosen(asked, n, backend, activations)
    dummy = pack_dummy(backend, scheme, choice.layout, n, K, np.random.default_rng(5))
    return Matrix(asked, Shape("", "", n, K), choice, dummy, 3, Operands(backend, m))


@pytest.mark.parametrize(
    ("name", "activations"), [("q4_k", "auto"), ("q4_0", "8"), ("fp8-block", "auto"), ("bf16", "auto")]
)
def test_a_right_answer_is_right_and_another_weight_is_wrong(
    name: str, activations: str, backend: CpuBackend
) -> None:
    made = matrix(name, 200, backend, 40, activations)
    assert [made.wrong(m) for m in (1, 2, 40)] == ["", "", ""]
    rows = made.dummy.rows.copy()
    rows[7] = -rows[7]
    made.dummy = replace(made.dummy, rows=rows)
    assert made.wrong(40).startswith("y[0,7] = ")


def test_one_wrong_element_is_named_and_nan_is_said() -> None:
    rng = np.random.default_rng(6)
    x, rows = rng.standard_normal((4, 64), np.float32), rng.standard_normal((32, 64), np.float32)
    y = np.tile((x @ rows.T), (1, 3))
    assert check(x, rows, y, "f32") == ""
    y[2, 70] += 1
    assert check(x, rows, y, "f32").startswith("y[2,70] = ")
    y[2, 70] = np.nan
    assert check(x, rows, y, "f32") == "a result is not finite"


def test_repeat_refuses_rows_that_were_not_written(backend: CpuBackend) -> None:
    scheme, choice = chosen(parse_schemes("q4_0")[0], 256, backend)
    packer = backend.packer(backend.layout(choice.layout, scheme), 256, K)
    with pytest.raises(ValueError, match="0 rows were written, not 128"):
        packer.repeat(128)


def test_a_dummy_is_made_of_few_random_rows(backend: CpuBackend) -> None:
    scheme, choice = chosen(parse_schemes("mxfp4")[0], 4096, backend)
    dummy: Dummy = pack_dummy(backend, scheme, choice.layout, 4096, K, np.random.default_rng(0))
    assert dummy.rows.shape == (ROWS, K) and dummy.packed.n == 4096
