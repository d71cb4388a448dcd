"""Streams tensors into packed weights: a bounded piece of rows is decoded, packed and forgotten.

The format's `read` refuses rows that hold a NaN or an infinity, so every piece was checked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import lcm

import numpy as np

from fewbit.formats.checkpoint import Checkpoint
from fewbit.kernels.backend import Backend
from fewbit.layers.embedding import Embedding
from fewbit.layers.linear import Linear, LinearBlock
from fewbit.layers.method import Block, EmbeddingMethod, LinearMethod
from fewbit.layers.spec import TensorSpec
from fewbit.schemes.reference import dequantize
from fewbit.schemes.stack import stack
from fewbit.spec.buffer import Buffer
from fewbit.spec.dtype import F32
from fewbit.spec.layout import PackedTensor
from fewbit.spec.scheme import QuantTensor, Scheme

PIECE_BYTES = (
    4 << 20
)  # of decoded codes: about what stays in cache between decoding and packing; at most 16 MiB
PANEL_ROWS = 32


class Stream:
    """Counts what it reads. `consumed` maps each tensor to its scheme once all of its rows went into a parameter."""

    def __init__(
        self,
        checkpoint: Checkpoint,
        backend: Backend,
        total_bytes: int,
        progress: Callable[[int, int], None] | None,
    ) -> None:
        self.checkpoint, self.backend, self.progress = checkpoint, backend, progress
        self.total_bytes, self.done_bytes = total_bytes, 0.0
        self.consumed: dict[str, Scheme] = {}

    def linear(self, method: LinearMethod) -> Linear:
        return Linear(tuple(LinearBlock(self._pack(b), self._bias(b), b.choice) for b in method.blocks))

    def embedding(self, method: EmbeddingMethod, tied: Linear | None) -> Embedding:
        """The head's own packed weight when tied."""
        if tied is not None:
            return Embedding(tied.blocks[0].weight)
        n, k = method.spec.weight.shape
        block = Block((method.spec.weight,), (None,), method.scheme, n, k, method.choice)
        return Embedding(self._pack(block))

    def vector(self, tensor: TensorSpec) -> Buffer:
        return self.backend.upload(self._floats(tensor), F32)

    def finish(self) -> None:
        if self.progress:
            self.progress(self.total_bytes, self.total_bytes)

    def _pack(self, block: Block) -> PackedTensor:
        layout = self.backend.layout(block.choice.layout, block.scheme)
        packer = self.backend.packer(layout, block.n, block.k)
        cut = lcm(PANEL_ROWS, block.scheme.block_n)
        step = max(PIECE_BYTES // max(block.k * max(block.scheme.codes.bits, 8) // 8, 1) // cut, 1) * cut
        for start in range(0, block.n, step):
            packer.add(
                stack(
                    [self._read(*part) for part in _rows(block.weights, start, min(start + step, block.n))],
                    block.scheme,
                )
            )
        for weight in block.weights:
            self.consumed[weight.name] = self.checkpoint.tensors[weight.name].scheme
        return packer.finish()

    def _bias(self, block: Block) -> Buffer | None:
        """Of all weights of the block; zeros where one of them has none."""
        if not any(block.biases):
            return None
        pairs = zip(block.weights, block.biases, strict=True)
        values = [
            self._floats(bias) if bias else np.zeros(weight.shape[0], np.float32) for weight, bias in pairs
        ]
        return self.backend.upload(np.concatenate(values), F32)

    def _floats(self, tensor: TensorSpec) -> np.ndarray:
        values = dequantize(self._read(tensor, 0, tensor.shape[0]))
        self.consumed[tensor.name] = self.checkpoint.tensors[tensor.name].scheme
        return values

    def _read(self, tensor: TensorSpec, start: int, stop: int) -> QuantTensor:
        piece = self.checkpoint.read(tensor.name, start, stop)
        info = self.checkpoint.tensors[tensor.name]
        self.done_bytes += info.bytes_on_disk * (stop - start) / max(tensor.shape[0], 1)
        if self.progress:
            self.progress(int(self.done_bytes), self.total_bytes)
        return piece


def _rows(weights: tuple[TensorSpec, ...], start: int, stop: int) -> Iterator[tuple[TensorSpec, int, int]]:
    """Rows [start, stop) of the weights laid below one another, as (tensor, its own start, its own stop)."""
    base = 0
    for weight in weights:
        low, high = max(start - base, 0), min(stop - base, weight.shape[0])
        if low < high:
            yield weight, low, high
        base += weight.shape[0]
