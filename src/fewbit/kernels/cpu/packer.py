"""Packs a weight into its layout: each piece of canonical rows by the library's pack kernel, in the thread that brings it."""

from __future__ import annotations

import ctypes
import threading
from typing import TYPE_CHECKING, Any

import numpy as np

from fewbit.address import address
from fewbit.kernels.cpu import abi
from fewbit.kernels.cpu.lower import find
from fewbit.kernels.cpu.memory import allocate
from fewbit.kernels.storage import wrap
from fewbit.layouts.n32parts import layout as n32parts
from fewbit.layouts.n32parts.rows import form_bytes, row_parts
from fewbit.spec.dtype import U8
from fewbit.spec.layout import Layout, PackedTensor
from fewbit.spec.scheme import QuantTensor

if TYPE_CHECKING:
    from fewbit.kernels.cpu.backend import CpuBackend

ALONE = abi.Worker(
    thread=0, threads=1
)  # the calling thread does all of the kernel's work; packing takes no scratch


class PiecePacker:
    """Pieces begin at panels and end at panels or the last row, so several threads may write at once. The kernel is called
    outside the thread pool: the caller decides how many pieces are in flight."""

    def __init__(self, backend: CpuBackend, layout: Layout, n: int, k: int) -> None:
        self.layout, self.n, self.k = layout, n, k
        choice = backend.selector.choose("pack", layout.scheme.name, (("n", n), ("k", k)), layout.name)
        self.run = find(choice.row_for(1), backend.library).contents.run
        self.head_bytes = backend.packed_bytes(layout, 0, k)
        self.panel_bytes = backend.packed_bytes(layout, layout.panel_n, k) - self.head_bytes
        self.memory = allocate(backend.packed_bytes(layout, n, k))
        self.address = address(self.memory)
        self.rows, self._lock, self._headed = 0, threading.Lock(), False

    def write(self, row: int, piece: QuantTensor) -> None:
        rows, k = piece.shape
        stop, panel = row + rows, self.layout.panel_n
        if row % panel or (stop % panel and stop != self.n):
            raise ValueError(
                f"rows {row} to {stop} of {self.n} are no whole panels of {panel} rows, nor end the weight"
            )
        if piece.scheme != self.layout.scheme or k != self.k or not 0 <= row <= stop <= self.n:
            raise ValueError(
                f"{piece.scheme} [{rows}, {k}] at row {row} is no part of {self.layout.scheme} [{self.n}, {self.k}]"
            )
        struct = abi.STRUCTS["pack"]()
        struct.packed = self.address + self.head_bytes + row // panel * self.panel_bytes
        struct.codes_stride, struct.n, struct.k = k, rows, k
        alive = (
            self._apart(struct, piece) if self.layout.name in n32parts.NAMES else _as_they_are(struct, piece)
        )
        self.run(ctypes.addressof(struct), 0, ctypes.byref(ALONE))
        del alive
        with self._lock:
            self.rows += rows

    def _apart(self, struct: Any, piece: QuantTensor) -> Any:
        """Every part by row."""
        self._write_head(piece)
        parts = row_parts(piece)
        struct.form = self.address
        struct.codes, struct.scale = address(parts.codes), address(parts.scale)
        struct.scale_stride = parts.scale.shape[1]
        if parts.extra is not None:
            struct.offset = address(parts.extra)
        if parts.supers is not None:
            struct.super_scale, struct.super_scale_stride = address(parts.supers), 1
        return parts

    def _write_head(self, piece: QuantTensor) -> None:
        """With the first piece; it is the same for all."""
        with self._lock:
            if not self._headed:
                self.memory[: self.head_bytes] = form_bytes(self.layout, self.k, piece.parts.get("codebook"))
                self._headed = True

    def repeat(self, rows: int) -> None:
        """The first `rows` rows, whole panels that alone were written, again and again; what is left, less than `rows`, is the
        caller's to write. Random weights of any size come about so at the speed of memory."""
        if self.rows != rows or rows % self.layout.panel_n or not rows:
            raise ValueError(f"{self.rows} rows were written, not {rows} in whole panels")
        times, size = self.n // rows, rows // self.layout.panel_n * self.panel_bytes
        body, filled = self.memory[self.head_bytes : self.head_bytes + times * size], size
        while filled < body.size:
            taken = min(filled, body.size - filled)
            body[filled : filled + taken] = body[:taken]
            filled += taken
        self.rows = times * rows

    def finish(self) -> PackedTensor:
        if self.rows != self.n:
            raise ValueError(f"packed {self.rows} of {self.n} rows")
        return PackedTensor(self.layout, self.n, self.k, wrap(self.memory, (self.memory.size,), U8))


def _as_they_are(struct: Any, piece: QuantTensor) -> Any:
    parts = {role: np.ascontiguousarray(part) for role, part in piece.parts.items()}
    for role, part in parts.items():
        setattr(struct, role, address(part))
    struct.scale_stride = parts["scale"].shape[1] if "scale" in parts else 0
    struct.super_scale_stride = parts["super_scale"].shape[1] if "super_scale" in parts else 0
    return parts
