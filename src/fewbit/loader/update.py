"""New weights for a loaded model: packed beside those that serve, checked, and then put in their place all at once.

The packed weights keep their addresses and layouts, which compiled plans hold. Until `commit` nothing of them is touched, so
whatever is wrong with an update leaves the old weights whole; it costs the memory of the tensors it holds a second time.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from fewbit.config import format_bytes
from fewbit.formats.finite import check_finite
from fewbit.kernels.backend import Backend, Packer
from fewbit.layers.method import Block
from fewbit.loader import LoadedModel
from fewbit.loader.memory import MemoryRefused
from fewbit.loader.pieces import PANEL_ROWS
from fewbit.loader.stream import embedding_block
from fewbit.platforms.linux.memory import read_memory
from fewbit.schemes.reference import dequantize
from fewbit.schemes.stack import as_rows, stack
from fewbit.spec.buffer import Buffer
from fewbit.spec.layout import PackedTensor
from fewbit.spec.refusal import FewbitError
from fewbit.spec.scheme import QuantTensor, Scheme

SOURCE = Path("the update")


class UpdateRefused(FewbitError):
    """Nothing of the update was taken, and the old weights serve on; the text says what was wrong."""


@dataclass(frozen=True, slots=True)
class _Place:
    """Rows [row, row + n) of a block's matrix, or elements of a vector in f32."""

    n: int
    row: int
    block: int = -1
    vector: Buffer | None = None


@dataclass(slots=True)
class _Staged:
    """A block under way. `waiting`: rows by tensor that begin or end inside a panel, until their neighbours are there."""

    packer: Packer
    filled: dict[str, int] = field(default_factory=dict)
    waiting: dict[str, list[QuantTensor]] = field(default_factory=dict)


class Weights:
    """The tensors of a loaded model by canonical name, or by the name that its file gives their codes."""

    def __init__(self, loaded: LoadedModel, backend: Backend) -> None:
        self.backend, self._schemes, self._names = backend, loaded.report.consumed, loaded.disk_names
        self._blocks: list[tuple[Block, PackedTensor]] = []
        self._places: dict[str, _Place] = {}
        for method in loaded.prepared.linears:
            for block, linear in zip(
                method.blocks, loaded.parameters.linears[method.spec.name].blocks, strict=True
            ):
                self._place(block, linear.weight, linear.bias)
        if not loaded.prepared.spec.embedding.tied_to:
            table = embedding_block(loaded.prepared.embedding)
            self._place(table, loaded.parameters.embedding.weight, None)
        for vector in loaded.prepared.spec.vectors:
            held = loaded.parameters.vectors[vector.name]
            self._places[vector.tensor.name] = _Place(vector.tensor.shape[0], 0, vector=held)
        self.abandon()

    def _place(self, block: Block, weight: PackedTensor, bias: Buffer | None) -> None:
        row = 0
        for tensor, own in zip(block.weights, block.biases, strict=True):
            n = tensor.shape[0]
            self._places[tensor.name] = _Place(n, row, len(self._blocks))
            if own:
                self._places[own.name] = _Place(n, row, vector=bias)
            row += n
        self._blocks.append((block, weight))

    def scheme(self, name: str) -> Scheme:
        return self._schemes[self._canonical(name)]

    def abandon(self) -> None:
        """Forget what was added since the last commit."""
        self._staged: dict[int, _Staged] = {}
        self._vectors: dict[str, np.ndarray] = {}

    def add(self, name: str, start: int, rows: QuantTensor) -> None:
        """Rows [start, ...) of a tensor; they come in order, the tensors in any. UpdateRefused names what is wrong."""
        name = self._canonical(name)
        place, scheme = self._places[name], self._schemes[name]
        if len(rows.shape) != (2 if place.vector is None else 1):
            raise UpdateRefused(f"tensor {name!r} has the shape {list(rows.shape)}, unlike the model's")
        if rows.scheme != scheme:
            raise UpdateRefused(
                f"tensor {name!r} is {rows.scheme}, but the model serves it as {scheme}; give it so"
            )
        check_codes(name, rows)
        check_finite(rows, SOURCE, name, start)
        if place.vector is not None:
            self._vectors[name] = dequantize(rows)
            self._check_rows(name, place, 0, start, rows)
            return
        staged = self._staged.get(place.block) or self._begin(place.block)
        self._check_rows(name, place, staged.filled.get(name, 0), start, rows)
        if rows.shape[1] != self._blocks[place.block][0].k:
            k = self._blocks[place.block][0].k
            raise UpdateRefused(
                f"tensor {name!r} has {rows.shape[1]} columns, the model has {k}; give it whole"
            )
        staged.filled[name] = start + rows.shape[0]
        self._write(staged, name, place, start, rows)

    def commit(self) -> int:
        """Put all that was added in place; the caller makes sure that no step runs. Returns the number of tensors."""
        count = len(self._vectors) + sum(len(staged.filled) for staged in self._staged.values())
        ready = []
        for number, staged in self._staged.items():
            block, weight = self._blocks[number]
            missing = [w.name for w in block.weights if staged.filled.get(w.name, 0) < w.shape[0]]
            if missing:
                raise UpdateRefused(
                    f"rows of {', '.join(missing)} are missing; they share a matrix with "
                    f"{', '.join(staged.filled)}, which is only replaced whole"
                )
            self._write_waiting(staged, block)
            ready.append((weight.data, staged.packer.finish().data))
        for old, new in ready:
            self.backend.array(old)[...] = self.backend.array(new)
        for name, values in self._vectors.items():
            place = self._places[name]
            assert place.vector is not None
            self.backend.array(place.vector)[place.row : place.row + place.n] = values
        self.abandon()
        return count

    def _canonical(self, name: str) -> str:
        name = self._names.get(name, name)
        if name not in self._places:
            raise UpdateRefused(f"the model has no tensor {name!r}; its names are those of the checkpoint")
        return name

    def _begin(self, number: int) -> _Staged:
        block, weight = self._blocks[number]
        need, memory = self.backend.packed_bytes(weight.layout, block.n, block.k), read_memory()
        if need > memory.available_bytes:
            raise MemoryRefused(
                f"the update needs {format_bytes(need)} for {block.weights[0].name} beside the weights that serve, but the "
                f"{memory.bound} has {format_bytes(memory.available_bytes)} left; update fewer tensors at a time"
            )
        self._staged[number] = _Staged(self.backend.packer(weight.layout, block.n, block.k))
        return self._staged[number]

    def _check_rows(self, name: str, place: _Place, filled: int, start: int, rows: QuantTensor) -> None:
        stop = start + rows.shape[0]
        if start != filled or stop > place.n or (place.vector is not None and stop != place.n):
            raise UpdateRefused(
                f"tensor {name!r} comes with rows {start} to {stop} after {filled} of {place.n}; give each tensor once and whole"
            )

    def _write(self, staged: _Staged, name: str, place: _Place, start: int, rows: QuantTensor) -> None:
        block = self._blocks[place.block][0]
        first = place.row + start
        stop = first + rows.shape[0]
        if first % PANEL_ROWS or (stop % PANEL_ROWS and stop != block.n):
            staged.waiting.setdefault(name, []).append(rows)
        else:
            staged.packer.write(first, as_rows(rows, block.scheme))

    def _write_waiting(self, staged: _Staged, block: Block) -> None:
        """Neighbours whose borders lie inside panels, each run of them as one piece."""
        run: list[QuantTensor] = []
        row = first = 0
        for weight in block.weights:
            pieces = staged.waiting.get(weight.name, [])
            held = sum(piece.shape[0] for piece in pieces)
            if pieces and not run:
                first = row + weight.shape[0] - held
            run += pieces
            row += weight.shape[0]
            if run and (row % PANEL_ROWS == 0 or row == block.n):
                staged.packer.write(first, stack(run, block.scheme))
                run = []


def check_codes(name: str, rows: QuantTensor) -> None:
    """Numbers that need more bits than their type has would be cut when packed."""
    for role, element in rows.scheme.part_dtypes().items():
        part = rows.parts[role]
        if element.bits >= 8 * part.itemsize or not part.size:
            continue
        low, high = (0, (1 << element.bits) - 1) if element.is_float else (element.lowest, element.highest)
        if part.min() < low or part.max() > high:
            raise UpdateRefused(
                f"tensor {name!r} has {role} from {part.min()} to {part.max()}, but {element} goes from {low} to {high}"
            )
