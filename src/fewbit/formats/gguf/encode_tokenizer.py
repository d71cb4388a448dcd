"""A Hugging Face tokenizer.json as the arrays of a GGUF: the inverse of `tokenizer`. What they cannot say is a ValueError."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from fewbit.formats.checkpoint import TokenizerFiles
from fewbit.formats.gguf.pretokenizers import PRE_TOKENIZERS, PreTokenizer
from fewbit.formats.gguf.tokenizer_spm import SPACE
from fewbit.formats.gguf.vocabulary import BYTE, CONTROL, NORMAL, PREFIX, UNKNOWN, UNUSED, USER_DEFINED

GPT2 = PRE_TOKENIZERS["gpt-2"].patterns[0]
REST = r"|\s+"  # whitespace that no other alternative takes is a piece of its own anyway


def tokenizer_metadata(files: TokenizerFiles, vocab_size: int) -> dict[str, Any]:
    """Every key under `tokenizer.`, for an embedding of `vocab_size` rows."""
    whole: dict[str, Any] = json.loads(files.json)
    model = whole["model"]
    if (
        model.get("type") != "BPE"
        or model.get("dropout")
        or model.get("continuing_subword_prefix")
        or model.get("end_of_word_suffix")
    ):
        raise ValueError(f"GGUF cannot express the tokenizer model {model.get('type')!r} with these options")
    tokens, types = _tokens(whole, vocab_size)
    merges = [tuple(m.split(" ", 1)) if isinstance(m, str) else tuple(m) for m in model["merges"]]
    if model.get("byte_fallback"):
        own = _sentencepiece(whole, tokens, types, merges)
    else:
        own = _byte_level(whole, merges)
    found: dict[str, Any] = {
        **own,
        "tokens": tokens,
        "token_type": np.array(types, "<i4"),
        "add_bos_token": _adds_bos(whole, files) if files.add_bos is None else files.add_bos,
    }
    ends = [i for i in files.eos_ids if i != files.eos_id]
    ids = {"bos_token_id": files.bos_id, "eos_token_id": files.eos_id, "padding_token_id": files.pad_id}
    ids |= {"eot_token_id": ends[0]} if ends else {}
    found |= {key: i for key, i in ids.items() if i is not None}
    made = {PREFIX + key: v for key, v in found.items()}
    return made | ({"tokenizer.chat_template": files.chat_template} if files.chat_template else {})


def _tokens(whole: dict[str, Any], vocab_size: int) -> tuple[list[str], list[int]]:
    """Text and type by id; rows of the embedding without a token are unused."""
    tokens: list[str | None] = [None] * vocab_size
    types = [UNUSED] * vocab_size
    for token, i in whole["model"]["vocab"].items():
        tokens[i], types[i] = token, NORMAL
    for added in whole["added_tokens"]:
        plain = not (added.get("lstrip") or added.get("rstrip") or added.get("single_word"))
        if not plain or (added.get("normalized") and _normalizes(whole)):
            raise ValueError(
                f"GGUF cannot express the added token {added['content']!r}, which is not matched as it stands"
            )
        tokens[added["id"]] = added["content"]
        types[added["id"]] = CONTROL if added.get("special") else USER_DEFINED
    return [token if token is not None else f"[PAD{i}]" for i, token in enumerate(tokens)], types


def _normalizes(whole: dict[str, Any]) -> bool:
    return whole.get("normalizer") is not None


def _byte_level(whole: dict[str, Any], merges: list[tuple[str, ...]]) -> dict[str, Any]:
    normalizer, ignore = whole.get("normalizer"), bool(whole["model"].get("ignore_merges"))
    patterns = _patterns(whole.get("pre_tokenizer"))
    kind = normalizer.get("type") if normalizer else None
    wanted = tuple(pattern.removesuffix(REST) for pattern in patterns)
    for name, known in PRE_TOKENIZERS.items():
        if _signature(known) == (wanted, ignore, kind):
            return {"model": "gpt2", "pre": name, "merges": [" ".join(pair) for pair in merges]}
    raise ValueError(
        f"GGUF has no name for text split by {list(patterns)} (normalizer {kind}, ignore_merges {ignore})"
    )


def _signature(known: PreTokenizer) -> tuple[tuple[str, ...], bool, str | None]:
    return tuple(p.removesuffix(REST) for p in known.patterns), known.ignore_merges, known.normalizer


def _patterns(pre: Any) -> tuple[str, ...]:
    """The patterns that split text one after the other, the last step being the change to bytes."""
    steps = pre.get("pretokenizers", [pre]) if isinstance(pre, dict) else []
    found: list[str] = []
    for step in steps:
        match step:
            case {"type": "Digits", "individual_digits": True}:
                found.append(r"\p{N}")
            case {
                "type": "Split",
                "pattern": {"Regex": str(pattern)},
                "behavior": "Isolated",
                "invert": False,
            }:
                found.append(pattern)
            case {"type": "ByteLevel", "add_prefix_space": False} if step is steps[-1]:
                found += [GPT2] if step.get("use_regex", True) else []
            case _:
                raise ValueError(f"GGUF cannot express the pre-tokenizer {str(step)[:80]}")
    if not steps or steps[-1].get("type") != "ByteLevel":
        raise ValueError(
            "GGUF cannot express a BPE tokenizer that is neither byte-level nor falls back to bytes"
        )
    return tuple(found)


def _sentencepiece(
    whole: dict[str, Any], tokens: list[str], types: list[int], merges: list[tuple[str, ...]]
) -> dict[str, Any]:
    """A token's score is less the later its first merge comes, so that reading it back gives the merges in their order."""
    steps = (whole.get("normalizer") or {}).get("normalizers", [])
    prefix = {"type": "Prepend", "prepend": SPACE} in steps
    if whole.get("pre_tokenizer") is not None or len(steps) != 1 + prefix:
        raise ValueError(
            "GGUF cannot express this tokenizer with fallback to bytes: its text is changed in other ways"
        )
    ids = whole["model"]["vocab"]
    unknown = whole["model"].get("unk_token")
    for byte in range(256):
        if f"<0x{byte:02X}>" in ids:
            types[ids[f"<0x{byte:02X}>"]] = BYTE
    if unknown in ids:
        types[ids[unknown]] = UNKNOWN
    scores = np.full(len(tokens), -float(len(merges) + 1), np.float32)
    for rank, (left, right) in reversed(list(enumerate(merges))):
        scores[ids[left + right]] = -float(rank)
    return {"model": "llama", "scores": scores, "add_space_prefix": prefix}


def _adds_bos(whole: dict[str, Any], files: TokenizerFiles) -> bool:
    """From the post-processor: it adds nothing, or the begin token in front."""
    post = whole.get("post_processor")
    steps = post.get("processors", [post]) if isinstance(post, dict) else []
    adds = False
    for step in steps:
        match step:
            case {"type": "ByteLevel"}:
                continue
            case {"type": "TemplateProcessing", "single": [{"Sequence": _}]}:
                continue
            case {
                "type": "TemplateProcessing",
                "single": [{"SpecialToken": {"id": str(text)}}, {"Sequence": _}],
            }:
                if step["special_tokens"][text]["ids"] == [files.bos_id]:
                    adds = True
                    continue
        raise ValueError(f"GGUF cannot express the post-processor {str(step)[:80]}")
    return adds
