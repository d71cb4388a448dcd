"""What a QuIP# layer does to inputs and outputs: SU, SV and scales, and Hadamard matrices of both lengths.

    x' = (L^T (x) H) (SU / scaleWH * x)        y = SV * Wscale * fuse_scales * (R (x) H) (W x')

H is Sylvester's matrix over its root. L and R are [1], or had_left and had_right where a length is no power of two.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fewbit.formats.folder.parts import Computed
from fewbit.formats.folder.resolve import Auxiliary, Module
from fewbit.formats.folder.safetensors import DiskTensor
from fewbit.formats.folder.scales import FLOATS
from fewbit.formats.quip.config import Settings
from fewbit.schemes.arrays import Array
from fewbit.schemes.floats.table import widen
from fewbit.spec.dtype import F32
from fewbit.spec.refusal import CheckpointError

CLOSE = 0.02  # to an orthogonal matrix, of one stored in 16 bits


def input_scale(module: Module, settings: Settings, k: int, rule: str) -> Auxiliary:
    """SU, divided by scaleWH."""
    signs = module.need("SU", rule, *FLOATS, shape=(k,))
    if not settings.rescaled:
        return _vector(signs, (signs,), lambda: _floats(signs))
    divisor = module.need("scaleWH", rule, *FLOATS, shape=(k,))

    def scaled() -> Array:
        below = _floats(divisor)
        if not np.isfinite(below).all() or (below == 0).any():
            module.wrong(divisor, "finite numbers other than 0, since inputs are divided by them")
        quotient: Array = _floats(signs) / below
        return quotient

    return _vector(signs, (signs, divisor), scaled)


def output_scale(module: Module, settings: Settings, n: int, rule: str) -> Auxiliary:
    overall = module.need("Wscale", rule, *FLOATS, shape=())
    signs = module.need("SV", rule, *FLOATS, shape=(n,))
    used, sizes = [signs, overall], settings.fused(module.name)
    if sizes:
        used.append(module.need("fuse_scales", rule, *FLOATS, shape=(len(sizes),)))
        if sum(sizes) != n:
            module.fail(f"has {n} rows, expected {' + '.join(map(str, sizes))} by the model's config")
        if "bias" in module.leaves:
            module.fail("has a bias beside fuse_scales, which multiply it too; that is not supported")

    def product() -> Array:
        scale = _floats(signs) * _floats(overall)
        return scale * np.repeat(_floats(used[-1]), sizes) if sizes else scale

    return _vector(signs, tuple(used), product)


def factor(module: Module, leaf: str, length: int) -> Auxiliary:
    """The factor of a Hadamard matrix of `length` beside Sylvester's: the stored one, transposed where it is had_left."""
    name, stored = f"{module.name}.{leaf}", module.get(leaf, *FLOATS)
    if stored is None:
        if length & (length - 1):
            module.fail(
                f"is rotated by a Hadamard matrix of order {length}, no power of two, and holds no {leaf!r}; such matrices come "
                "from a table of the tool that wrote it, which is not supported"
            )
        return Auxiliary(name, F32, (1, 1), One())
    size = stored.shape[0] if len(stored.shape) == 2 else 0
    if stored.shape != (size, size) or not size or length % size or (length // size) & (length // size - 1):
        module.wrong(stored, f"a square matrix whose extent divides {length} into a power of two")
    return Auxiliary(name, F32, stored.shape, Factor(stored, leaf == "had_left"))


@dataclass(frozen=True, slots=True)
class One:
    """Of an order that is a power of two: nothing is stored."""

    tensors: tuple[DiskTensor, ...] = ()

    def read(self, start: int, stop: int) -> Array:
        return np.ones((1, 1), np.float32)


@dataclass(frozen=True, slots=True)
class Factor:
    """f32 [q, q], orthogonal; stored may be a Hadamard matrix of ones."""

    tensor: DiskTensor
    transposed: bool

    @property
    def tensors(self) -> tuple[DiskTensor, ...]:
        return (self.tensor,)

    def read(self, start: int, stop: int) -> Array:
        stored = _floats(self.tensor).astype(np.float64)
        if (np.abs(stored) == 1).all():
            stored /= np.sqrt(len(stored))
        if not np.abs(stored @ stored.T - np.eye(len(stored))).max() < CLOSE:
            raise CheckpointError(
                f"{self.tensor.file.path}: tensor {self.tensor} is no orthogonal matrix, expected one that rotates; the "
                "checkpoint is broken"
            )
        return np.ascontiguousarray(stored.T if self.transposed else stored).astype(np.float32)


def _floats(tensor: DiskTensor) -> Array:
    return widen(tensor.whole(), tensor.dtype)


def _vector(first: DiskTensor, tensors: tuple[DiskTensor, ...], value: Callable[[], Array]) -> Auxiliary:
    return Auxiliary(first.name, F32, first.shape, Computed(tensors, lambda start, stop: value()[start:stop]))
