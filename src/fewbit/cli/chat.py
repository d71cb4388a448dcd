"""`fewbit chat`: a conversation in the terminal."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from fewbit.cli.generating import Client, SamplingConfig
from fewbit.cli.options import MODEL, SOURCE, ModelFlags, SourceFlags
from fewbit.config import EngineConfig
from fewbit.spec.refusal import FewbitError

if TYPE_CHECKING:
    from fewbit.engine.load import Loaded


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatSampling(SamplingConfig):
    """A conversation is livelier than a completion."""

    temperature: float = 0.7
    top_p: float = 0.95


ChatFlags = Annotated[ChatSampling, Parameter(name="*", group="Sampling")]
CHAT = ChatSampling()

HELP = "Ctrl-C stops an answer, /new starts over, Ctrl-D or /quit ends."


def chat(
    model: str,
    /,
    *,
    system: str | None = None,
    context: int | None = None,
    sampling: ChatFlags = CHAT,
    source: SourceFlags = SOURCE,
    loading: ModelFlags = MODEL,
) -> None:
    """Talk to a model in the terminal. Ctrl-C stops an answer, Ctrl-D ends.

    Parameters
    ----------
    model
        A GGUF file, a Hugging Face folder, `demo`, or `org/name` of the Hugging Face hub.
    system
        What the model is told before the conversation.
    context
        Longest conversation in tokens; by default the model's own limit, as memory allows.
    """
    from fewbit.cli.loading import load_with_progress

    loaded = load_with_progress(
        model, source, loading, EngineConfig(max_sequences=1, context=context), quiet=True
    )
    try:
        if not loaded.tokenizer.has_chat_template:
            raise FewbitError("this model has no chat template; `fewbit run --raw` continues plain text")
        talk(loaded, system, sampling)
    finally:
        loaded.close()


def talk(loaded: Loaded, system: str | None, sampling: SamplingConfig) -> None:
    import contextlib

    with contextlib.suppress(ImportError):
        import readline  # noqa: F401 - line editing and history for input()

    start = [{"role": "system", "content": system}] if system else []
    messages = list(start)
    client = Client(loaded.engine.channel)
    if sys.stdin.isatty():
        print(HELP)
    while True:
        try:
            line = input("> " if sys.stdin.isatty() else "").strip()
        except EOFError:
            print()
            return
        except KeyboardInterrupt:
            print()
            continue
        if line in ("/quit", "/exit"):
            return
        if line == "/new":
            messages = list(start)
        elif line:
            messages.append({"role": "user", "content": line})
            try:
                messages.append({"role": "assistant", "content": answer(loaded, client, messages, sampling)})
            except FewbitError as error:
                messages.pop()
                print(f"fewbit: {error}", file=sys.stderr)


def answer(loaded: Loaded, client: Client, messages: list[dict[str, str]], sampling: SamplingConfig) -> str:
    """Print one answer while it comes and return it. Ctrl-C ends it early; what was said so far counts."""
    from fewbit.engine.messages import Token

    tokenizer, limits = loaded.tokenizer, loaded.engine.limits
    ids = tokenizer.encode_chat(messages)
    room = limits.max_context_tokens - len(ids)
    if room < 1:
        raise FewbitError(
            f"the conversation has {len(ids)} tokens, more than the context of {limits.max_context_tokens}; /new starts over"
        )
    (request_id,) = client.submit([(ids, sampling.params(room, tokenizer.eos_ids))])
    detokenizer = tokenizer.detokenizer()
    said = ""
    events = client.events()
    while True:
        try:
            event = next(events)
        except KeyboardInterrupt:
            client.cancel(request_id)
            events = client.events()  # an interrupted generator is finished
            continue
        if event.request_id != request_id:
            continue
        if not isinstance(event, Token):
            print("\n" if event.reason != "length" else "\n[the context is full]")
            return said
        text = detokenizer.feed(event.token_id)
        said += text
        print(text, end="", flush=True)
