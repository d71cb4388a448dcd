"""Which weights of a merged projection may share one matrix, and why the others stay apart."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from fewbit.formats.checkpoint import TensorInfo
from fewbit.layers.spec import LinearSpec, TensorSpec
from fewbit.schemes.arrays import Array
from fewbit.spec.layer_quant import InputQuant
from fewbit.spec.scheme import Scheme

ReadAuxiliary = Callable[[str], Array]


@dataclass(frozen=True, slots=True)
class Run:
    """Neighbouring weights for one matrix of `scheme`, each of the scheme `own` in the checkpoint."""

    weights: tuple[TensorSpec, ...]
    biases: tuple[TensorSpec | None, ...]
    own: Scheme
    scheme: Scheme

    @property
    def n(self) -> int:
        return sum(weight.shape[0] for weight in self.weights)

    @property
    def k(self) -> int:
        return self.weights[0].shape[1]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(weight.name for weight in self.weights)

    @property
    def leaves(self) -> str:
        """`q_proj, k_proj`: alike in all layers."""
        return ", ".join(name.removesuffix(".weight").rpartition(".")[2] for name in self.names)

    def singles(self) -> Iterator[Run]:
        for weight, bias in zip(self.weights, self.biases, strict=True):
            yield Run((weight,), (bias,), self.own, self.own)


def split_runs(
    spec: LinearSpec, infos: Mapping[str, TensorInfo], read: ReadAuxiliary
) -> tuple[list[Run], list[str]]:
    """The runs in order, and a note on each border between them. `read` gives the tensors that a LayerQuant names."""
    runs: list[Run] = []
    notes: list[str] = []
    for weight, bias in zip(spec.weights, spec.biases, strict=True):
        own = infos[weight.name].scheme
        single = Run((weight,), (bias,), own, own)
        why = _why_apart(runs[-1], single, infos, read) if runs else None
        stacked = own.stacked(spec.k)
        if why == "" and stacked is not None:
            last = runs.pop()
            single = Run((*last.weights, weight), (*last.biases, bias), own, stacked)
        elif why:
            notes.append(f"{runs[-1].leaves} and {single.leaves} stay apart: {why}")
        runs.append(single)
    return runs, notes


def _why_apart(above: Run, below: Run, infos: Mapping[str, TensorInfo], read: ReadAuxiliary) -> str:
    """ "" where one matrix can hold both without changing a number of either."""
    a, b = infos[above.names[-1]], infos[below.names[0]]
    if above.own != below.own:
        return f"{_numerics(above.own)} and {_numerics(below.own)}"
    if below.own.stacked(below.k) is None:
        return f"each has parts of its own ({below.own})"
    if above.weights[-1].shape[0] % below.own.block_n:
        rows = above.weights[-1].shape[0]
        return f"{rows} rows are no multiple of the {below.own.block_n} that share a scale"
    if _inputs(a.layer.input_quant, read) != _inputs(b.layer.input_quant, read):
        return "their activations are quantized with different static scales"
    return ""


def _numerics(scheme: Scheme) -> str:
    return f"{scheme} (scales {scheme.scale})" if scheme.scale else str(scheme)


def _inputs(inputs: InputQuant | None, read: ReadAuxiliary) -> object:
    """Equal for two layers whose activations are quantized to the same codes."""
    if inputs is None:
        return None
    names = (inputs.scale, inputs.zero_point, inputs.global_scale)
    values = tuple(read(name).tobytes() if name else b"" for name in names)
    return inputs.codes, inputs.granularity, inputs.scale_dtype, values
