"""WordPiece and unigram tokenizers built from GGUF metadata give the ids that the models' own tokenizers give."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

from fewbit.formats.files import CheckedFile
from fewbit.formats.gguf.config import Reader
from fewbit.formats.gguf.container import read_container
from fewbit.formats.gguf.tokenizer import build_tokenizer
from fewbit.formats.gguf.vocabulary import CONTROL, NORMAL, UNKNOWN, UNUSED, USER_DEFINED
from fewbit.spec.refusal import CheckpointError
from tests.formats.gguf.test_tokenizer import VOCABULARIES, read

WORDS = ["the", "cat", "##s", "##at", "c", "a", "t", "##t", "é", "e", "!", "漢", "[", "##]"]
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
BERT: dict[str, Any] = {
    "model": "bert",
    "tokens": [*SPECIAL, "[unused7]", *(w[2:] if w.startswith("##") else "▁" + w for w in WORDS)],
    "token_type": np.array([CONTROL] * 5 + [NORMAL] * (1 + len(WORDS)), "<i4"),
    "unknown_token_id": 1, "cls_token_id": 2, "seperator_token_id": 3, "padding_token_id": 0,
}  # fmt: skip
PIECES: dict[str, float] = {
    "▁": -2.0, "a": -3.0, "b": -3.5, "ab": -4.0, "▁a": -4.5, "▁ab": -5.5, "bc": -3.25, "c": -6.0, "abc": -8.0, "▁b": -7.0,
}  # fmt: skip
T5: dict[str, Any] = {
    "model": "t5",
    "tokens": ["<pad>", "</s>", "<unk>", *PIECES, "<x>", "<extra>"],
    "token_type": np.array([CONTROL, CONTROL, UNKNOWN] + [NORMAL] * len(PIECES) + [USER_DEFINED, UNUSED], "<i4"),
    "scores": np.array([0.0, 0.0, 0.0, *PIECES.values(), -9.0, -10000.0], "<f4"),
    "eos_token_id": 1, "unknown_token_id": 2, "add_space_prefix": True, "remove_extra_whitespaces": True,
}  # fmt: skip


def metadata(values: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {f"tokenizer.ggml.{key}": value for key, value in (values | changes).items()}


def tokenizer(values: dict[str, Any], **changes: Any) -> Tokenizer:
    return Tokenizer.from_str(read(metadata(values, **changes)).json)


def own_word_piece(lowercase: bool) -> Tokenizer:
    """The same vocabulary as its model has it."""
    vocab = {token: i for i, token in enumerate([*SPECIAL, "[unused7]", *WORDS])}
    made = Tokenizer(models.WordPiece(vocab, unk_token="[UNK]", max_input_chars_per_word=100))
    made.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.add_special_tokens(SPECIAL)
    return made


@pytest.fixture(scope="module")
def word_pieces() -> list[tuple[Tokenizer, Tokenizer]]:
    return [(tokenizer(BERT, **{"normalizer.lowercase": low}), own_word_piece(low)) for low in (True, False)]


@settings(max_examples=300, deadline=None)
@given(text=st.text(alphabet=st.sampled_from("the cats CATé漢 \n![]x▁#"), max_size=40))
def test_word_pieces_are_those_of_the_model(
    word_pieces: list[tuple[Tokenizer, Tokenizer]], text: str
) -> None:
    for ours, theirs in word_pieces:
        assert (
            ours.encode(text, add_special_tokens=False).ids
            == theirs.encode(text, add_special_tokens=False).ids
        )


def test_texts_begin_and_end_as_bert_has_them() -> None:
    files = read(metadata(BERT))
    assert files.add_bos is None and files.eos_ids == () and files.pad_id == 0
    found = Tokenizer.from_str(files.json)
    assert found.encode("The cats!").tokens == ["[CLS]", "the", "cat", "##s", "!", "[SEP]"]
    assert found.encode("cat", "the").type_ids == [0, 0, 0, 1, 1]
    assert found.decode(found.encode("The cats!").ids) == "the cats!"
    assert found.encode("dog [MASK]").tokens == ["[CLS]", "[UNK]", "[MASK]", "[SEP]"]


def test_accents_go_with_lower_case_unless_said() -> None:
    assert tokenizer(BERT).encode("é", add_special_tokens=False).tokens == ["e"]
    kept = tokenizer(BERT, **{"normalizer.strip_accents": False})
    assert kept.encode("É", add_special_tokens=False).tokens == ["é"]


def viterbi(text: str, add_prefix: bool = True, merge: bool = True) -> list[int]:
    """The unigram model by definition: the best sum of scores over all ways to split, unknown characters 10 below the lowest."""
    if merge:
        text = " ".join(part for part in text.split(" ") if part)
    text = text.replace(" ", "▁")
    text = "▁" + text if text and add_prefix else text
    ids = {piece: i + 3 for i, piece in enumerate(PIECES)} | {"<extra>": len(PIECES) + 4}
    scores = PIECES | {"<extra>": min(PIECES.values())}
    best: list[tuple[float, int, int]] = [(0.0, 0, 0)] + [(-math.inf, 0, 0)] * len(text)
    for start in range(len(text)):
        for stop in range(start + 1, len(text) + 1):
            piece = text[start:stop]
            unknown = stop == start + 1 and piece not in ids
            if piece in ids or unknown:
                score = best[start][0] + (min(PIECES.values()) - 10 if unknown else scores[piece])
                if score > best[stop][0]:
                    best[stop] = (score, start, 2 if unknown else ids[piece])
    found: list[int] = []
    at = len(text)
    while at:
        _, start, token = best[at]
        if not (found and found[-1] == token == 2):  # neighbouring unknowns are one
            found.append(token)
        at = start
    return found[::-1]


@pytest.fixture(scope="module")
def unigrams() -> dict[tuple[bool, bool], Tokenizer]:
    return {
        (prefix, merge): tokenizer(T5, add_space_prefix=prefix, remove_extra_whitespaces=merge)
        for prefix in (True, False)
        for merge in (True, False)
    }


@settings(max_examples=400, deadline=None)
@given(text=st.text(alphabet=st.sampled_from("abc  xé\x85"), max_size=24))
def test_unigrams_by_definition(unigrams: dict[tuple[bool, bool], Tokenizer], text: str) -> None:
    for (prefix, merge), found in unigrams.items():
        assert found.encode(text, add_special_tokens=False).ids == viterbi(text, prefix, merge)


def test_texts_end_as_t5_has_them() -> None:
    files = read(metadata(T5))
    assert files.add_bos is None and files.eos_ids == (1,)
    found = Tokenizer.from_str(files.json)
    assert found.encode("ab").tokens == ["▁ab", "</s>"]
    assert found.decode(found.encode(" ab  bc ").ids) == "ab bc"
    assert found.encode("a<x>b", add_special_tokens=False).tokens == ["▁a", "<x>", "▁", "b"]
    both = tokenizer(T5, bos_token_id=0, add_bos_token=True)
    assert both.encode("ab").tokens == ["<pad>", "▁ab", "</s>"]
    neither = tokenizer(T5, add_eos_token=False)
    assert neither.encode("ab").tokens == ["▁ab"]


def charsmap(texts: bytes = b"a\0bc\0", at: tuple[int, int] = (0, 2)) -> bytearray:
    """Of a trie that maps A and B: the root's children lie at 256 + byte, and behind each a block with its replacement."""
    units = np.zeros(1024, "<u4")
    units[0] = 256 << 10
    for byte, block, place in ((65, 512, at[0]), (66, 768, at[1])):
        node = 256 + byte
        units[node] = byte | 1 << 8 | (node ^ block) << 10
        units[block] = place
    return bytearray(len(units.tobytes()).to_bytes(4, "little") + units.tobytes() + texts)


def as_array(raw: bytes | bytearray) -> np.ndarray:
    return np.frombuffer(bytes(raw), np.uint8)


def test_the_table_of_characters() -> None:
    found = tokenizer(T5, precompiled_charsmap=as_array(charsmap()))
    assert found.normalizer.normalize_str("ABx") == "▁abcx"
    assert found.encode("AB", add_special_tokens=False).ids == viterbi("abc")


def unit(index: int, value: int) -> bytearray:
    raw = charsmap()
    raw[4 + 4 * index : 8 + 4 * index] = value.to_bytes(4, "little")
    return raw


WRONG: dict[str, tuple[bytes | bytearray, str]] = {
    "too short": (b"\1\0", "too few for its trie"),
    "a trie longer than all": ((1 << 20).to_bytes(4, "little") + bytes(64), "has 68 bytes, too few"),
    "half a unit": ((6).to_bytes(4, "little") + bytes(64), "too few for its trie of 6"),
    "replacements that are no text": (charsmap(b"\xff\0\0\0\0"), "that are no UTF-8"),
    "a replacement without an end": (charsmap(b"a\0bc"), "a replacement without an end"),
    "a place behind the end": (charsmap(at=(0, 5)), "points out of its replacements"),
    "a place in a character": (charsmap("é\0b\0".encode(), at=(1, 3)), "or into a character"),
    "a root that points away": (unit(0, 4096 << 10), "a trie that points out of itself"),
    "a child that points away": (unit(256 + 65, 65 | 1 << 8 | 1 << 30), "a trie that points out of itself"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_a_broken_table_is_never_walked(case: str) -> None:
    raw, expected = WRONG[case]
    with pytest.raises(CheckpointError) as refusal:
        read(metadata(T5, precompiled_charsmap=as_array(raw)))
    assert expected in str(refusal.value)


@settings(max_examples=300, deadline=None)
@given(edits=st.lists(st.tuples(st.integers(0, 4 + 4096 + 4), st.integers(0, 255)), min_size=1, max_size=6))
def test_what_is_not_refused_can_be_walked(edits: list[tuple[int, int]]) -> None:
    raw = charsmap()
    for at, byte in edits:
        raw[at % len(raw)] = byte
    try:
        found = tokenizer(T5, precompiled_charsmap=as_array(raw))
    except CheckpointError:
        return
    for text in ("AB", "".join(map(chr, range(1, 300)))):
        found.encode(text)


@pytest.mark.parametrize(("values", "changes", "message"), [
    (BERT, {"cls_token_id": None}, "'tokenizer.ggml.cls_token_id' is absent, and its default 101 is no token of 20"),
    (BERT, {"tokens": [*BERT["tokens"][:-1], "▁the"]}, "'the' occurs twice"),
    (T5, {"scores": np.zeros(3, "<f4")}, "has 3 elements, expected 15"),
    (T5, {"scores": T5["scores"] * np.float32(np.nan)}, "holds a NaN or an infinity"),
    (T5, {"unknown_token_id": None, "token_type": np.full(15, NORMAL, "<i4")}, "marks no token as unknown"),
    (T5, {"precompiled_charsmap": np.zeros(8, "<i4")}, "expected an array of bytes"),
])  # fmt: skip
def test_a_broken_vocabulary(values: dict[str, Any], changes: dict[str, Any], message: str) -> None:
    with pytest.raises(CheckpointError, match=message):
        read(metadata(values, **changes))


SENTENCEPIECE = {
    'Hello world': [35378, 8999],
    '  leading and   many  spaces ': [105207, 136, 5941, 32628, 7],
    '\ufb01\u2460 \u3314 e\u0301': [809, 418, 6, 189402, 393],
    'C\u1eeda Vi\u1ec7t 3333': [199152, 3763, 138, 66000],
    '\u6211\u60f3\u5728apple\u5de5\u4f5c1314151\u5929\uff5e': [6, 23638, 213, 9007, 133, 1879, 2681, 2592, 135224, 1906, 6087],
    'zz\u01bd\u018d!': [97, 169, 3, 38],
}  # fmt: skip


@pytest.mark.slow
def test_a_published_unigram_vocabulary() -> None:
    """The ids are sentencepiece's own, of a model of the same pieces, scores and table of characters."""
    path = VOCABULARIES / "ggml-vocab-nomic-bert-moe.gguf"
    assert path.exists(), (
        "`make test-all` fetches it; else run python tests/formats/gguf/fetch_vocabularies.py"
    )
    files = build_tokenizer(Reader(str(path), read_container(CheckedFile(Path(path))).metadata))
    assert files is not None
    found = Tokenizer.from_str(files.json)
    for text, ids in SENTENCEPIECE.items():
        assert found.encode(text, add_special_tokens=False).ids == ids, text
        assert found.encode(text).ids == [0, *ids, 2]
