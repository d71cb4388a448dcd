"""`fewbit convert`: a checkpoint in another format."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from fewbit.cli.options import SOURCE, SourceFlags
from fewbit.spec.refusal import FewbitError

if TYPE_CHECKING:
    from fewbit.convert.run import Done, Watch


def convert(
    model: str,
    destination: Path,
    /,
    *,
    to: str,
    requantize: str = "",
    weights_only: bool = False,
    source: SourceFlags = SOURCE,
    as_json: Annotated[bool, Parameter(name="--json", negative=())] = False,
) -> None:
    """Write a checkpoint in another format, without loss or not at all.

    What was written is opened again and compared with the source bit by bit before it gets its name. A format that cannot
    hold the same weights is refused with the tensor and the reason, unless `--requantize` says to what they are rounded.

    Parameters
    ----------
    model
        A GGUF file, a Hugging Face folder, `demo`, or `org/name` of the Hugging Face hub.
    destination
        The folder or GGUF file to write; nothing may be there.
    to
        The format: gguf, plain, gptq, gptq_v2, awq, auto_round, compressed-tensors, fp8, modelopt, quark, mlx.
    requantize
        A scheme to which the weights are rounded to nearest where they are not of it already, such as i4g128, u4g128z,
        u4g32o, i8channel, e4m3channel, e2m1g32 or e2m1g16s. The error that it costs is printed.
    weights_only
        Leave out how inputs and the cache were quantized. Without this flag a format that cannot say it is refused.
    as_json
        Print JSON.
    """
    from fewbit.cli.finding import find_model
    from fewbit.convert.run import convert as run
    from fewbit.convert.target import TARGETS

    if to not in TARGETS:
        raise FewbitError(f"--to {to}: is no format that is written (written are {', '.join(TARGETS)})")
    path = find_model(model, source).path
    with _progress() as watch:
        done = run(path, destination.expanduser(), to, requantize, weights_only, watch)
    _print(destination, to, done, as_json)


@contextmanager
def _progress() -> Iterator[Watch]:
    """A bar for each stage in turn, gone when done; a signal to end ends it like Ctrl-C."""
    import signal

    from fewbit.cli.bar import ByteBar

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupted)
    try:
        with ExitStack() as shown:
            bars: dict[str, ByteBar] = {}

            def watch(stage: str, done: int, total: int) -> None:
                if stage not in bars:
                    shown.close()  # the bar of the stage before
                    bars[stage] = shown.enter_context(ByteBar(stage))
                bars[stage](done, total)

            yield watch
    finally:
        signal.signal(signal.SIGTERM, before)


def _print(destination: Path, to: str, done: Done, as_json: bool) -> None:
    from fewbit.cli.output import console, print_json, table
    from fewbit.convert.report import by_kind, overall

    kinds = by_kind(done)
    total = overall(kinds)
    if as_json:
        layers = [
            {"layer": k.layer, "before": k.before, "after": k.after, "tensors": k.count, **_error(k.error)}
            for k in kinds
        ]
        print_json(
            {"destination": str(destination), "from": done.source_format, "to": to, "bytes": done.written_bytes,
             "tensors": done.proof.tensors, "lossless": total is None, "left_out": done.left_out, "layers": layers,
             **_error(total)}
        )  # fmt: skip
        return
    rows = [(k.layer, str(k.count), k.before, k.after, *_shown(k.error)) for k in kinds]
    if total is not None:
        rows.append(("overall", "", "", "", *_shown(total)))
    out = console()
    out.print(
        table(["layer", "tensors", "before", "after", "rel. RMS error", "largest error"], rows, right=_RIGHT)
    )
    proved = (
        "bit-equal to the source"
        if total is None
        else "rounded as the table says, all else bit-equal to the source"
    )
    out.print(
        f"{destination}: {to}, {done.proof.tensors} tensors, {done.written_bytes:,} bytes; read back, {proved}"
    )
    for what in done.left_out:
        out.print(f"note: left out: {what}")


_RIGHT = ("tensors", "rel. RMS error", "largest error")


def _shown(error: Any) -> tuple[str, str]:
    return ("none", "none") if error is None else (f"{error.relative_rms:.4%}", f"{error.largest:.3g}")


def _error(error: Any) -> dict[str, float]:
    return {} if error is None else {"relative_rms_error": error.relative_rms, "largest_error": error.largest}
