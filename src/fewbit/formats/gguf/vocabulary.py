"""The vocabulary of a GGUF file, as its metadata gives it, checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fewbit.formats.gguf.config import Reader
from fewbit.formats.gguf.cursor import StringArray
from fewbit.schemes.arrays import Array

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)
MODELS = ("gpt2", "llama", "bert", "t5")
PREFIX = "tokenizer.ggml."


@dataclass(frozen=True, slots=True)
class Vocabulary:
    reader: Reader
    tokens: list[str]
    types: list[int]

    def added_tokens(self) -> list[dict[str, Any]]:
        """Tokens found in the text before anything else: control tokens, which are special, and user-defined ones."""
        return [
            {"id": i, "content": token, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
             "special": kind != USER_DEFINED}
            for i, (token, kind) in enumerate(zip(self.tokens, self.types))
            if kind in (CONTROL, USER_DEFINED, UNKNOWN)
        ]  # fmt: skip

    def ids(self) -> dict[str, int]:
        ids = {token: i for i, token in enumerate(self.tokens)}
        if len(ids) != len(self.tokens):
            twice = next(token for i, token in enumerate(self.tokens) if ids[token] != i)
            self.reader.fail(f"token {twice!r} occurs twice in {PREFIX}tokens; the vocabulary is ambiguous")
        return ids


def string_array(reader: Reader, key: str) -> StringArray:
    value = reader.values.get(PREFIX + key)
    if not isinstance(value, StringArray):
        reader.fail(f"metadata key {PREFIX + key!r} is {'absent' if value is None else 'of another type'}, "
                    "expected an array of strings")  # fmt: skip
    return value


def number_array(reader: Reader, key: str, kinds: str, count: int) -> Array:
    """`kinds`: numpy kinds (i, u, f) that will do."""
    value = reader.values.get(PREFIX + key)
    if not isinstance(value, np.ndarray) or value.dtype.kind not in kinds:
        reader.fail(f"metadata key {PREFIX + key!r} is {'absent' if value is None else 'of another type'}, "
                    "expected an array of numbers")  # fmt: skip
    if len(value) != count:
        reader.fail(
            f"metadata key {PREFIX + key!r} has {len(value)} elements, expected {count}, one for each token"
        )
    return value


def token_id(reader: Reader, key: str, count: int) -> int | None:
    value = reader.get(PREFIX + key, "float")
    if value is None:
        return None
    if not isinstance(value, int) or not 0 <= value < count:
        reader.fail(f"metadata key {PREFIX + key!r} is {value}, expected a token id below {count}")
    return value


def read_vocabulary(reader: Reader) -> Vocabulary:
    tokens = string_array(reader, "tokens").decode()
    tokens = [token or f"[EMPTY_{i}]" for i, token in enumerate(tokens)]
    types = number_array(reader, "token_type", "iu", len(tokens)).tolist()
    return Vocabulary(reader, tokens, types)


def template(texts: dict[int, str], first: tuple[int, ...], last: tuple[int, ...]) -> dict[str, Any] | None:
    """A post-processor that puts the tokens `first` before a text and `last` behind it, None where there are none."""
    if not first and not last:
        return None

    def special(ids: tuple[int, ...], sequence: int) -> list[dict[str, Any]]:
        return [{"SpecialToken": {"id": texts[i], "type_id": sequence}} for i in ids]

    single = [*special(first, 0), {"Sequence": {"id": "A", "type_id": 0}}, *special(last, 0)]
    pair = [*single, {"Sequence": {"id": "B", "type_id": 1}}, *special(last, 1)]
    return {
        "type": "TemplateProcessing", "single": single, "pair": pair,
        "special_tokens": {text: {"id": text, "ids": [i], "tokens": [text]} for i, text in texts.items()},
    }  # fmt: skip
