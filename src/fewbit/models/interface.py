"""What the loader and the runner know of a model."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from fewbit.kernels.backend import Backend
from fewbit.kernels.ops.recorder import Ops
from fewbit.layers.embedding import Embedding
from fewbit.layers.inputs import Cache, StepInputs
from fewbit.layers.linear import Linear
from fewbit.layers.spec import ModelSpec
from fewbit.spec.buffer import Buffer


@dataclass(frozen=True, slots=True)
class Parameters:
    """What the loader filled, by the names of the spec."""

    linears: Mapping[str, Linear]
    embedding: Embedding
    vectors: Mapping[str, Buffer]


@dataclass(frozen=True, slots=True)
class ModelShape:
    """What allocation needs to know. `kv_shapes` gives (kv_heads, head_dim) of each layer's cache."""

    hidden_size: int
    vocab_size: int
    max_position_embeddings: int
    kv_shapes: tuple[tuple[int, int], ...]
    working_floats: int  # f32 of a row in the working buffers, the residual stream included


class Model(Protocol):
    """Records its step as ops over fixed buffers. `record_trunk` ends at the residual stream, `record_head` at logits."""

    shape: ModelShape

    def working(self, backend: Backend, rows: int) -> Any: ...
    def record_trunk(self, ops: Ops, inputs: StepInputs, caches: tuple[Cache, ...], working: Any) -> None: ...
    def record_head(
        self, ops: Ops, inputs: StepInputs, working: Any, gathered: Buffer, logits: Buffer
    ) -> None: ...


class Family(Protocol):
    """A module of this package."""

    @staticmethod
    def parse(model_type: str, config: Mapping[str, Any], tensors: Collection[str]) -> Any: ...
    @staticmethod
    def describe(config: Any) -> ModelSpec: ...
    @staticmethod
    def shape(config: Any) -> ModelShape: ...
    @staticmethod
    def build(config: Any, parameters: Parameters, backend: Backend) -> Model: ...
