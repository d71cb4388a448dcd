"""Random weights of a scheme, packed without a checkpoint: a set of rows by the packer that serves, repeated down the matrix.

Values are such as weights have, in range and free of subnormals, NaN and infinities, so that no instruction is slowed by them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fewbit.kernels.cpu.backend import CpuBackend
from fewbit.kernels.cpu.memory import allocate
from fewbit.kernels.storage import wrap
from fewbit.schemes.arrays import Array, array_dtype
from fewbit.schemes.floats.table import narrow, values
from fewbit.schemes.reference import dequantize
from fewbit.spec.dtype import U8, DType
from fewbit.spec.layout import PackedTensor
from fewbit.spec.scheme import QuantTensor, Scheme

ROWS = 128  # drawn at random: whole panels, and whole blocks of 128 x 128
DEVIATION = 0.02  # of plain weights


@dataclass(frozen=True, slots=True)
class Dummy:
    """`rows` f32 [at most ROWS, K], dequantized: row i of the weight is that of i modulo their number."""

    packed: PackedTensor
    rows: Array

    def copy(self) -> PackedTensor:
        """The same bytes elsewhere."""
        memory = allocate(self.packed.data.shape[0])
        memory[:] = self.packed.data.handle
        data = wrap(memory, (memory.size,), U8)
        return PackedTensor(self.packed.layout, self.packed.n, self.packed.k, data)


def pack_dummy(
    backend: CpuBackend, scheme: Scheme, layout: str, n: int, k: int, rng: np.random.Generator
) -> Dummy:
    """A weight [n, k] of `scheme` in the layout of that name."""
    rows = min(ROWS, n)
    tensor = random_tensor(scheme, rows, k, rng)
    packer = backend.packer(backend.layout(layout, scheme), n, k)
    packer.write(0, tensor)
    if n > rows:
        packer.repeat(rows)
        if rest := n % rows:
            packer.write(n - rest, _first_rows(tensor, rest))
    return Dummy(packer.finish(), dequantize(tensor))


def random_tensor(scheme: Scheme, n: int, k: int, rng: np.random.Generator) -> QuantTensor:
    """Codes over their whole range, scales within a factor of 3 of one another, the sign of one in 16 turned."""
    parts: dict[str, Array] = {}
    types = scheme.part_dtypes()
    for role, shape in scheme.part_shapes(n, k).items():
        kind = types[role]
        if scheme.is_plain:
            numbers = rng.standard_normal(shape, np.float32) * np.float32(DEVIATION)
            parts[role] = narrow(np.where(np.abs(numbers) < 1e-3, np.float32(1e-3), numbers), kind)
        elif role == "codebook":
            parts[role] = np.linspace(-1, 1, shape[0]).astype(np.float32)
        elif role == "codes" or not kind.is_float:
            parts[role] = _random_codes(kind, shape, rng)
        else:
            parts[role] = _random_scales(kind, shape, rng)
    return QuantTensor(scheme, (n, k), parts)


def _random_codes(kind: DType, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    if kind.is_float:
        finite = np.flatnonzero(np.isfinite(values(kind.name))).astype(np.uint8)
        drawn: Array = finite[rng.integers(0, finite.size, shape, np.uint16)]
        return drawn
    drawn = rng.integers(kind.lowest, kind.highest, shape, array_dtype(kind), endpoint=True)
    return drawn


def _random_scales(kind: DType, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    """Of 2^-6 and about it; negative now and then where the type has a sign."""
    if kind.name == "e8m0":
        return rng.integers(119, 123, shape).astype(np.uint8)
    numbers = rng.uniform(0.5, 1.5, shape).astype(np.float32) * np.float32(2.0**-6)
    return narrow(np.where(rng.random(shape) < 1 / 16, -numbers, numbers), kind)


def _first_rows(tensor: QuantTensor, rows: int) -> QuantTensor:
    scheme, k = tensor.scheme, tensor.shape[1]
    wanted = scheme.part_shapes(rows, k)
    parts: dict[str, Any] = {
        role: part if part.shape == wanted[role] else part[: wanted[role][0]]
        for role, part in tensor.parts.items()
    }
    return QuantTensor(scheme, (rows, k), parts)
