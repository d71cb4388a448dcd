"""The tokenizer of a GGUF file as the text of a Hugging Face tokenizer.json, and the ids that matter to an engine."""

from __future__ import annotations

import json
from typing import Any

from fewbit.formats.checkpoint import TokenizerFiles
from fewbit.formats.gguf.config import Reader
from fewbit.formats.gguf.tokenizer_bpe import byte_level_bpe, pre_tokenizer
from fewbit.formats.gguf.tokenizer_spm import sentencepiece_bpe
from fewbit.formats.gguf.tokenizer_ugm import unigram
from fewbit.formats.gguf.tokenizer_wpm import word_piece
from fewbit.formats.gguf.vocabulary import (
    CONTROL,
    MODELS,
    PREFIX,
    UNKNOWN,
    Vocabulary,
    number_array,
    read_vocabulary,
    string_array,
    token_id,
)  # fmt: skip

# Files name one end token, but chat models end a turn with another: control tokens of these texts end a turn too.
END_OF_TURN = frozenset(
    {"<|eot_id|>", "<|eom_id|>", "<|im_end|>", "<|end|>", "<|endoftext|>", "<|end_of_text|>", "</s>", "<end_of_turn>",
     "<｜end▁of▁sentence｜>"}
)  # fmt: skip

TEMPLATED = ("bert", "t5")
"""Models whose texts begin and end with tokens that tokenizer.json itself puts there."""


def check_tokenizer(reader: Reader, rows: int) -> None:
    """What can be checked without building: the kind of tokenizer, and that its arrays agree with the embedding's rows."""
    model = reader.get(PREFIX + "model", "string")
    if model in (None, "none", "no_vocab"):
        return
    if model not in MODELS:
        reader.fail(f"tokenizer model {model!r} is not supported (supported: {', '.join(MODELS)})")
    count = string_array(reader, "tokens").count
    if count != rows:
        reader.fail(
            f"metadata key {PREFIX + 'tokens'!r} has {count} tokens, but tensor 'token_embd.weight' has {rows} rows"
        )
    number_array(reader, "token_type", "iu", count)
    if model == "gpt2":
        pre_tokenizer(reader)
        string_array(reader, "merges")
    elif model != "bert":
        number_array(reader, "scores", "fi", count)
    if model not in TEMPLATED and reader.get(PREFIX + "add_eos_token", "bool"):
        reader.fail(
            f"metadata key {PREFIX + 'add_eos_token'!r} is true: prompts that end in an end token are not supported"
        )
    if model != "bert" and add_bos(reader, model) and token_id(reader, "bos_token_id", count) is None:
        reader.fail(
            f"prompts begin with a begin token, but metadata key {PREFIX + 'bos_token_id'!r} is absent"
        )
    for key in ("eos_token_id", "eot_token_id", "eom_token_id", "padding_token_id"):
        token_id(reader, key, count)


def build_tokenizer(reader: Reader) -> TokenizerFiles | None:
    model = reader.get(PREFIX + "model", "string")
    if model in (None, "none", "no_vocab"):
        return None
    vocabulary = read_vocabulary(reader)
    parts = _parts(reader, model, vocabulary)
    text = json.dumps(
        {"version": "1.0", "truncation": None, "padding": None, "added_tokens": vocabulary.added_tokens(),
         "post_processor": None, **parts},
        ensure_ascii=False,
    )  # fmt: skip
    count = len(vocabulary.tokens)
    ends = _end_ids(reader, vocabulary)
    special = {i for i, kind in enumerate(vocabulary.types) if kind in (CONTROL, UNKNOWN)}
    return TokenizerFiles(
        json=text,
        chat_template=reader.get("tokenizer.chat_template", "string"),
        bos_id=token_id(reader, "bos_token_id", count),
        eos_id=ends[0] if ends else None,
        pad_id=token_id(reader, "padding_token_id", count),
        eos_ids=ends,
        add_bos=None if model in TEMPLATED else add_bos(reader, model),
        special_ids=frozenset(special | set(ends)),
    )


def _parts(reader: Reader, model: str, vocabulary: Vocabulary) -> dict[str, Any]:
    match model:
        case "gpt2":
            return byte_level_bpe(vocabulary)
        case "llama":
            return sentencepiece_bpe(vocabulary)
        case "bert":
            return word_piece(vocabulary)
    add_eos = reader.get(PREFIX + "add_eos_token", "bool")
    return unigram(vocabulary, add_bos(reader, model), add_eos is None or add_eos)


def add_bos(reader: Reader, model: str) -> bool:
    stated: bool | None = reader.get(PREFIX + "add_bos_token", "bool")
    if stated is not None:
        return stated
    return pre_tokenizer(reader).add_bos if model == "gpt2" else model == "llama"


def _end_ids(reader: Reader, vocabulary: Vocabulary) -> tuple[int, ...]:
    count = len(vocabulary.tokens)
    named = [token_id(reader, key, count) for key in ("eos_token_id", "eot_token_id", "eom_token_id")]
    by_text = [
        i
        for i, kind in enumerate(vocabulary.types)
        if kind == CONTROL and vocabulary.tokens[i] in END_OF_TURN
    ]
    return tuple(dict.fromkeys(i for i in (*named, *by_text) if i is not None))
