"""A service over the fake runner, with a byte tokenizer: every token is one byte, and 256.. are control tokens."""

from __future__ import annotations

import json
from collections.abc import Callable

from fewbit.engine.host import EngineThread
from fewbit.engine.messages import Limits
from fewbit.formats.checkpoint import TokenizerFiles
from fewbit.server.engine_client import EngineClient
from fewbit.server.service import Service
from fewbit.tokenizer.token_bytes import byte_level_alphabet
from fewbit.tokenizer.tokenizer import Tokenizer
from tests.engine.fake_runner import FakeRunner, limits

BOS, EOS = 256, 257
VOCAB = 260
TEMPLATE = (
    "{% for m in messages %}{{ '<bos>' + m.role + ':' + m.content + '<eos>' }}{% endfor %}"
    "{% if add_generation_prompt %}<bos>assistant:{% endif %}"
)


def tokenizer_files() -> TokenizerFiles:
    vocab = {character: byte for character, byte in byte_level_alphabet().items()}
    added = [
        {
            "id": i,
            "content": text,
            "special": True,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
        }
        for i, text in ((BOS, "<bos>"), (EOS, "<eos>"))
    ]
    body = {
        "version": "1.0",
        "added_tokens": added,
        "pre_tokenizer": {
            "type": "ByteLevel",
            "add_prefix_space": False,
            "trim_offsets": True,
            "use_regex": False,
        },
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": {"type": "BPE", "vocab": vocab, "merges": []},
    }
    return TokenizerFiles(json.dumps(body), TEMPLATE, bos_id=BOS, eos_id=EOS, eos_ids=(EOS,), add_bos=False)


def saying(answer: str) -> Callable[[tuple[int, ...]], int]:
    """A script for the fake runner: after the last `assistant:` or `>` it says this, then ends."""
    text = answer.encode()

    def script(seen: tuple[int, ...]) -> int:
        raw = bytes(min(token, 255) for token in seen)
        at = max((raw.rfind(mark) + len(mark) for mark in (b"assistant:", b">") if mark in raw), default=0)
        said = len(raw) - at
        return text[said] if said < len(text) else EOS

    return script


def build(
    bounds: Limits | None = None, step_s: float = 0.0, stall_s: float = 60.0
) -> tuple[Service, EngineThread, FakeRunner]:
    bounds = bounds or limits(context=512, sequences=8, waiting=32, batch=128, pages=8 * 16 + 1, vocab=VOCAB)
    runner = FakeRunner(bounds.pages, VOCAB, step_s)
    runner.script = saying("Hello, wörld! 😀 This is the end.")
    engine = EngineThread(runner, bounds)
    client = EngineClient(engine.channel, bounds, stall_s)
    return (
        Service("fake", Tokenizer(tokenizer_files()), client, write_timeout_s=1.0, ping_s=5.0),
        engine,
        runner,
    )
