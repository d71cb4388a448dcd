"""Streams a weight into its layout: each piece of canonical rows is packed by the library's pack kernel, then forgotten."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

import numpy as np

from fewbit.kernels.cpu import abi
from fewbit.kernels.cpu.lower import find
from fewbit.kernels.cpu.memory import allocate
from fewbit.kernels.storage import wrap
from fewbit.spec.dtype import U8
from fewbit.spec.layout import Layout, PackedTensor
from fewbit.spec.scheme import QuantTensor

if TYPE_CHECKING:
    from fewbit.kernels.cpu.backend import CpuBackend


class PiecePacker:
    """Rows are added in order; every piece but the last has a multiple of the layout's panel height."""

    def __init__(self, backend: CpuBackend, layout: Layout, n: int, k: int) -> None:
        self.backend, self.layout, self.n, self.k = backend, layout, n, k
        choice = backend.selector.choose("pack", layout.scheme.name, (("n", n), ("k", k)), layout.name)
        self.kernel = find(choice.row_for(1), backend.library)
        self.memory = allocate(backend.packed_bytes(layout, n, k))
        self.rows = 0

    def add(self, piece: QuantTensor) -> None:
        if self.rows % self.layout.panel_n:
            raise ValueError(
                f"a piece of rows after row {self.rows}, which is inside a panel of {self.layout.panel_n}"
            )
        rows, k = piece.shape
        if piece.scheme != self.layout.scheme or k != self.k or self.rows + rows > self.n:
            raise ValueError(
                f"{piece.scheme} [{rows}, {k}] does not continue {self.layout.scheme} [{self.n}, {self.k}]"
            )
        parts = {role: np.ascontiguousarray(part) for role, part in piece.parts.items()}
        struct = abi.STRUCTS["pack"]()
        for role, part in parts.items():
            setattr(struct, role, part.ctypes.data)
        struct.packed = self.memory.ctypes.data + self.backend.packed_bytes(self.layout, self.rows, k)
        struct.codes_stride = k
        struct.scale_stride = parts["scale"].shape[1] if "scale" in parts else 0
        struct.super_scale_stride = parts["super_scale"].shape[1] if "super_scale" in parts else 0
        struct.n, struct.k = rows, k
        step = abi.Step(self.kernel, ctypes.addressof(struct), 0, 0)
        self.backend.library.fb_run(self.backend.pool.handle, ctypes.byref(step), 1)
        self.rows += rows

    def finish(self) -> PackedTensor:
        if self.rows != self.n:
            raise ValueError(f"packed {self.rows} of {self.n} rows")
        return PackedTensor(self.layout, self.n, self.k, wrap(self.memory, (self.memory.size,), U8))
