"""The method of a layer: which scheme, layout and kernels serve it on a platform. The loader and `fewbit inspect` share it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from fewbit.formats.checkpoint import Checkpoint
from fewbit.kernels.selector import Selector
from fewbit.layers.declared import TOKENS, declared_activation, declared_note
from fewbit.layers.merge import Run, split_runs
from fewbit.layers.spec import EmbeddingSpec, LinearSpec, TensorSpec
from fewbit.spec.cell import Cell, Choice
from fewbit.spec.layer_quant import InputQuant, LayerQuant
from fewbit.spec.refusal import Refusal, RefusedError
from fewbit.spec.scheme import Scheme


@dataclass(frozen=True, slots=True)
class Block:
    """Neighbouring weights packed as one matrix [n, k] of `scheme`; `biases` as in the spec, one per weight. `inputs`: the declared
    quantization of activations that `choice` follows."""

    weights: tuple[TensorSpec, ...]
    biases: tuple[TensorSpec | None, ...]
    scheme: Scheme
    n: int
    k: int
    choice: Choice
    inputs: InputQuant | None = None


@dataclass(frozen=True, slots=True)
class LinearMethod:
    """`blocks` lie side by side in y: one when all weights agree, else `apart` says why they do not.
    `notes` says where a wish was not granted, and why."""

    spec: LinearSpec
    blocks: tuple[Block, ...]
    notes: tuple[str, ...] = ()
    apart: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class EmbeddingMethod:
    """`layout` is that of the head when tied, else one that an embedding row reads."""

    spec: EmbeddingSpec
    scheme: Scheme
    choice: Choice


def choose_linear(
    spec: LinearSpec, checkpoint: Checkpoint, selector: Selector, activations: str = "auto"
) -> LinearMethod:
    """Weights that may share a matrix are merged where a kernel serves it; RefusedError names the tensors that nothing serves,
    or whose layer does what nothing here applies.

    With activations "auto" a layer takes those that its checkpoint declares, in kernels of that kind. Where there are none, and
    with "8" for a scheme without an 8-bit row, it keeps 16 bits, and the method's notes say so.
    """
    infos = {weight.name: checkpoint.tensors[weight.name] for weight in spec.weights}
    for name, info in infos.items():
        _refuse_demands(name, info.layer)
    runs, apart = split_runs(spec, infos, checkpoint.read_auxiliary)
    blocks: list[Block] = []
    notes: list[str] = []
    for run in runs:
        inputs = infos[run.weights[0].name].layer.input_quant
        asked = declared_activation(inputs, activations)
        for part, why in _served(run, selector, asked):
            choice, note = choose_matrix(", ".join(part.names), part.scheme, part.n, part.k, selector, asked)
            follows = inputs if asked == TOKENS and not note else None
            blocks.append(Block(part.weights, part.biases, part.scheme, part.n, part.k, choice, follows))
            notes += [note or declared_note(inputs, activations, choice)]
            apart += [why] if why else []
    return LinearMethod(
        spec, tuple(blocks), tuple(dict.fromkeys(filter(None, notes))), tuple(dict.fromkeys(apart))
    )


def _served(run: Run, selector: Selector, activations: str) -> Iterator[tuple[Run, str]]:
    """The run; its weights one by one, with the reason, where no kernel serves the scheme that they have together."""
    try:
        if run.scheme != run.own:
            choose_matrix("", run.scheme, run.n, run.k, selector, activations)
        yield run, ""
    except RefusedError as refused:
        why = f"{run.leaves} stay apart: together they are {run.scheme}, and {refused.refusals[0]}"
        yield from ((single, why) for single in run.singles())


def _refuse_demands(name: str, layer: LayerQuant) -> None:
    """What a layer does beside multiplying must be applied, and no method here does that yet."""
    for field, tensor in layer.demands():
        leaf = tensor.rpartition(".")[2]
        hint = f"the layer's result depends on its {leaf!r}; fold that into the weights before converting"
        raise RefusedError(name, (Refusal("layer quantization", field, (), hint),))


def choose_matrix(
    subject: str, scheme: Scheme, n: int, k: int, selector: Selector, activations: str
) -> tuple[Choice, str]:
    """The choice for a matrix [n, k], and a note where 8-bit activations were wished for and not had."""
    scale = _scale_type(scheme)
    if activations == TOKENS and selector.backend == "reference":
        activations = "16"  # the op's reference rounds as it is told, whatever the scheme
    cell = Cell("linear", scheme.name, scale, activations, sizes=(("n", n), ("k", k)))
    answer = selector.ask(cell)
    if isinstance(answer, Choice):
        return answer, ""
    if activations == "8" and {refusal.axis for refusal in answer} & {"activations", "platform", "M", "k"}:
        choice, _ = choose_matrix(subject, scheme, n, k, selector, "16")
        return choice, f"{scheme} keeps 16-bit activations: {answer[0]}"
    if activations == TOKENS:
        choice, _ = choose_matrix(subject, scheme, n, k, selector, "16")
        return choice, f"{scheme} keeps 16-bit activations, though the checkpoint declares int8: {answer[0]}"
    raise RefusedError(subject, answer)


def _scale_type(scheme: Scheme) -> str:
    """The scale's type, and those of zero points and offsets where they are not what goes without saying."""
    if not scheme.scale:
        return ""
    name = scheme.scale.name
    if scheme.zero_point and scheme.zero_point.is_float:
        name += f" with {scheme.zero_point} zero points"
    if scheme.offset and scheme.offset != scheme.scale:
        name += f" with {scheme.offset} offsets"
    return name


def choose_embedding(
    spec: EmbeddingSpec, schemes: Mapping[str, Scheme], selector: Selector, head: LinearMethod | None
) -> EmbeddingMethod:
    """A tied embedding reads the head's one block in its layout."""
    scheme = schemes[spec.weight.name]
    n, k = spec.weight.shape
    layout = head.blocks[0].choice.layout if spec.tied_to and head else ""
    answer = selector.ask(
        Cell("embedding", scheme.name, _scale_type(scheme), sizes=(("n", n), ("k", k)), layout=layout)
    )
    if not isinstance(answer, Choice):
        raise RefusedError(spec.weight.name, answer)
    return EmbeddingMethod(spec, scheme, answer)
