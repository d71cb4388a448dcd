"""Byte-level BPE (`tokenizer.ggml.model` = gpt2) as the model parts of a Hugging Face tokenizer.json."""

from __future__ import annotations

from typing import Any

from fewbit.formats.gguf.config import Reader
from fewbit.formats.gguf.pretokenizers import PRE_TOKENIZERS, PreTokenizer
from fewbit.formats.gguf.vocabulary import PREFIX, Vocabulary, string_array


def pre_tokenizer(reader: Reader) -> PreTokenizer:
    name = reader.get(PREFIX + "pre", "string")
    if name is None:
        reader.fail(
            f"has no metadata key {PREFIX + 'pre'!r}, so its text splitting is unknown; convert the model again"
        )
    if name not in PRE_TOKENIZERS:
        reader.fail(f"pre-tokenizer {name!r} is not supported (supported: {', '.join(PRE_TOKENIZERS)})")
    return PRE_TOKENIZERS[name]


def byte_level_bpe(vocabulary: Vocabulary) -> dict[str, Any]:
    reader = vocabulary.reader
    pre = pre_tokenizer(reader)
    ids = vocabulary.ids()
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    return {
        "normalizer": {"type": pre.normalizer} if pre.normalizer else None,
        "pre_tokenizer": pre.json(),
        "decoder": byte_level,
        "model": {
            "type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
            "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": pre.ignore_merges,
            "vocab": ids, "merges": _merges(reader, ids),
        },
    }  # fmt: skip


def _merges(reader: Reader, ids: dict[str, int]) -> list[tuple[str, str]]:
    pairs: list[tuple[str, str]] = []
    for index, merge in enumerate(string_array(reader, "merges").decode()):
        space = merge.find(" ", 1)  # a token may begin with the space itself
        left, right = merge[:space], merge[space + 1 :]
        if space < 0 or left not in ids or right not in ids or left + right not in ids:
            reader.fail(
                f"metadata key {PREFIX + 'merges'!r}[{index}] is {merge!r}, expected two tokens whose join is a token"
            )
        pairs.append((left, right))
    return pairs
