"""The client's side of an update of weights: tensors as messages of bounded size, each waited for; and back in the engine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import count
from math import lcm, prod
from typing import Any, Protocol

import numpy as np

from fewbit.engine.channel import Channel
from fewbit.engine.messages import CommitWeights, DropWeights, WeightRows, WeightsReply
from fewbit.schemes.arrays import array_dtype
from fewbit.schemes.rows import rows_of
from fewbit.spec.dtype import BF16, F16, F32
from fewbit.spec.refusal import FewbitError
from fewbit.spec.scheme import QuantTensor, Scheme

MESSAGE_BYTES = 16 << 20
PANEL_ROWS = 32
ALIVE_S = 0.5
PLAIN = {"float32": Scheme(F32), "float16": Scheme(F16), "bfloat16": Scheme(BF16)}

Tensors = Iterable[tuple[str, QuantTensor | np.ndarray[Any, np.dtype[Any]]]]


class WeightStore(Protocol):
    """What the engine needs of the weights it serves."""

    def scheme(self, name: str) -> Scheme: ...
    def add(self, name: str, start: int, rows: QuantTensor) -> None: ...
    def commit(self) -> int: ...
    def abandon(self) -> None: ...


class WeightSender:
    """One update at a time. `alive` tells whether the engine still answers."""

    def __init__(self, channel: Channel, alive: Callable[[], bool]) -> None:
        self._channel, self._alive, self._tickets = channel, alive, count()

    def send(self, tensors: Tensors) -> int:
        """The number of tensors that were replaced, all between the same two steps. FewbitError says why none was."""
        try:
            for name, tensor in tensors:
                for message in _messages(name, as_tensor(name, tensor), self._tickets):
                    self._ask(message)
        except BaseException:
            self._channel.to_engine.send([DropWeights()])
            raise
        return self._ask(CommitWeights(next(self._tickets)))

    def _ask(self, message: WeightRows | CommitWeights) -> int:
        self._channel.to_engine.send([message])
        while True:
            answers = self._channel.weights.receive(ALIVE_S)
            own = next((answer for answer in answers if answer.ticket == message.ticket), None)
            if own and own.error:
                raise FewbitError(own.error)
            if own:
                return own.tensors
            if not answers and not self._alive():
                raise FewbitError("the engine has stopped, so its weights were not replaced")


def as_tensor(name: str, tensor: QuantTensor | np.ndarray[Any, np.dtype[Any]]) -> QuantTensor:
    """Plain floats as a tensor of their own type."""
    if isinstance(tensor, QuantTensor):
        return tensor
    scheme = PLAIN.get(tensor.dtype.name)
    if scheme is None:
        raise FewbitError(
            f"tensor {name!r} is an array of {tensor.dtype}, expected float32, float16 or bfloat16, or a QuantTensor"
        )
    codes = np.ascontiguousarray(tensor).view(array_dtype(scheme.codes))
    return QuantTensor(scheme, tuple(tensor.shape), {"codes": codes})


def _messages(name: str, tensor: QuantTensor, tickets: Iterator[int]) -> Iterator[WeightRows]:
    n = tensor.shape[0]
    unit = lcm(PANEL_ROWS, tensor.scheme.block_n) if len(tensor.shape) == 2 else max(n, 1)
    row_bytes = sum(part.nbytes for part in tensor.parts.values()) // max(n, 1)
    step = max(MESSAGE_BYTES // max(row_bytes, 1) // unit, 1) * unit
    for start in range(0, n, step):
        rows = rows_of(tensor, start, min(start + step, n))
        parts = {role: np.ascontiguousarray(part).tobytes() for role, part in rows.parts.items()}
        scheme, types = tensor.scheme.name, _types(tensor.scheme)
        yield WeightRows(next(tickets), name, scheme, types, list(rows.shape), start, parts)


def _types(scheme: Scheme) -> dict[str, str]:
    return {role: element.name for role, element in scheme.part_dtypes().items()}


def read_rows(message: WeightRows, scheme: Scheme) -> QuantTensor:
    """The rows of a message for a tensor that is served in `scheme`."""
    if (message.scheme, message.types) != (scheme.name, _types(scheme)):
        raise FewbitError(
            f"tensor {message.name!r} is {message.scheme} ({_list(message.types)}), but the model serves it as {scheme} "
            f"({_list(_types(scheme))}); give it so, or load the new checkpoint"
        )
    shape = tuple(message.shape)
    wanted = scheme.part_shapes(*shape) if len(shape) == 2 else {"codes": shape}
    parts = {}
    for role, element in scheme.part_dtypes().items():
        stored, raw = array_dtype(element), message.parts.get(role, b"")
        if role not in wanted or len(raw) != prod(wanted[role]) * stored.itemsize:
            raise FewbitError(
                f"tensor {message.name!r} of shape {list(shape)} has {len(raw)} bytes of {role}"
            )
        parts[role] = np.frombuffer(raw, stored).reshape(wanted[role])
    return QuantTensor(scheme, shape, parts)


def _list(types: dict[str, str]) -> str:
    return ", ".join(f"{role} {element}" for role, element in types.items())


def take(message: WeightRows | CommitWeights, store: WeightStore | None) -> WeightsReply:
    """In the engine, between two steps: what the message asks, and its answer. A refused one ends the update."""
    if store is None:
        return WeightsReply(message.ticket, error="the weights of this engine cannot be replaced")
    try:
        if isinstance(message, CommitWeights):
            return WeightsReply(message.ticket, store.commit())
        store.add(message.name, message.start, read_rows(message, store.scheme(message.name)))
        return WeightsReply(message.ticket)
    except FewbitError as refused:
        store.abandon()
        return WeightsReply(message.ticket, error=str(refused))
