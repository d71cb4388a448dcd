"""`fewbit inspect`: which kernel each layer of a model would run with, and whether it fits, from headers alone."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter
from rich.text import Text

from fewbit.cli.options import SOURCE, SourceFlags
from fewbit.cli.output import console, facts, print_json, table
from fewbit.config import Activations, Backend, format_bytes
from fewbit.registry.grammar import parse_name
from fewbit.spec.refusal import FewbitError

if TYPE_CHECKING:
    from fewbit.cli.inspection import Inspection, Line
    from fewbit.formats.checkpoint import Checkpoint
    from fewbit.platforms.linux.memory import Memory
    from fewbit.spec.cell import KernelRow

BATCH_TOKENS = 512


class CannotRun(FewbitError):
    """The model cannot run as asked; the report before it says everything, the text the first cause."""


class NotSound(FewbitError):
    """The checkpoint is not whole, or holds what no checkpoint may; the text gives the first fault."""


def inspect(
    model: str,
    /,
    *,
    verify: bool = False,
    quantization: str = "",
    platform: str | None = None,
    context: int | None = None,
    concurrency: int = 1,
    activations: Activations = "auto",
    backend: Backend = "auto",
    source: SourceFlags = SOURCE,
    as_json: Annotated[bool, Parameter(name="--json", negative=())] = False,
) -> None:
    """Say which kernel each layer of a model would run with, what it takes, and whether it fits; weights are not read.

    Exits with 1 when the model cannot run as asked, or with --verify when the checkpoint is not complete and sound.

    Parameters
    ----------
    model
        A GGUF file, a Hugging Face folder, `demo`, or `org/name` of the Hugging Face hub.
    verify
        Read all weights instead, and account for every tensor in both directions: used or explained, parameters filled,
        numbers finite, scales as the scheme says. It needs no kernels, and no support of the architecture.
    quantization
        What the checkpoint must be, as `fewbit support --formats` names it; by default whatever it is.
    platform
        Answer for another machine: x86_64, x86_avx2, x86_avx512, x86_amx. By default this one.
    context
        Tokens of a sequence, prompt and answer together; by default the model's own limit.
    concurrency
        Sequences at the same time.
    activations
        Bits of the activations that enter a matrix product; auto: int8 where the checkpoint declares it, else 16.
    backend
        Which kernels to use; reference means numpy, slow.
    as_json
        Print JSON.
    """
    if concurrency < 1 or (context is not None and context < 2):
        raise CannotRun(f"--concurrency {concurrency} must be at least 1 and --context {context} at least 2")
    from fewbit.cli.finding import find_model
    from fewbit.cli.inspection import inspect_checkpoint
    from fewbit.loader.open import open_model
    from fewbit.platforms.known import known_platform
    from fewbit.platforms.linux.memory import read_memory
    from fewbit.platforms.x86.detect import detect

    checkpoint = open_model(find_model(model, source).path, quantization)
    if verify:
        return _verify(model, checkpoint, as_json)
    try:
        machine = known_platform(platform) if platform else detect()
        found = inspect_checkpoint(
            checkpoint, machine, activations, backend, context, concurrency, BATCH_TOKENS
        )
        memory = None if platform else read_memory()
        causes = _causes(found, memory)
        if as_json:
            print_json(_as_json(found, memory, causes))
        else:
            _show(found, memory)
    finally:
        checkpoint.close()
    if causes:
        raise CannotRun(f"{model} cannot run on {machine.name}: {causes[0]}")


def _verify(model: str, checkpoint: Checkpoint, as_json: bool) -> None:
    from fewbit.cli import verification

    try:
        found = verification.verify_with_progress(checkpoint)
        (verification.print_as_json if as_json else verification.show)(checkpoint, found)
    finally:
        checkpoint.close()
    if found.faults:
        more = f" (and {len(found.faults) - 1} more faults)" if len(found.faults) > 1 else ""
        raise NotSound(f"{model} is not complete and sound: {found.faults[0]}{more}")


def _causes(found: Inspection, memory: Memory | None) -> list[str]:
    causes = [f"{line.kind}: {line.refusal}" for line in found.refused]
    if found.context > found.shape.max_position_embeddings:
        most = found.shape.max_position_embeddings
        causes.append(
            f"a context of {found.context} tokens is beyond the model's own limit; type --context {most} or less"
        )
    if memory and found.need and found.need.total > memory.available_bytes:
        causes.append(
            f"it needs {format_bytes(found.need.total)}, but the {memory.bound} has {format_bytes(memory.available_bytes)} left; "
            "type a smaller --context or --concurrency, or take a smaller model"
        )
    return causes


def _show(found: Inspection, memory: Memory | None) -> None:
    from fewbit.cli.inspection import parameters

    out, checkpoint = console(), found.checkpoint
    size = sum(info.bytes_on_disk for info in checkpoint.tensors.values())
    out.print(
        facts(
            [
                ("model", str(checkpoint.path)),
                (
                    "format",
                    f"{checkpoint.format}, {_model_type(checkpoint)}, {parameters(checkpoint) / 1e6:,.1f} M parameters",
                ),
                ("on disk", f"{format_bytes(size)} in {len(checkpoint.tensors)} tensors"),
                ("platform", " · ".join(filter(None, (found.platform.name, found.platform.description)))),
            ]
        )
    )
    out.print()
    head = ["layers", "", "scheme", "layout", "decode", "prefill", "on disk", "packed"]
    out.print(table(head, map(_row, found.lines), right=("", "on disk", "packed")))
    refused: dict[str, list[str]] = {}
    for line in found.lines:
        if line.refusal:
            refused.setdefault(line.refusal, []).append(line.kind)
    for refusal, kinds in refused.items():
        out.print(Text.assemble((f"no kernel for {', '.join(kinds)}: ", "red"), refusal))
    for line in found.lines:
        if line.note:
            out.print(Text(f"{line.kind}: {line.note}", "dim"))
    for why, names in found.apart.items():
        out.print(Text(f"{_pattern(names)}: {why}", "dim"))
    out.print()
    out.print(facts([_others(found), *_coverage(found), *_unquantized(found), *_memory(found, memory)]))


def _model_type(checkpoint: Checkpoint) -> str:
    """`qwen2 in qwen2_5_vl`."""
    return " in ".join(filter(None, (checkpoint.model_type, checkpoint.wrapper)))


def _row(line: Line) -> list[str | Text]:
    count = f"×{len(line.names)}" if line.component not in ("", "embedding", "head") else ""
    if line.decode is None or line.prefill is None:
        kernels = [Text("refused", "red") if line.refusal else Text("not served", "dim") for _ in range(2)]
    else:
        kernels = [Text(_kernel(line.decode)), Text(_kernel(line.prefill))]
    sizes = [_bytes(line.disk_bytes), _bytes(line.packed_bytes)]
    return [line.kind, count, line.scheme, line.layout or "–", *kernels, *sizes]


def _kernel(row: KernelRow) -> str:
    """`avx512 f32`: the instruction set, and what the activations are."""
    return " ".join(filter(None, (parse_name(row.name).isa, row.activation)))


def _bytes(count: int) -> str:
    return format_bytes(count) if count else "–"


def _others(found: Inspection) -> tuple[str, str]:
    by_isa: dict[str, list[str]] = {}
    for op, row in found.others.items():
        by_isa.setdefault(parse_name(row.name).isa, []).append(op)
    return "other ops", "; ".join(f"{isa}: {', '.join(ops)}" for isa, ops in by_isa.items())


def _coverage(found: Inspection) -> list[tuple[str, str]]:
    parts = []
    for component, (quantized, total) in found.coverage().items():
        lines = [line for line in found.lines if line.component == component]
        if not lines:
            parts.append(f"{component} none")
        elif not total:
            parts.append(f"{component} {'quantized' if lines[0].quantized else 'plain'} (tied)")
        else:
            parts.append(f"{component} {100 * quantized / total:.0f} % quantized")
    return [("coverage", ", ".join(parts))]


def _unquantized(found: Inspection) -> list[tuple[str, str]]:
    told = [("unquantized", f"{rule}: {_pattern(names)}") for rule, names in found.why_plain.items()]
    told += [("unused", f"{name}: {why}") for name, why in found.unused.items()]
    return [
        (label if i == 0 or told[i - 1][0] != label else "", text) for i, (label, text) in enumerate(told)
    ]


def _pattern(names: tuple[str, ...]) -> str:
    """`model.layers.*.input_layernorm.weight ×30`, the first three patterns of them."""
    counts: dict[str, int] = {}
    for name in names:
        pattern = re.sub(r"\.\d+\.", ".*.", name)
        counts[pattern] = counts.get(pattern, 0) + 1
    shown = [f"{pattern}{f' ×{count}' if count > 1 else ''}" for pattern, count in list(counts.items())[:3]]
    return ", ".join(shown) + (f" and {len(counts) - 3} more" if len(counts) > 3 else "")


def _memory(found: Inspection, memory: Memory | None) -> list[tuple[str, str]]:
    if found.need is None:
        return [("memory", "not summed, since some layers have no kernel")]
    need, capacity = found.need, found.capacity
    each = f"{capacity.max_sequences} × {found.context} tokens"
    told = [
        ("memory", f"{format_bytes(need.weights)} weights"),
        ("", f"{format_bytes(need.cache)} keys and values (bf16, {each})"),
        (
            "",
            f"{format_bytes(need.total - need.weights - need.cache)} working memory (steps of {capacity.max_rows} tokens)",
        ),
    ]
    total = f"{format_bytes(need.total)} together"
    if memory:
        fits = need.total <= memory.available_bytes
        total += f", {'of' if fits else 'but only'} {format_bytes(memory.available_bytes)} that the {memory.bound} has left"
    return [*told, ("", total)]


def _as_json(found: Inspection, memory: Memory | None, causes: list[str]) -> dict[str, Any]:
    checkpoint, need = found.checkpoint, found.need
    return {
        "path": str(checkpoint.path),
        "format": checkpoint.format,
        "model_type": checkpoint.model_type,
        "wrapper": checkpoint.wrapper or None,
        "platform": {"name": found.platform.name, "features": sorted(found.platform.provides)},
        "runs": not causes,
        "causes": causes,
        "layers": [_line_json(line) for line in found.lines],
        "coverage": {
            name: {"quantized_bytes": q, "bytes": total} for name, (q, total) in found.coverage().items()
        },
        "unquantized": {rule: list(names) for rule, names in found.why_plain.items()},
        "unused": dict(found.unused),
        "apart": {why: list(names) for why, names in found.apart.items()},
        "context_tokens": found.context,
        "concurrency": found.capacity.max_sequences,
        "memory": need
        and {
            "weights_bytes": need.weights,
            "cache_bytes": need.cache,
            "working_bytes": need.total - need.weights - need.cache,
            "total_bytes": need.total,
        },
        "available_bytes": memory and memory.available_bytes,
        "available_bound": memory and memory.bound,
    }


def _line_json(line: Line) -> dict[str, Any]:
    return {
        "kind": line.kind,
        "component": line.component or None,
        "names": line.names,
        "scheme": line.scheme,
        "layout": line.layout or None,
        "decode": line.decode.name if line.decode else None,
        "prefill": line.prefill.name if line.prefill else None,
        "refusal": line.refusal or None,
        "note": line.note or None,
        "disk_bytes": line.disk_bytes,
        "packed_bytes": line.packed_bytes,
    }
