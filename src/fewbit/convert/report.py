"""What a conversion did, by kind of layer: schemes before and after, and what rounding cost."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from fewbit.convert.run import Done
from fewbit.convert.source import module_of
from fewbit.convert.verify import Error


@dataclass(slots=True)
class Kind:
    """Tensors of one name (`q_proj`) with the same scheme before and after. `error` None: bit-equal."""

    layer: str
    before: str
    after: str
    count: int = 0
    error: Error | None = None


def by_kind(done: Done) -> list[Kind]:
    """Quantized tensors and those that changed, in the order of the model."""
    found: dict[tuple[str, str, str], Kind] = {}
    for planned in done.plan:
        before, after = planned.info.scheme, planned.scheme
        if before.is_plain and after.is_plain and before == after:
            continue
        layer = module_of(planned.info.name).rpartition(".")[2]
        key = (layer, full_name(before), full_name(after))
        kind = found.setdefault(key, Kind(*key))
        kind.count += 1
        error = done.proof.errors.get(planned.info.name)
        if error is not None:
            kind.error = kind.error or Error()
            kind.error.join(error)
    return list(found.values())


def overall(kinds: Iterable[Kind]) -> Error | None:
    """Of all that was rounded; None where nothing was."""
    total = Error()
    for kind in kinds:
        if kind.error is not None:
            total.join(kind.error)
    return total if total.weights else None


def full_name(scheme: object) -> str:
    """The scheme's name with the type of its scales, which the name leaves out."""
    scale = getattr(scheme, "scale", None)
    return f"{scheme} ({scale})" if scale is not None else str(scheme)
