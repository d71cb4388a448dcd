"""What a scale's shape says of its granularity, and the scales beside weights: those of inputs and of the cache."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from fewbit.formats.folder.parts import Blocked, Part, Rows, Shared
from fewbit.formats.folder.resolve import Auxiliary, Module
from fewbit.formats.folder.safetensors import DiskTensor
from fewbit.schemes.arrays import Array
from fewbit.schemes.floats.table import widen
from fewbit.spec.granularity import CHANNEL, TENSOR, Granularity, block, group
from fewbit.spec.refusal import CheckpointError

FLOATS = ("F32", "F16", "BF16")
ONE = ((), (1,), (1, 1))


def scale_by_shape(
    module: Module, scale: DiskTensor, n: int, k: int, tile: tuple[int, int] | None = None
) -> tuple[Granularity, Part]:
    """One scale for the tensor, one a row, or (with `tile`) one for each block of n x k; any other shape is an error."""
    if tile is not None:
        check_border(module, n, tile[0])
        rows, columns = -(-n // tile[0]), -(-k // tile[1])
        if scale.shape not in ((rows, columns), (rows, 1, columns, 1)):
            module.wrong(scale, f"shape {[rows, columns]}, one scale for each block of {tile[0]} x {tile[1]}")
        flat = scale if len(scale.shape) == 2 else replace(scale, shape=(rows, columns))
        return block(*tile), Blocked(flat, tile[0])
    if scale.shape in ONE:
        return TENSOR, Shared(scale, (1,))
    if scale.shape not in ((n,), (n, 1)):
        module.wrong(scale, f"one scale for the tensor, or {n} for its rows")
    return CHANNEL, Rows(scale, (1,))


def check_border(module: Module, n: int, rows: int) -> None:
    """The gate and up of a stack have scales of their own: blocks of `rows` that may lie over the border leave that open."""
    if module.is_half and n % rows and 2 * -(-n // rows) == -(-2 * n // rows):
        module.fail(
            f"has {n} rows in the stack {module.stack!r}, no multiple of its blocks of {rows}, so a block may lie over gate and up; "
            "store the experts one by one"
        )


def scale_of_groups(module: Module, scale: DiskTensor, n: int, k: int, size: int) -> tuple[Granularity, Part]:
    """One scale a row and group; `size` 0: as long as the shape says."""
    groups = scale.shape[1] if len(scale.shape) == 2 and not size else -(-k // (size or k))
    if scale.shape != (n, groups) or not groups or k % groups or (size and k % size):
        said = f"groups of {size}" if size else "groups of equal length"
        module.wrong(scale, f"one scale for each of {n} rows and {said} along K={k}")
    return group(k // groups), Rows(scale)


def one_value(module: Module, leaf: str, rule: str = "") -> Auxiliary | None:
    """A float beside the weight, such as a static input scale; needed where a `rule` is given."""
    tensor = module.need(leaf, rule, *FLOATS) if rule else module.get(leaf, *FLOATS)
    if tensor is None:
        return None
    if tensor.shape not in ONE:
        module.wrong(tensor, "a single number")
    return Auxiliary(f"{module.name}.{leaf}", tensor.dtype, (1,), Shared(tensor, (1,)))


def cache_scales(module: Module, leaves: tuple[str, ...] = ("k_scale", "v_scale")) -> Iterator[Auxiliary]:
    """Scales of the key-value cache, named `<attention>.k_scale` wherever they are stored: there, or beside k_proj."""
    parent, _, last = module.name.rpartition(".")
    for leaf in leaves:
        own = {"k_proj": "k_scale", "v_proj": "v_scale"}.get(last, "" if last.endswith("_proj") else leaf)
        if leaf in module.leaves and own and leaf in (own, "output_scale"):
            found = one_value(module, leaf)
            assert found is not None
            yield replace(found, name=f"{parent if last.endswith('_proj') else module.name}.{own}")


def divisor_of(multiplier: Array) -> Array:
    """f32 [1]: the number whose reciprocal, rounded, is the multiplier; ValueError when there is none, as for about half of
    all multipliers."""
    near = np.float32(1) / np.float32(multiplier.reshape(-1)[0])
    for divisor in (near, np.nextafter(near, np.float32(0)), np.nextafter(near, np.float32(np.inf))):
        if np.float32(1) / divisor == multiplier.reshape(-1)[0]:
            return np.array([divisor], np.float32)
    raise ValueError(
        f"the global scale {multiplier.reshape(-1)[0]!r} is the reciprocal of no number, and a divisor is stored"
    )


@dataclass(frozen=True, slots=True)
class Reciprocal:
    """One number that divides on disk, as the f32 multiplier that it means."""

    tensor: DiskTensor

    @property
    def tensors(self) -> tuple[DiskTensor, ...]:
        return (self.tensor,)

    def read(self, start: int, stop: int) -> Array:
        divisor = widen(self.tensor.whole(), self.tensor.dtype).reshape(1)
        if not np.isfinite(divisor[0]) or divisor[0] == 0:
            raise CheckpointError(
                f"{self.tensor.file.path}: tensor {self.tensor} is {divisor[0]}, expected a finite number other than 0, since "
                "scales are divided by it; the checkpoint is broken"
            )
        multiplier: Array = np.float32(1) / divisor
        return multiplier
