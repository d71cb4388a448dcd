"""Loading: from an open checkpoint to a model whose parameters are packed, counted and all accounted for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fewbit.formats.checkpoint import Checkpoint
from fewbit.kernels.backend import Backend
from fewbit.kernels.selector import Selector
from fewbit.layers.method import EmbeddingMethod, LinearMethod, choose_embedding, choose_linear
from fewbit.layers.spec import ModelSpec
from fewbit.loader.checks import check_beside
from fewbit.loader.memory import Capacity, MemoryNeed, check_memory, estimate
from fewbit.loader.ops import check_ops
from fewbit.loader.report import Report, check_headers
from fewbit.loader.stream import Stream
from fewbit.models import family
from fewbit.models.interface import Model, ModelShape, Parameters
from fewbit.platforms.linux.memory import read_memory


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """`progress(done, total)` is called with bytes of the checkpoint. `capacity`: what a runner will allocate later."""

    activations: str = "auto"
    capacity: Capacity | None = None
    progress: Callable[[int, int], None] | None = None


@dataclass(frozen=True, slots=True)
class Prepared:
    """All that is known from headers alone: what `fewbit inspect` prints, and what loading then does."""

    config: Any
    spec: ModelSpec
    shape: ModelShape
    linears: tuple[LinearMethod, ...]
    embedding: EmbeddingMethod
    explained: dict[str, str]

    @property
    def notes(self) -> tuple[str, ...]:
        return tuple(note for method in self.linears for note in method.notes)


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """`disk_names`: canonical names by those of the file."""

    model: Model
    parameters: Parameters
    prepared: Prepared
    report: Report
    need: MemoryNeed
    disk_names: dict[str, str]


def prepare(checkpoint: Checkpoint, selector: Selector, activations: str = "auto") -> Prepared:
    """Config, completeness by name and shape, and the kernel of every layer; raises the first thing that is not right."""
    module = family(checkpoint.model_type)
    config = module.parse(checkpoint.model_type, checkpoint.config, checkpoint.tensors.keys())
    spec = module.describe(config)
    explained = check_headers(spec, checkpoint)
    schemes = {name: info.scheme for name, info in checkpoint.tensors.items()}
    linears = tuple(choose_linear(linear, checkpoint, selector, activations) for linear in spec.linears)
    head = next((method for method in linears if method.spec.name == spec.embedding.tied_to), None)
    embedding = choose_embedding(spec.embedding, schemes, selector, head)
    shape = module.shape(config)
    check_ops(shape, selector)
    return Prepared(config, spec, shape, linears, embedding, explained)


def load_model(checkpoint: Checkpoint, backend: Backend, options: LoadOptions | None = None) -> LoadedModel:
    """Refuses before loading what this machine cannot serve or hold; afterwards proves that every parameter was filled."""
    options = options or LoadOptions()
    prepared = prepare(checkpoint, backend.selector, options.activations)
    checkpoint.account()
    check_beside(checkpoint)
    need = estimate(
        prepared.linears, prepared.embedding, prepared.spec, prepared.shape, backend, options.capacity
    )
    check_memory(need, read_memory())
    stream = Stream(checkpoint, backend, options.progress)
    parameters = stream.parameters(prepared.linears, prepared.embedding, prepared.spec)
    report = Report.of(prepared.spec, checkpoint, stream.consumed, prepared.explained)
    model = family(checkpoint.model_type).build(prepared.config, parameters, backend)
    return LoadedModel(model, parameters, prepared, report, need, _disk_names(checkpoint))


def _disk_names(checkpoint: Checkpoint) -> dict[str, str]:
    """The canonical name by the file's own, where one disk tensor is one tensor."""
    count = Counter(info.disk_name for info in checkpoint.tensors.values())
    return {info.disk_name: name for name, info in checkpoint.tensors.items() if count[info.disk_name] == 1}
