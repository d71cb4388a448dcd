"""Completeness in both directions: every tensor of the checkpoint is used or explained, every parameter is filled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fewbit.formats.checkpoint import Checkpoint
from fewbit.layers.spec import ModelSpec
from fewbit.spec.refusal import CheckpointError
from fewbit.spec.scheme import Scheme

NOT_SERVED = "not served by this family, which takes text alone"
SHOWN = 5  # names listed of each kind of fault


def check_headers(spec: ModelSpec, checkpoint: Checkpoint) -> dict[str, str]:
    """From names and shapes alone, before anything is read. Returns the unused tensors with their reasons."""
    wanted = {tensor.name: tensor.shape for tensor in spec.tensors()}
    found = checkpoint.tensors
    missing = [name for name in wanted if name not in found]
    explained = {name: why for name, why in spec.explained.items() if name in found}
    explained |= {name: f"{i.component}: {NOT_SERVED}" for name, i in found.items() if i.component}
    extra = [name for name in found if name not in wanted and name not in explained]
    wrong = [
        f"{name} is {list(found[name].shape)}, expected {list(shape)}"
        for name, shape in wanted.items()
        if name in found and tuple(found[name].shape) != shape
    ]
    vectors = [vector.tensor.name for vector in spec.vectors]
    vectors += [bias.name for linear in spec.linears for bias in linear.biases if bias]
    quantized = [
        f"{name} is {found[name].scheme}"
        for name in vectors
        if name in found and not found[name].scheme.is_plain
    ]
    faults = [
        ("the config demands tensors that are missing", missing),
        ("tensors have another shape than the config demands", wrong),
        ("tensors that nothing in this architecture takes", extra),
        ("vectors must be plain floats", quantized),
    ]
    texts = [f"{what}: {_list(names)}" for what, names in faults if names]
    if texts:
        raise CheckpointError(
            f"{checkpoint.path} does not fit its config ({checkpoint.model_type}): {'; '.join(texts)}"
        )
    return explained


def _list(names: list[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more


@dataclass(frozen=True, slots=True)
class Report:
    """`consumed`: tensor -> scheme it was loaded by. `explained`: tensor -> why it is not used."""

    consumed: Mapping[str, Scheme]
    explained: Mapping[str, str]

    @staticmethod
    def of(
        spec: ModelSpec, checkpoint: Checkpoint, consumed: Mapping[str, Scheme], explained: Mapping[str, str]
    ) -> Report:
        """After loading: what was read is what the spec and the checkpoint hold, by the checkpoint's schemes."""
        unfilled = [tensor.name for tensor in spec.tensors() if tensor.name not in consumed]
        unread = [name for name in checkpoint.tensors if name not in consumed and name not in explained]
        other = [name for name, scheme in consumed.items() if scheme != checkpoint.tensors[name].scheme]
        if unfilled or unread or other:
            raise CheckpointError(
                f"loading {checkpoint.path} left parameters unfilled [{_list(unfilled)}], tensors unread [{_list(unread)}], "
                f"or took another scheme [{_list(other)}]; this is a fault of fewbit, please report it"
            )
        return Report(dict(consumed), dict(explained))
