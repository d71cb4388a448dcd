"""What a model asks of a checkpoint, before anything is read: its parameters, and the tensors that fill each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """A tensor of the checkpoint by canonical name, and the shape that the config demands."""

    name: str
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class LinearSpec:
    """y = x W^T + bias, W being `weights` (each [n, k], one k) below one another: merged projections share x.

    `kind` groups layers in reports: qkv, o, gate_up, down, head. `biases` has one entry per weight, None where there is none.
    """

    name: str
    kind: str
    weights: tuple[TensorSpec, ...]
    biases: tuple[TensorSpec | None, ...]

    @property
    def n(self) -> int:
        return sum(weight.shape[0] for weight in self.weights)

    @property
    def k(self) -> int:
        return self.weights[0].shape[1]

    def tensors(self) -> Iterator[TensorSpec]:
        yield from self.weights
        yield from filter(None, self.biases)


@dataclass(frozen=True, slots=True)
class EmbeddingSpec:
    """Rows of `weight` by token. `tied_to` names the linear whose packed weight it reads, so that nothing is kept twice."""

    name: str
    weight: TensorSpec
    tied_to: str = ""


@dataclass(frozen=True, slots=True)
class VectorSpec:
    """A vector kept in f32: the weight of a norm."""

    name: str
    tensor: TensorSpec


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """All parameters. `explained` gives the reason for each tensor of the checkpoint that rightly goes unused."""

    linears: tuple[LinearSpec, ...]
    embedding: EmbeddingSpec
    vectors: tuple[VectorSpec, ...]
    explained: Mapping[str, str] = field(default_factory=dict)

    def tensors(self) -> Iterator[TensorSpec]:
        """Every tensor that the model takes from the checkpoint, once."""
        for linear in self.linears:
            yield from linear.tensors()
        if not self.embedding.tied_to:
            yield self.embedding.weight
        for vector in self.vectors:
            yield vector.tensor
