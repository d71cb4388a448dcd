"""What a model will take, summed before anything is loaded, against what the machine or its control group has left."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from fewbit.config import format_bytes
from fewbit.kernels.backend import Backend
from fewbit.layers.method import EmbeddingMethod, LinearMethod
from fewbit.layers.spec import ModelSpec
from fewbit.models.interface import ModelShape
from fewbit.platforms.linux.memory import Memory
from fewbit.spec.refusal import FewbitError

PAGE_TOKENS = 32
PROCESS_BYTES = 96 << 20  # the interpreter, its packages, and the pieces in flight while loading


@dataclass(frozen=True, slots=True)
class Capacity:
    """What a runner allocates: rows of a step, sequences at once, pages of the cache, the scratch page included."""

    max_rows: int
    max_sequences: int
    pages: int
    max_pages_per_sequence: int


@dataclass(frozen=True, slots=True)
class MemoryNeed:
    """Bytes. `working` is all that a step needs beside weights and cache."""

    weights: int
    cache: int
    working: int

    @property
    def total(self) -> int:
        return self.weights + self.cache + self.working + PROCESS_BYTES

    def __str__(self) -> str:
        parts = f"weights {format_bytes(self.weights)}, keys and values {format_bytes(self.cache)}, "
        return f"{parts}working memory {format_bytes(self.working + PROCESS_BYTES)}: together {format_bytes(self.total)}"


class MemoryRefused(FewbitError):
    """The model does not fit; the text gives the sum."""


def kv_bytes_per_page(shape: ModelShape, element_bytes: int = 2) -> int:
    """Keys and values of 32 tokens in all layers."""
    return sum(2 * PAGE_TOKENS * heads * dim * element_bytes for heads, dim in shape.kv_shapes)


def estimate(
    linears: tuple[LinearMethod, ...],
    embedding: EmbeddingMethod,
    spec: ModelSpec,
    shape: ModelShape,
    backend: Backend,
    capacity: Capacity | None,
) -> MemoryNeed:
    weights = 0
    for method in linears:
        for block in method.blocks:
            weights += backend.packed_bytes(
                backend.layout(block.choice.layout, block.scheme), block.n, block.k
            )
    if not spec.embedding.tied_to:
        layout = backend.layout(embedding.choice.layout, embedding.scheme)
        weights += backend.packed_bytes(layout, *spec.embedding.weight.shape)
    weights += sum(4 * prod(vector.tensor.shape) for vector in spec.vectors)
    if capacity is None:
        return MemoryNeed(weights, 0, 0)
    logits = capacity.max_sequences * (shape.vocab_size + shape.hidden_size)
    working = 4 * (capacity.max_rows * shape.working_floats + logits)
    return MemoryNeed(weights, capacity.pages * kv_bytes_per_page(shape), working)


def check_memory(need: MemoryNeed, memory: Memory) -> None:
    if need.total > memory.available_bytes:
        raise MemoryRefused(
            f"the model does not fit: {need}, but the {memory.bound} has {format_bytes(memory.available_bytes)} left; "
            "free memory, take a smaller model, or ask for less context or fewer sequences"
        )
