"""The method of a layer: which scheme, layout and kernels serve it on a platform. The loader and `fewbit inspect` share it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby
from types import MappingProxyType

from fewbit.kernels.selector import Selector
from fewbit.layers.spec import EmbeddingSpec, LinearSpec, TensorSpec
from fewbit.spec.cell import Cell, Choice
from fewbit.spec.layer_quant import NO_LAYER_QUANT, LayerQuant
from fewbit.spec.refusal import Refusal, RefusedError
from fewbit.spec.scheme import Scheme

NO_LAYERS: Mapping[str, LayerQuant] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Block:
    """Neighbouring weights of one scheme, packed as one matrix [n, k]; `biases` as in the spec, one per weight."""

    weights: tuple[TensorSpec, ...]
    biases: tuple[TensorSpec | None, ...]
    scheme: Scheme
    n: int
    k: int
    choice: Choice


@dataclass(frozen=True, slots=True)
class LinearMethod:
    """`blocks` lie side by side in y: one when all weights agree. `notes` says where a wish was not granted, and why."""

    spec: LinearSpec
    blocks: tuple[Block, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class EmbeddingMethod:
    """`layout` is that of the head when tied, else one that an embedding row reads."""

    spec: EmbeddingSpec
    scheme: Scheme
    choice: Choice


def choose_linear(
    spec: LinearSpec,
    schemes: Mapping[str, Scheme],
    selector: Selector,
    activations: str = "auto",
    layers: Mapping[str, LayerQuant] = NO_LAYERS,
) -> LinearMethod:
    """Weights of one scheme whose parts belong to rows are merged, others stay side by side; RefusedError names the tensors
    that nothing serves, or whose layer does what nothing here applies.

    With activations "8", a scheme without an 8-bit row keeps 16 bits, and the method's notes say so.
    """
    blocks: list[Block] = []
    notes: list[str] = []
    for weight in spec.weights:
        _refuse_demands(weight.name, layers.get(weight.name, NO_LAYER_QUANT))
    pairs = zip(spec.weights, spec.biases, strict=True)

    def together(pair: tuple[TensorSpec, TensorSpec | None]) -> tuple[Scheme, str]:
        scheme = schemes[pair[0].name]
        return scheme, "" if scheme.by_rows else pair[0].name

    for (scheme, _), group in groupby(pairs, key=together):
        weights, biases = zip(*group, strict=True)
        n = sum(weight.shape[0] for weight in weights)
        choice, note = _choose(", ".join(w.name for w in weights), scheme, n, spec.k, selector, activations)
        blocks.append(Block(weights, biases, scheme, n, spec.k, choice))
        notes += [note] if note else []
    return LinearMethod(spec, tuple(blocks), tuple(notes))


def _refuse_demands(name: str, layer: LayerQuant) -> None:
    """What a layer does beside multiplying must be applied, and no method here does that yet."""
    for field, tensor in layer.demands():
        hint = (
            f"the layer's result depends on the tensor {tensor!r}; fold it into the weights before converting"
        )
        raise RefusedError(name, (Refusal("layer quantization", field, (), hint),))


def _choose(
    subject: str, scheme: Scheme, n: int, k: int, selector: Selector, activations: str
) -> tuple[Choice, str]:
    scale = scheme.scale.name if scheme.scale else ""
    cell = Cell("linear", scheme.name, scale, activations, sizes=(("n", n), ("k", k)))
    answer = selector.ask(cell)
    if isinstance(answer, Choice):
        return answer, ""
    if activations == "8" and {refusal.axis for refusal in answer} & {"activations", "platform", "M"}:
        choice, _ = _choose(subject, scheme, n, k, selector, "16")
        return choice, f"{scheme} keeps 16-bit activations: {answer[0]}"
    raise RefusedError(subject, answer)


def choose_embedding(
    spec: EmbeddingSpec, schemes: Mapping[str, Scheme], selector: Selector, head: LinearMethod | None
) -> EmbeddingMethod:
    """A tied embedding reads the head's one block in its layout."""
    scheme = schemes[spec.weight.name]
    n, k = spec.weight.shape
    layout = head.blocks[0].choice.layout if spec.tied_to and head else ""
    answer = selector.ask(Cell("embedding", scheme.name, sizes=(("n", n), ("k", k)), layout=layout))
    if not isinstance(answer, Choice):
        raise RefusedError(spec.weight.name, answer)
    return EmbeddingMethod(spec, scheme, answer)
