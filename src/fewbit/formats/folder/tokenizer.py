"""Tokenizer, chat template and end tokens of a Hugging Face folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fewbit.formats.checkpoint import TokenizerFiles
from fewbit.formats.files import CheckedFile
from fewbit.formats.folder.members import MAX_JSON_BYTES, member
from fewbit.formats.strict_json import parse, read_object
from fewbit.spec.refusal import CheckpointError

MAX_TEMPLATE_BYTES = 1 << 20
OTHER_TOKENIZERS = ("tokenizer.model", "vocab.json", "tekken.json", "vocab.txt")


def read_tokenizer(folder: Path, config: dict[str, Any]) -> TokenizerFiles | None:
    """None when the folder has no tokenizer at all; one that is not tokenizer.json is refused by name."""
    path = member(folder, "tokenizer.json")
    if path is None:
        for name in OTHER_TOKENIZERS:
            if member(folder, name) is not None:
                raise CheckpointError(
                    f"{folder}: has the tokenizer {name} and no tokenizer.json; convert it with "
                    "AutoTokenizer.from_pretrained(...).save_pretrained(...)"
                )
        return None
    text = _read_text(path, MAX_JSON_BYTES)
    added = _added_tokens(parse(text.encode(), str(path)), path, config["vocab_size"])
    ids = {token["content"]: token["id"] for token in added}
    settings = _optional(folder, "tokenizer_config.json")
    generation = _optional(folder, "generation_config.json")
    named = {
        role: ids.get(_token_text(settings.get(f"{role}_token")) or "") for role in ("bos", "eos", "pad")
    }
    ends = [i for source in (generation, config) for i in _as_list(source.get("eos_token_id"), path)]
    if named["eos"] is not None:
        ends.insert(0, named["eos"])
    bos = [
        named["bos"],
        *_as_list(generation.get("bos_token_id"), path),
        *_as_list(config.get("bos_token_id"), path),
    ]
    pad = [
        named["pad"],
        *_as_list(generation.get("pad_token_id"), path),
        *_as_list(config.get("pad_token_id"), path),
    ]
    for i in (*ends, *filter(None, bos)):
        if i >= config["vocab_size"]:
            raise CheckpointError(
                f"{folder}: token id {i} is named as a begin or end token, but the vocabulary has {config['vocab_size']}"
            )
    return TokenizerFiles(
        json=text,
        chat_template=_chat_template(folder, settings),
        bos_id=next((i for i in bos if i is not None), None),
        eos_id=ends[0] if ends else None,
        pad_id=next((i for i in pad if i is not None), None),
        eos_ids=tuple(dict.fromkeys(ends)),
        add_bos=None,
        special_ids=frozenset(token["id"] for token in added if token.get("special") is True),
    )


def _added_tokens(value: Any, path: Path, vocab_size: int) -> list[dict[str, Any]]:
    """The added tokens; checks that no token at all lies beyond the vocabulary."""
    model = value.get("model") if isinstance(value, dict) else None
    added = (value.get("added_tokens") or []) if isinstance(value, dict) else None
    if not isinstance(model, dict) or not isinstance(added, list) or not all(map(_is_added, added)):
        raise CheckpointError(
            f"{path}: is not a Hugging Face tokenizer (no 'model', or malformed 'added_tokens'); it is corrupt"
        )
    vocab = model.get("vocab")
    ids = [i for i in vocab.values() if type(i) is int] if isinstance(vocab, dict) else []
    largest = max([0, *ids, *(token["id"] for token in added)])
    if largest >= vocab_size:
        raise CheckpointError(
            f"{path}: has token id {largest}, but config.json says vocab_size {vocab_size}; they do not belong together"
        )
    return added


def _is_added(token: Any) -> bool:
    return isinstance(token, dict) and isinstance(token.get("content"), str) and type(token.get("id")) is int


def _token_text(value: Any) -> str | None:
    """A token as text, or as the object of an AddedToken."""
    value = value.get("content") if isinstance(value, dict) else value
    return value if isinstance(value, str) else None


def _chat_template(folder: Path, settings: dict[str, Any]) -> str | None:
    path = member(folder, "chat_template.jinja")
    if path is not None:
        return _read_text(path, MAX_TEMPLATE_BYTES)
    template = settings.get("chat_template")
    if isinstance(template, list):  # several by name: the one named default
        found = {t.get("name"): t.get("template") for t in template if isinstance(t, dict)}
        template = found.get("default")
    if template is not None and (not isinstance(template, str) or len(template) > MAX_TEMPLATE_BYTES):
        raise CheckpointError(
            f"{folder / 'tokenizer_config.json'}: key 'chat_template' is not a template of at most 1 MiB"
        )
    return template


def _optional(folder: Path, name: str) -> dict[str, Any]:
    path = member(folder, name)
    return {} if path is None else read_object(path, MAX_JSON_BYTES)


def _as_list(value: Any, path: Path) -> list[int]:
    values = value if isinstance(value, list) else [] if value is None else [value]
    if not all(type(v) is int for v in values):
        raise CheckpointError(
            f"{path.parent}: token ids are given as {repr(value)[:80]}, expected whole numbers"
        )
    return [v for v in values if v >= 0]


def _read_text(path: Path, limit: int) -> str:
    file = CheckedFile(path)
    try:
        if file.size > limit:
            raise CheckpointError(f"{path}: has {file.size} bytes, expected at most {limit}")
        return file.read(0, file.size, "the file").tobytes().decode("utf-8")
    except UnicodeDecodeError as error:
        raise CheckpointError(f"{path}: is not valid UTF-8 at byte {error.start}; it is corrupt") from None
    finally:
        file.close()
