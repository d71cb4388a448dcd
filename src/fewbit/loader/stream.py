"""Streams tensors into packed weights: each thread decodes a bounded piece of rows, packs it and forgets it.

The format's `read` refuses rows that hold a NaN or an infinity, so every piece was checked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from fewbit.formats.checkpoint import Checkpoint
from fewbit.kernels.backend import Backend, Packer
from fewbit.layers.declared import input_codes
from fewbit.layers.embedding import Embedding
from fewbit.layers.linear import Linear, LinearBlock
from fewbit.layers.method import Block, EmbeddingMethod, LinearMethod
from fewbit.layers.spec import ModelSpec, TensorSpec
from fewbit.loader.checks import check_piece
from fewbit.loader.pieces import MOST_THREADS, Piece, cut, piece_bytes
from fewbit.loader.workers import each_done
from fewbit.models.interface import Parameters
from fewbit.platforms.linux.heap import keeping_freed_memory
from fewbit.schemes.reference import dequantize
from fewbit.schemes.stack import stack
from fewbit.spec.buffer import Buffer
from fewbit.spec.dtype import F32
from fewbit.spec.layout import PackedTensor
from fewbit.spec.refusal import FewbitError
from fewbit.spec.scheme import QuantTensor, Scheme


class Stream:
    """Counts what it reads. `consumed` maps each tensor to its scheme once all of its rows went into a parameter."""

    def __init__(
        self, checkpoint: Checkpoint, backend: Backend, progress: Callable[[int, int], None] | None
    ) -> None:
        self.checkpoint, self.backend, self.progress = checkpoint, backend, progress
        self.total_bytes = sum(info.bytes_on_disk for info in checkpoint.tensors.values())
        self.done_bytes = 0.0
        self.consumed: dict[str, Scheme] = {}

    def parameters(
        self, linears: Sequence[LinearMethod], embedding: EmbeddingMethod, spec: ModelSpec
    ) -> Parameters:
        """All that the model takes. A tied embedding is the head's own packed weight."""
        blocks = [block for method in linears for block in method.blocks]
        if not spec.embedding.tied_to:
            blocks.append(embedding_block(embedding))
        packed = iter(self._pack(blocks))
        filled = {
            method.spec.name: Linear(
                tuple(
                    LinearBlock(
                        next(packed),
                        self._bias(b),
                        b.choice,
                        input_codes(b.inputs, self.checkpoint.read_auxiliary),
                    )
                    for b in method.blocks
                )
            )
            for method in linears
        }
        tied = filled.get(spec.embedding.tied_to)
        table = Embedding(tied.blocks[0].weight if tied else next(packed))
        vectors = {v.name: self.backend.upload(self._floats(v.tensor), F32) for v in spec.vectors}
        if self.progress:
            self.progress(self.total_bytes, self.total_bytes)
        return Parameters(filled, table, vectors)

    def _pack(self, blocks: Sequence[Block]) -> list[PackedTensor]:
        threads = min(self.backend.threads, MOST_THREADS)
        packers = [self._packer(block) for block in blocks]
        most = piece_bytes(threads, sum(self._packed_bytes(block) for block in blocks))
        work = [
            (piece, packer)
            for block, packer in zip(blocks, packers, strict=True)
            for piece in cut(block, most)
        ]
        jobs = [partial(self._load, piece, packer) for piece, packer in work]
        with keeping_freed_memory():
            for done in each_done(jobs, threads):
                for tensor, start, stop in work[done][0].rows:
                    self._count(tensor, stop - start)
        for block in blocks:
            self.consumed |= {
                weight.name: self.checkpoint.tensors[weight.name].scheme for weight in block.weights
            }
        return [packer.finish() for packer in packers]

    def _packer(self, block: Block) -> Packer:
        return self.backend.packer(self.backend.layout(block.choice.layout, block.scheme), block.n, block.k)

    def _packed_bytes(self, block: Block) -> int:
        layout = self.backend.layout(block.choice.layout, block.scheme)
        return self.backend.packed_bytes(layout, block.n, block.k)

    def _load(self, piece: Piece, packer: Packer) -> None:
        """In a thread of its own: rows from disk to their place in the packed weight."""
        try:
            rows = [self._read(tensor.name, start, stop) for tensor, start, stop in piece.rows]
            packer.write(piece.row, stack(rows, piece.block.scheme))
        except FewbitError:
            raise  # names file and tensor itself
        except Exception as fault:
            fault.add_note(f"while rows of {piece.names} of {self.checkpoint.path} were loaded")
            raise

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
        values = dequantize(self._read(tensor.name, 0, tensor.shape[0]))
        self.consumed[tensor.name] = self.checkpoint.tensors[tensor.name].scheme
        self._count(tensor, tensor.shape[0])
        return values

    def _read(self, name: str, start: int, stop: int) -> QuantTensor:
        rows = self.checkpoint.read(name, start, stop)
        check_piece(self.checkpoint.tensors[name], rows, stop - start)
        return rows

    def _count(self, tensor: TensorSpec, rows: int) -> None:
        self.done_bytes += self.checkpoint.tensors[tensor.name].bytes_on_disk * rows / max(tensor.shape[0], 1)
        if self.progress:
            self.progress(int(self.done_bytes), self.total_bytes)


def embedding_block(method: EmbeddingMethod) -> Block:
    n, k = method.spec.weight.shape
    return Block((method.spec.weight,), (None,), method.scheme, n, k, method.choice)
