"""SentencePiece unigram (`tokenizer.ggml.model` = t5) as the parts of a Hugging Face tokenizer.json.

Text is mapped by the file's own table of characters, runs of spaces become one, a space is put before, and of all ways to
split what results, the one whose tokens' scores (log probabilities) add up highest is taken.
"""

from __future__ import annotations

import base64
from typing import Any

import numpy as np

from fewbit.formats.gguf.charsmap import check_charsmap
from fewbit.formats.gguf.vocabulary import (
    BYTE,
    NORMAL,
    PREFIX,
    UNKNOWN,
    USER_DEFINED,
    Vocabulary,
    number_array,
    template,
    token_id,
)

SPACE = "▁"


def unigram(vocabulary: Vocabulary, add_bos: bool, add_eos: bool) -> dict[str, Any]:
    reader, types, tokens = vocabulary.reader, vocabulary.types, vocabulary.tokens
    vocabulary.ids()
    unknown = token_id(reader, "unknown_token_id", len(tokens))
    if unknown is None and UNKNOWN not in types:
        reader.fail(
            f"metadata key {PREFIX + 'token_type'!r} marks no token as unknown, which this vocabulary needs"
        )
    decoders: list[dict[str, Any]] = [
        {"type": "Replace", "pattern": {"String": SPACE}, "content": " "},
        *([{"type": "ByteFallback"}] if BYTE in types else []),
        {"type": "Fuse"},
    ]
    prefix = _flag(vocabulary, "add_space_prefix")
    if prefix:
        decoders.append({"type": "Strip", "content": " ", "start": 1, "stop": 0})
    ends = {}
    for key, wanted in (("bos_token_id", add_bos), ("eos_token_id", add_eos)):
        if wanted and (found := token_id(reader, key, len(tokens))) is not None:
            ends[key] = found
    return {
        "normalizer": {"type": "Sequence", "normalizers": _normalizers(vocabulary, prefix)},
        "pre_tokenizer": None,
        "post_processor": template(
            {i: tokens[i] for i in ends.values()},
            tuple(i for key, i in ends.items() if key == "bos_token_id"),
            tuple(i for key, i in ends.items() if key == "eos_token_id"),
        ),
        "decoder": {"type": "Sequence", "decoders": decoders},
        "model": {
            "type": "Unigram", "unk_id": types.index(UNKNOWN) if unknown is None else unknown,
            "vocab": _scored(vocabulary), "byte_fallback": BYTE in types,
        },
    }  # fmt: skip


def _flag(vocabulary: Vocabulary, key: str) -> bool:
    stated: bool | None = vocabulary.reader.get(PREFIX + key, "bool")
    return stated if stated is not None else key == "add_space_prefix"


def _normalizers(vocabulary: Vocabulary, prefix: bool) -> list[dict[str, Any]]:
    steps: list[dict[str, Any]] = []
    table = vocabulary.reader.values.get(PREFIX + "precompiled_charsmap")
    if table is not None:
        if not isinstance(table, np.ndarray) or table.dtype.itemsize != 1:
            vocabulary.reader.fail(
                f"metadata key {PREFIX + 'precompiled_charsmap'!r} is of another type, expected an array of bytes"
            )
        raw = table.tobytes()
        if raw:
            check_charsmap(vocabulary.reader, raw)
            steps.append({"type": "Precompiled", "precompiled_charsmap": base64.b64encode(raw).decode()})
    if _flag(vocabulary, "remove_extra_whitespaces"):
        # Not "Strip", which takes away U+0085 and others that are no space here.
        for pattern, instead in ((" {2,}", " "), (r"\A | \z", "")):
            steps.append({"type": "Replace", "pattern": {"Regex": pattern}, "content": instead})
    if prefix:
        steps.append({"type": "Prepend", "prepend": SPACE})
    return [*steps, {"type": "Replace", "pattern": {"String": " "}, "content": SPACE}]


def _scored(vocabulary: Vocabulary) -> list[tuple[str, float]]:
    """Tokens with their scores. A user-defined token wins over normal ones with 0, and none of the others may set the lowest
    score, from which that of an unknown character is counted."""
    tokens, types = vocabulary.tokens, vocabulary.types
    scores = number_array(vocabulary.reader, "scores", "fi", len(tokens)).astype(np.float64)
    if not np.isfinite(scores).all():
        vocabulary.reader.fail(f"metadata key {PREFIX + 'scores'!r} holds a NaN or an infinity")
    kinds = np.array(types)
    lowest = scores[kinds == NORMAL].min(initial=0.0)
    scores = np.where(kinds == USER_DEFINED, 0.0, np.maximum(scores, lowest))
    return list(zip(tokens, scores.tolist(), strict=True))
