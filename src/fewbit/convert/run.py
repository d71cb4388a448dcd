"""The whole of a conversion: open, plan, check room, write, prove, publish."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from fewbit.convert.atomic import check_free, check_space, publish, work_folder
from fewbit.convert.folder import FolderOutput
from fewbit.convert.gguf import GgufOutput
from fewbit.convert.plan import Planned, make_plan
from fewbit.convert.requantize import parse_rounding
from fewbit.convert.source import open_source
from fewbit.convert.target import find_target
from fewbit.convert.verify import Proof, verify

STAGES = ("planning", "writing", "proving")
OTHER_FILES_BYTES = 64 << 20
"""Room for the files beside the weights, which are copied."""
Watch = Callable[[str, int, int], None]
"""Stage, bytes of the source done, bytes of the source."""


@dataclass(frozen=True, slots=True)
class Done:
    plan: list[Planned]
    proof: Proof
    written_bytes: int
    left_out: list[str]
    source_format: str


def convert(
    source_path: Path,
    place: Path,
    to: str,
    requantize: str = "",
    weights_only: bool = False,
    watch: Watch | None = None,
) -> Done:
    """FewbitError for all that is refused, and then nothing was written."""
    check_free(place)
    rounding = parse_rounding(requantize) if requantize else None
    target = find_target(to)
    source = open_source(source_path, weights_only)
    try:
        total = sum(info.bytes_on_disk for info in source.tensors.values())
        stages = {stage: _counter(stage, total, watch) for stage in STAGES}
        plan = make_plan(source, target, rounding, stages["planning"])
        output = GgufOutput(source, plan) if to == "gguf" else FolderOutput(source, target, plan)
        check_space(place, output.total_bytes + OTHER_FILES_BYTES)
        with work_folder(place) as folder:
            made = output.write(folder, stages["writing"])
            proof = verify(source, plan, made, stages["proving"])
            publish(made, place)
        return Done(plan, proof, output.total_bytes, source.left_out(), source.checkpoint.format)
    finally:
        source.checkpoint.close()


def _counter(stage: str, total: int, watch: Watch | None) -> Callable[[int], None]:
    done = 0

    def count(more: int) -> None:
        nonlocal done
        done += more
        if watch is not None:
            watch(stage, done, total)

    return count
