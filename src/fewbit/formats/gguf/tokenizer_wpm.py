"""WordPiece (`tokenizer.ggml.model` = bert) as the parts of a Hugging Face tokenizer.json.

The file marks the beginning of a word with "▁" and leaves a continuation bare; tokenizer.json leaves the beginning bare and
marks a continuation with "##". Control tokens stand as they are.
"""

from __future__ import annotations

from typing import Any

from fewbit.formats.gguf.vocabulary import CONTROL, PREFIX, UNKNOWN, Vocabulary, template, token_id

SPACE, CONTINUED = "▁", "##"
MAX_WORD = 100  # characters; a longer word is unknown
DEFAULTS = {"cls_token_id": 101, "seperator_token_id": 102, "unknown_token_id": 100}  # the key is spelled so


def special_ids(vocabulary: Vocabulary) -> dict[str, int]:
    """Of the tokens that begin and end a text, and of the one for unknown words."""
    count, found = len(vocabulary.tokens), {}
    for key, usual in DEFAULTS.items():
        stated = token_id(vocabulary.reader, key, count)
        found[key] = usual if stated is None else stated
        if found[key] >= count:
            vocabulary.reader.fail(
                f"metadata key {PREFIX + key!r} is absent, and its default {usual} is no token of {count}"
            )
    return found


def word_piece(vocabulary: Vocabulary) -> dict[str, Any]:
    reader, special = vocabulary.reader, special_ids(vocabulary)
    kept = {*special.values(), *(i for i, kind in enumerate(vocabulary.types) if kind in (CONTROL, UNKNOWN))}
    words = [token if i in kept else _word(token) for i, token in enumerate(vocabulary.tokens)]
    lowercase = reader.get(PREFIX + "normalizer.lowercase", "bool")
    lowercase = True if lowercase is None else lowercase
    first, last = special["cls_token_id"], special["seperator_token_id"]
    return {
        "normalizer": {
            "type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "lowercase": lowercase,
            "strip_accents": reader.get(PREFIX + "normalizer.strip_accents", "bool"),
        },
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": template({first: words[first], last: words[last]}, (first,), (last,)),
        "decoder": {"type": "WordPiece", "prefix": CONTINUED, "cleanup": True},
        "model": {
            "type": "WordPiece", "unk_token": words[special["unknown_token_id"]], "continuing_subword_prefix": CONTINUED,
            "max_input_chars_per_word": MAX_WORD, "vocab": Vocabulary(reader, words, vocabulary.types).ids(),
        },
    }  # fmt: skip


def _word(token: str) -> str:
    if token.startswith(SPACE):
        return token[1:] or token
    unused = (
        token.startswith("[") and token.endswith("]") and len(token) > 2
    )  # older files leave [unused7] bare
    return token if unused else CONTINUED + token
