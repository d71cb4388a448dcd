"""SentencePiece BPE (`tokenizer.ggml.model` = llama) as the model parts of a Hugging Face tokenizer.json.

The file has scores and no merges. Joining the neighbours whose join scores highest, leftmost first, is the same as
applying merges in the order of descending score, so every way to split a token into two tokens becomes a merge.
"""

from __future__ import annotations

from typing import Any

from fewbit.formats.gguf.vocabulary import (
    BYTE,
    NORMAL,
    PREFIX,
    UNKNOWN,
    USER_DEFINED,
    Vocabulary,
    number_array,
)

SPACE = "▁"


def sentencepiece_bpe(vocabulary: Vocabulary) -> dict[str, Any]:
    reader, types = vocabulary.reader, vocabulary.types
    ids = vocabulary.ids()
    if UNKNOWN not in types:
        reader.fail(
            f"metadata key {PREFIX + 'token_type'!r} marks no token as unknown, which this vocabulary needs"
        )
    missing = [b for b in range(256) if types[ids.get(f"<0x{b:02X}>", 0)] != BYTE]
    if missing:
        reader.fail(
            f"token '<0x{missing[0]:02X}>' is absent or not of type byte; text could not be written without it"
        )
    prefix = reader.get(PREFIX + "add_space_prefix", "bool")
    prefix = True if prefix is None else prefix
    replace = {"type": "Replace", "pattern": {"String": " "}, "content": SPACE}
    normalizers: list[dict[str, Any]] = [{"type": "Prepend", "prepend": SPACE}] if prefix else []
    decoders: list[dict[str, Any]] = [
        {"type": "Replace", "pattern": {"String": SPACE}, "content": " "},
        {"type": "ByteFallback"},
        {"type": "Fuse"},
    ]
    if prefix:
        decoders.append({"type": "Strip", "content": " ", "start": 1, "stop": 0})
    return {
        "normalizer": {"type": "Sequence", "normalizers": [*normalizers, replace]},
        "pre_tokenizer": None,
        "decoder": {"type": "Sequence", "decoders": decoders},
        "model": {
            "type": "BPE", "dropout": None, "unk_token": vocabulary.tokens[types.index(UNKNOWN)],
            "continuing_subword_prefix": None, "end_of_word_suffix": None, "fuse_unk": True, "byte_fallback": True,
            "ignore_merges": False, "vocab": ids, "merges": _merges(vocabulary, ids),
        },
    }  # fmt: skip


def _merges(vocabulary: Vocabulary, ids: dict[str, int]) -> list[tuple[str, str]]:
    scores = number_array(vocabulary.reader, "scores", "fi", len(vocabulary.tokens)).tolist()
    joinable = {t: i for t, i in ids.items() if vocabulary.types[i] in (NORMAL, USER_DEFINED)}
    merges: list[tuple[float, int, int, str, str]] = []
    for token, i in joinable.items():
        if vocabulary.types[i] != NORMAL or len(token) > 256:
            continue
        for cut in range(1, len(token)):
            left, right = token[:cut], token[cut:]
            if left in joinable and right in joinable:
                merges.append((-scores[i], i, cut, left, right))
    merges.sort()
    return [(left, right) for _, _, _, left, right in merges]
