"""Tensors that are missing, too many, of another shape or type, not finite, or point beyond their groups."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from fewbit.formats.folder.writer import DiskArray
from fewbit.schemes.arrays import Array
from tests.formats.edits import drop, put, read_tensors, tensors
from tests.formats.faults.place import Fault, leaves, owner


def missing_tensors(folder: Path) -> Iterator[Fault]:
    for leaf in leaves(folder):
        yield Fault(leaf, drop(leaf), owner(leaf))


def extra_tensors(folder: Path) -> Iterator[Fault]:
    module = owner(leaves(folder)[0])[0]
    for name in (f"{module}.mystery", f"{module}.0.deeper", "mystery"):
        for kind, array in (("I32", np.zeros(4, np.int32)), ("U8", np.zeros(4, np.uint8))):
            extra = DiskArray(kind, array)
            yield Fault(f"{name} {kind}", tensors(lambda held, n=name, d=extra: held.update({n: d})), (name,))
    held = read_tensors(folder)
    for leaf in leaves(folder):
        name = leaf.replace(module, "model.norm")
        if name not in held:
            yield Fault(
                name, tensors(lambda held, n=name, o=leaf: held.update({n: held[o]})), ("model.norm",)
            )


def wrong_shapes(folder: Path) -> Iterator[Fault]:
    held = read_tensors(folder)
    for leaf in leaves(folder):
        shape = held[leaf].array.shape
        changes: dict[str, Callable[[Array], Array]] = {"one more axis": lambda a: a[None]}
        for axis, extent in enumerate(shape):
            changes[f"axis {axis} twice"] = lambda a, x=axis: np.concatenate([a, a], x)
            if extent > 1:
                changes[f"axis {axis} cut"] = lambda a, x=axis: np.delete(a, -1, x)
        if len(shape) > 1 and shape[0] != shape[1] and min(shape) > 1:
            changes["turned"] = lambda a: np.swapaxes(a, 0, 1)
        for what, change in changes.items():
            yield Fault(f"{leaf} {what}", put(leaf, change), owner(leaf))


def wrong_types(folder: Path) -> Iterator[Fault]:
    """The same bytes under another type of the same width, and one that no format uses."""
    others = {
        "F32": "I32", "I32": "F32", "U32": "F32", "F16": "I16", "BF16": "I16", "U8": "F8_E5M2", "I8": "F8_E5M2", "F8_E4M3": "I8",
        "I64": "F64", "I16": "F16", "F8_E8M0": "I8",
    }  # fmt: skip
    held = read_tensors(folder)
    for leaf in leaves(folder):
        yield Fault(leaf, put(leaf, lambda a: a, others[held[leaf].kind]), owner(leaf))
        yield Fault(f"{leaf} F64", put(leaf, lambda a: np.zeros(a.shape, np.float64), "F64"), owner(leaf))


def not_finite(folder: Path) -> Iterator[Fault]:
    held = read_tensors(folder)
    for leaf in leaves(folder):
        kind = held[leaf].kind
        values = {
            "F32": (np.nan, -np.inf),
            "F16": (np.nan, np.inf),
            "BF16": (0x7FC0, 0xFF80),
            "F8_E4M3": (0x7F,),
            "F8_E8M0": (0xFF,),
        }
        exponents = kind == "U8" and leaf.endswith(
            ("weight_scale", "_scales")
        )  # E8M0, of formats without a type for it
        for value in (0xFF,) if exponents else values.get(kind, ()):

            def change(array: Array, value: Any = value) -> Array:
                out = array.copy()
                out.reshape(-1)[-1] = value
                return out

            yield Fault(f"{leaf} {value}", put(leaf, change), owner(leaf))


def indices(folder: Path) -> Iterator[Fault]:
    """Only formats with an index of groups have one."""
    for leaf in leaves(folder):
        if leaf.endswith("g_idx"):
            for value in (-1, 1 << 20, (1 << 31) - 1):

                def change(array: Array, value: int = value) -> Array:
                    out = array.copy()
                    out[3] = value
                    return out

                yield Fault(f"{leaf} {value}", put(leaf, change), owner(leaf))
