"""`fewbit run`: completions on standard output."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from fewbit.cli.generating import Client, SamplingConfig
from fewbit.cli.options import (
    ENGINE,
    MODEL,
    SAMPLING,
    SOURCE,
    EngineFlags,
    ModelFlags,
    SamplingFlags,
    SourceFlags,
)
from fewbit.spec.refusal import FewbitError

if TYPE_CHECKING:
    from fewbit.engine.load import Loaded


def run(
    model: str,
    prompt: str | None = None,
    /,
    *,
    file: Path | None = None,
    raw: bool = False,
    json: bool = False,
    sampling: SamplingFlags = SAMPLING,
    source: SourceFlags = SOURCE,
    loading: ModelFlags = MODEL,
    engine: EngineFlags = ENGINE,
) -> None:
    """Answer one prompt, or every line of a file of prompts, all at once as far as memory allows.

    Answers come in the order of the prompts. A single answer is printed while it grows.

    Parameters
    ----------
    model
        A GGUF file, a Hugging Face folder, `demo`, or `org/name` of the Hugging Face hub.
    prompt
        The prompt; `-` reads it from standard input.
    file
        A text file with one prompt a line; empty lines are skipped.
    raw
        Continue the prompt's text as it is, without the chat template.
    json
        Print one JSON object a line: prompt, text, tokens, finish_reason.
    """
    prompts = _prompts(prompt, file)
    from fewbit.cli.loading import load_with_progress

    loaded = load_with_progress(model, source, loading, engine, quiet=True)
    try:
        _answer(loaded, prompts, raw or not loaded.tokenizer.has_chat_template, json, sampling)
    finally:
        loaded.close()


def _prompts(prompt: str | None, file: Path | None) -> list[str]:
    if (prompt is None) == (file is None):
        raise FewbitError("give one prompt, or --file with a prompt a line")
    if file is None:
        return [sys.stdin.read() if prompt == "-" else str(prompt)]
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise FewbitError(
            f"{file} can't be read: {getattr(error, 'strerror', None) or 'not UTF-8'}"
        ) from None
    prompts = [line for line in lines if line.strip()]
    if not prompts:
        raise FewbitError(f"{file} holds no prompts; expected one a line")
    return prompts


def _answer(loaded: Loaded, prompts: list[str], raw: bool, as_json: bool, sampling: SamplingConfig) -> None:
    import json

    from fewbit.engine.messages import Token

    tokenizer, limits = loaded.tokenizer, loaded.engine.limits
    work = []
    for number, prompt in enumerate(prompts, 1):
        ids = (
            tokenizer.encode(prompt) if raw else tokenizer.encode_chat([{"role": "user", "content": prompt}])
        )
        room = limits.max_context_tokens - len(ids)
        if not ids or room < 1:
            raise FewbitError(
                f"prompt {number} has {len(ids)} tokens; the context of {limits.max_context_tokens} needs 1 to one less"
            )
        work.append((ids, sampling.params(room, tokenizer.eos_ids)))

    client = Client(loaded.engine.channel)
    live = len(prompts) == 1 and not as_json
    texts = [""] * len(prompts)
    reasons: list[tuple[str, int] | None] = [None] * len(prompts)
    detokenizers = [tokenizer.detokenizer() for _ in prompts]
    waiting = list(enumerate(work))[::-1]
    most = limits.max_sequences + limits.max_waiting
    printed, running, of = 0, 0, {}
    events = client.events()
    while printed < len(prompts):
        while waiting and running < most:
            index, item = waiting.pop()
            of[client.submit([item])[0]] = index
            running += 1
        event = next(events)
        index = of[event.request_id]
        if isinstance(event, Token):
            text = detokenizers[index].feed(event.token_id)
            texts[index] += text
            if live:
                print(text, end="", flush=True)
            continue
        running -= 1
        reasons[index] = (event.reason, event.output_tokens)
        while printed < len(prompts) and (ended := reasons[printed]):
            if as_json:
                body = {
                    "prompt": prompts[printed],
                    "text": texts[printed],
                    "tokens": ended[1],
                    "finish_reason": ended[0],
                }
                print(json.dumps(body, ensure_ascii=False), flush=True)
            else:
                print("" if live else texts[printed], flush=True)
            printed += 1
