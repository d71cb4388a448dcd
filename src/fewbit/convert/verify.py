"""The proof: what was written is opened again and compared with the source, bit by bit."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from fewbit.convert.plan import Planned, Progress
from fewbit.convert.rewrite import Inexact, prove
from fewbit.convert.same_model import difference
from fewbit.convert.source import Source
from fewbit.convert.target import described
from fewbit.formats import open_checkpoint
from fewbit.formats.checkpoint import Checkpoint
from fewbit.formats.folder.checkpoint import FolderCheckpoint
from fewbit.schemes.reference import dequantize
from fewbit.spec.refusal import FewbitError
from fewbit.spec.scheme import QuantTensor


@dataclass(slots=True)
class Error:
    """What rounding cost: sums over weights, so that errors of several tensors add up."""

    weights: int = 0
    squares: float = 0.0
    of_squares: float = 0.0
    largest: float = 0.0

    def add(self, source: QuantTensor, result: QuantTensor) -> None:
        exact, rounded = (dequantize(t).astype(np.float64) for t in (source, result))
        self.weights += exact.size
        self.squares += float(np.square(rounded - exact).sum())
        self.of_squares += float(np.square(exact).sum())
        self.largest = max(self.largest, float(np.abs(rounded - exact).max(initial=0)))

    def join(self, other: Error) -> None:
        self.weights += other.weights
        self.squares += other.squares
        self.of_squares += other.of_squares
        self.largest = max(self.largest, other.largest)

    @property
    def relative_rms(self) -> float:
        """Root mean square of the difference, over that of the weights."""
        return float(np.sqrt(self.squares / self.of_squares)) if self.of_squares else 0.0


@dataclass(slots=True)
class Proof:
    """`errors` by tensor name, of those that were rounded; all others are bit-equal."""

    tensors: int = 0
    weights: int = 0
    errors: dict[str, Error] = field(default_factory=dict)


def verify(source: Source, plan: list[Planned], written: Path, progress: Progress) -> Proof:
    """FewbitError when anything is not as planned: then nothing is published."""
    result = open_checkpoint(written)
    try:
        return _compare(source, plan, result, progress)
    finally:
        result.close()


def _compare(source: Source, plan: list[Planned], result: Checkpoint, progress: Progress) -> Proof:
    proof = Proof()
    missing = {p.info.name for p in plan} ^ result.tensors.keys()
    if missing:
        raise _failed(source, sorted(missing)[0], "is not the same in both")
    for planned in plan:
        name = planned.info.name
        try:
            _tensor(source, planned, result, proof)
        except Inexact as error:
            raise _failed(source, name, str(error)) from None
        _layer(source, planned, result)
        proof.tensors += 1
        progress(planned.info.bytes_on_disk)
    _cache(source, result)
    other = difference(source.checkpoint, result)
    if other:
        raise FewbitError(
            f"{source.path}: {other}; nothing was written, since the result would not be the same model"
        )
    return proof


def _tensor(source: Source, planned: Planned, result: Checkpoint, proof: Proof) -> None:
    name = planned.info.name
    found = result.tensors[name]
    if found.shape != planned.info.shape or (planned.said is None and found.scheme != planned.scheme):
        raise Inexact(f"came back as {found.scheme} {list(found.shape)}")
    error = Error()
    for start, piece in planned.pieces(source):
        rows = piece.shape[0]
        step = found.scheme.block_n
        stop = start + rows
        if start % step:
            raise Inexact(f"came back in blocks of {step} rows")
        back = result.read(name, start, stop)
        if planned.is_rounded:
            prove(planned.convert(piece), back, start)
            error.add(piece, back)
        else:
            prove(piece, back, start)
        proof.weights += int(np.prod(piece.shape))
    if planned.is_rounded:
        proof.errors[name] = error


def _layer(source: Source, planned: Planned, result: Checkpoint) -> None:
    """What is stored beside a weight came back, value by value."""
    name = planned.info.name
    ours, theirs = source.layer(planned.info), result.tensors[name].layer
    if described(ours) != described(theirs):
        raise _failed(
            source, name, f"has {described(ours)} beside its weights, which came back as {described(theirs)}"
        )
    back = Source(result)
    for (role, of), (_, to) in zip(source.roles(planned.info), back.roles(result.tensors[name])):
        _same_values(source, of, back, to, role)


def _cache(source: Source, result: Checkpoint) -> None:
    back = Source(result)
    ours, theirs = source.cache(), back.cache() if isinstance(result, FolderCheckpoint) else []
    if set(ours) != set(theirs):
        raise _failed(source, sorted(set(ours) ^ set(theirs))[0], "is not the same in both")
    for name in ours:
        _same_values(source, name, back, name, "cache")


def _same_values(source: Source, of: str, back: Source, to: str, role: str) -> None:
    exact, found = source.stored(of).values, back.stored(to).values
    if exact.size != found.size or exact.tobytes() != found.reshape(exact.shape).tobytes():
        raise _failed(source, of, f"({role}) came back with other values")


def _failed(source: Source, name: str, why: str) -> FewbitError:
    return FewbitError(
        f"{source.path}: tensor {name} {why}; nothing was written, since the result would not be the same model"
    )
