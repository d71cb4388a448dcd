"""`fewbit eval`: perplexity on a text, and divergence from a reference."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from fewbit.cli.options import SOURCE, SourceFlags
from fewbit.config import Activations
from fewbit.spec.refusal import FewbitError

if TYPE_CHECKING:
    from fewbit.evaluate.divergence import Tally
    from fewbit.evaluate.subject import Subject
    from fewbit.evaluate.windows import Window

CHARACTERS_PER_TOKEN = (
    64  # no text needs more on average; a long file is not tokenized whole for its first tokens
)
FP32 = "fp32"


def eval(
    model: str,
    /,
    *,
    text: Path,
    reference: str = FP32,
    activations: Annotated[tuple[Activations, ...], Parameter(consume_multiple=True, negative=())] = (
        "auto",
    ),
    tokens: int = 4096,
    chunk: int = 512,
    threads: int | None = None,
    quantization: str = "",
    source: SourceFlags = SOURCE,
    as_json: Annotated[bool, Parameter(name="--json", negative=())] = False,
) -> None:
    """Measure perplexity on a text file, and the divergence from a reference.

    The text is read in windows, each from scratch. KL is summed over the whole vocabulary, in nats.

    Parameters
    ----------
    model
        A GGUF file, a Hugging Face folder, `demo`, or `org/name` of the Hugging Face hub.
    text
        A text file in UTF-8.
    reference
        `fp32`: the same checkpoint, weights dequantized, all in FP32 by numpy; `none`; or another model of the same
        vocabulary.
    activations
        Bits of the activations; several, as in `--activations 16 8`, are measured side by side.
    tokens
        How many tokens of the text to read.
    chunk
        Tokens of a window.
    threads
        Worker threads; by default one per physical core that the process may use, and one for the FP32 reference.
    quantization
        What the checkpoint must be, as `fewbit support --formats` names it; by default whatever it is.
    as_json
        Print JSON.
    """
    if tokens < 2 or chunk < 2:
        raise FewbitError(
            f"tokens {tokens} and chunk {chunk} must be at least 2: a first token cannot be scored"
        )
    content = _read(text, tokens * CHARACTERS_PER_TOKEN)
    # numpy's threads spin against ours and against other processes: at a load of 8 two took three times as long as one
    os.environ.setdefault("OPENBLAS_NUM_THREADS", str(threads or 1))
    from fewbit.cli.finding import find_model
    from fewbit.evaluate.measure import measure

    found = find_model(model, source)
    other = find_model(reference, source) if reference not in (FP32, "none") else None
    path = found.path
    windows, counted = _windows(path, quantization, content, tokens, chunk)
    with _Progress() as progress:
        subjects = {
            name: progress.load(
                path, f"{found.title}, activations {name}", chunk, activations=name, threads=threads
            )
            for name in dict.fromkeys(activations)
        }
        beside = None
        if reference == FP32:
            beside = progress.load(path, "the FP32 reference", chunk, exact=True)
        elif other is not None:
            beside = progress.load(other.path, "the reference", chunk, threads=threads)
        scored = sum(window.scored for window in windows)
        tallies = measure(subjects, beside, windows, progress.count("reading the text", scored))
    facts = {
        "model": str(path),
        "text": str(text),
        "tokens_read": counted,
        "chunk": chunk,
        "reference": reference,
    }
    _print(found.title, facts, tallies, subjects, as_json)


def _read(path: Path, most_characters: int) -> str:
    try:
        with path.open(encoding="utf-8") as file:
            content = file.read(most_characters)
    except (OSError, UnicodeDecodeError) as error:
        raise FewbitError(
            f"{path} can't be read: {getattr(error, 'strerror', None) or 'it is not UTF-8 text'}"
        ) from None
    if not content.strip():
        raise FewbitError(f"{path} is empty; give a text of some hundred words at least")
    return content


def _windows(
    path: Path, quantization: str, content: str, tokens: int, chunk: int
) -> tuple[list[Window], int]:
    """The windows and how many tokens of the text they hold."""
    from fewbit.evaluate.windows import windows
    from fewbit.loader.open import open_model
    from fewbit.tokenizer.tokenizer import Tokenizer

    checkpoint = open_model(path, quantization)
    try:
        if checkpoint.tokenizer is None:
            raise FewbitError(
                f"{path} has no tokenizer, so a text can't be read; put its tokenizer.json beside it"
            )
        longest = int(checkpoint.config["max_position_embeddings"])
        if chunk > longest:
            raise FewbitError(f"chunk {chunk} is longer than the model's context of {longest} tokens")
        tokenizer = Tokenizer(checkpoint.tokenizer)
        bos = checkpoint.tokenizer.bos_id if checkpoint.tokenizer.add_bos else None
    finally:
        checkpoint.close()
    ids = tokenizer.encode(content)
    if bos is not None and ids[:1] == [bos]:
        del ids[0]  # each window opens with it
    ids = ids[:tokens]
    found = list(windows(ids, chunk, bos))
    if not found:
        raise FewbitError(f"the text gives {len(ids)} token; at least 2 are needed")
    return found, len(ids)


class _Progress:
    """Bars on standard error, gone when done."""

    def __enter__(self) -> _Progress:
        from rich.console import Console
        from rich.progress import Progress

        self._bars = Progress(console=Console(stderr=True), transient=True)
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bars.stop()

    def load(self, path: Path, label: str, chunk: int, **options: Any) -> Subject:
        from fewbit.evaluate.subject import Subject

        task = self._bars.add_task(f"loading {label}", total=None)
        subject = Subject(
            path,
            chunk,
            progress=lambda done, total: self._bars.update(task, completed=done, total=total),
            **options,
        )
        self._bars.remove_task(task)
        return subject

    def count(self, label: str, total: int) -> Any:
        task = self._bars.add_task(label, total=total)
        return lambda tokens: self._bars.advance(task, tokens)


def _print(
    title: str, facts: dict[str, Any], tallies: dict[str, Tally], subjects: dict[str, Subject], as_json: bool
) -> None:
    from fewbit.cli.output import console, print_json, table

    figures = {name: tally.figures() for name, tally in tallies.items()}
    if as_json:
        print_json(facts | {"results": [{"activations": name} | found for name, found in figures.items()]})
        return
    rows = [
        [label, *(_format(key, found[key]) for found in figures.values())]
        for key, label in LABELS.items()
        if all(key in found for found in figures.values())
    ]
    names = [f"activations {name}" for name in figures]
    out = console()
    out.print(f"[bold]{title}[/bold] on {facts['text']}, reference {facts['reference']}")
    out.print(table(["", *names], rows, right=names))
    for note in dict.fromkeys(note for subject in subjects.values() for note in subject.notes):
        out.print(f"note: {note}")


LABELS = {
    "tokens": "tokens scored",
    "perplexity": "perplexity",
    "reference_perplexity": "  of the reference",
    "nll_mean": "mean -log p",
    "kl_mean": "KL, mean",
    "kl_max": "KL, greatest",
    "top1_agreement": "top-1 agreement",
    "dlogp_mean": "|dlogp|, mean",
    "dlogp_max": "|dlogp|, greatest",
}


def _format(key: str, value: float) -> str:
    if key == "tokens":
        return f"{value:,}"
    if key == "top1_agreement":
        return f"{value:.2%}"
    return f"{value:.2e}" if key.startswith("kl") else f"{value:.4f}"
