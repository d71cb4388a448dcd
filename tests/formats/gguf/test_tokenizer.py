"""Tokenizers built from GGUF metadata give the ids that the models' own tokenizers give."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from fewbit.formats import open_checkpoint
from fewbit.formats.checkpoint import TokenizerFiles
from fewbit.formats.files import CheckedFile
from fewbit.formats.gguf.config import Reader
from fewbit.formats.gguf.container import read_container
from fewbit.formats.gguf.pretokenizers import PRE_TOKENIZERS
from fewbit.formats.gguf.tokenizer import build_tokenizer
from fewbit.formats.gguf.vocabulary import BYTE, CONTROL, NORMAL, UNKNOWN
from fewbit.spec.refusal import CheckpointError
from tests.formats.gguf.fixture import tiny_gguf, tiny_gguf_parts
from tests.formats.plain.fixture import tokenizer_json

VOCABULARIES = Path(__file__).resolve().parents[3] / ".cache" / "vocabularies"


def build(**changes: Any) -> TokenizerFiles:
    metadata, _ = tiny_gguf_parts()
    values = {key: np.array(v) if isinstance(v, np.ndarray) else v for key, v in metadata.items()}
    values |= {f"tokenizer.ggml.{key}": value for key, value in changes.items()}
    return read(values)


def read(values: dict[str, Any]) -> TokenizerFiles:
    """Through the file's own encoding, so that string arrays are what the reader gives."""
    import tempfile

    from tests.formats.gguf.fixture import gguf_bytes

    with tempfile.NamedTemporaryFile(suffix=".gguf") as file:
        file.write(gguf_bytes({k: v for k, v in values.items() if v is not None}, {}))
        file.flush()
        container = read_container(CheckedFile(Path(file.name)))
    files = build_tokenizer(Reader("the file", container.metadata))
    assert files is not None
    return files


@pytest.mark.demo
def test_golden_prompts(demo_model: Path, golden: Path) -> None:
    tokenizer = Tokenizer.from_str(open_checkpoint(demo_model).tokenizer.json)
    prompts = [g for g in json.loads((golden / "golden_smollm2_fp32.json").read_text()) if "prompt" in g]
    assert len(prompts) == 4
    for prompt in prompts:
        assert tokenizer.encode(prompt["prompt"]).ids == prompt["prompt_ids"], prompt["name"]
        assert tokenizer.decode(prompt["prompt_ids"], skip_special_tokens=False) == prompt["prompt"]


@pytest.mark.demo
def test_ids_of_the_demo_model(demo_model: Path) -> None:
    files = open_checkpoint(demo_model).tokenizer
    assert (files.bos_id, files.eos_id, files.pad_id, files.eos_ids, files.add_bos) == (
        1,
        2,
        2,
        (2, 0),
        False,
    )
    assert files.special_ids == frozenset(range(17))
    assert files.chat_template.startswith("{% for message in messages %}")


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    path = tiny_gguf(tmp_path_factory.mktemp("tiny") / "m.gguf")
    return Tokenizer.from_str(open_checkpoint(path).tokenizer.json)


@settings(max_examples=300, deadline=None)
@given(text=st.text(max_size=60))
def test_text_survives(tiny: Tokenizer, text: str) -> None:
    assert tiny.decode(tiny.encode(text).ids, skip_special_tokens=False) == text


@settings(max_examples=200, deadline=None)
@given(text=st.text(alphabet=st.sampled_from("the cat 0123 \n'll<|im_end|>é漢"), max_size=60))
def test_it_is_the_tokenizer_of_the_same_folder(tiny: Tokenizer, text: str) -> None:
    own = Tokenizer.from_str(json.dumps(tokenizer_json()))
    assert tiny.encode(text).ids == own.encode(text).ids


def test_control_tokens_are_found_and_not_split(tiny: Tokenizer) -> None:
    assert tiny.encode("<|im_start|>the<|im_end|>").ids[0::2] == [1, 2]
    assert (
        tiny.decode([1, 2]) == ""
        and tiny.decode([1, 2], skip_special_tokens=False) == "<|im_start|><|im_end|>"
    )


@pytest.mark.parametrize(("pre", "text", "pieces"), [
    ("smollm", "in 2024", ["in", "Ġ", "2", "0", "2", "4"]),
    ("gpt-2", "in 2024", ["in", "Ġ2024"]),
    ("llama-bpe", "in 2024!\n\n", ["in", "Ġ", "202", "4", "!ĊĊ"]),
    ("llama-bpe", "I'LL do", ["I", "'LL", "Ġdo"]),
    ("qwen2", "in 2024", ["in", "Ġ", "2", "0", "2", "4"]),
    ("tekken", "helloWorld 12", ["hello", "World", "Ġ", "1", "2"]),
    ("deepseek-coder", "a b1", ["a", "Ġb", "1"]),
    ("default", "a,b 1234", ["a", ",", "b", "Ġ", "123", "4"]),
])  # fmt: skip
def test_how_text_is_split(pre: str, text: str, pieces: list[str]) -> None:
    tokenizer = Tokenizer.from_str(build(pre=pre).json)
    assert [piece for piece, _ in tokenizer.pre_tokenizer.pre_tokenize_str(text)] == pieces


def test_every_pre_tokenizer_builds() -> None:
    for pre in PRE_TOKENIZERS:
        assert Tokenizer.from_str(build(pre=pre, bos_token_id=1).json).get_vocab_size() == 288


def test_qwen_text_is_composed() -> None:
    assert Tokenizer.from_str(build(pre="qwen2").json).normalizer.normalize_str("e\u0301") == "é"


def test_end_tokens_by_key_and_by_text() -> None:
    assert build(eos_token_id=0).eos_ids == (0, 2)
    assert build(eos_token_id=None, eot_token_id=5, eom_token_id=2).eos_ids == (5, 2, 0)
    files = build(add_bos_token=None, pre="llama-bpe")
    assert files.add_bos is True and build(add_bos_token=None).add_bos is False


def test_a_file_without_tokenizer(tmp_path: Path) -> None:
    assert build_tokenizer(Reader("the file", {})) is None


PIECES = ["▁a", "▁b", "ab", "▁ab", "bc", "abc", "▁abc", "▁", "a", "b", "c"]
SPM = {
    "tokenizer.ggml.model": "llama",
    "tokenizer.ggml.tokens": ["<unk>", "<s>", "</s>", *(f"<0x{b:02X}>" for b in range(256)), *PIECES],
    "tokenizer.ggml.token_type": np.array([UNKNOWN, CONTROL, CONTROL] + [BYTE] * 256 + [NORMAL] * len(PIECES), "<i4"),
    "tokenizer.ggml.scores": np.array([0.0] * 259 + [-float(i) for i in range(len(PIECES))], "<f4"),
    "tokenizer.ggml.bos_token_id": 1, "tokenizer.ggml.eos_token_id": 2,
}  # fmt: skip


def test_sentencepiece_merges_by_score() -> None:
    files = read(SPM)
    tokenizer = Tokenizer.from_str(files.json)
    assert files.add_bos is True and files.eos_ids == (2,) and files.special_ids == frozenset({0, 1, 2})
    assert tokenizer.encode("abc").tokens == ["▁abc"]  # ▁a, then ▁ab before bc, then ▁abc
    assert tokenizer.encode("bcab").tokens == ["▁b", "c", "ab"]  # ▁b scores before bc
    assert tokenizer.encode("a é</s>b").tokens == ["▁a", "▁", "<0xC3>", "<0xA9>", "</s>", "▁b"]
    assert tokenizer.decode(tokenizer.encode("a é b").ids) == "a é b"


def test_sentencepiece_without_a_space_before() -> None:
    tokenizer = Tokenizer.from_str(read({**SPM, "tokenizer.ggml.add_space_prefix": False}).json)
    assert tokenizer.encode("abc").tokens == ["abc"]
    assert tokenizer.decode(tokenizer.encode(" a b").ids) == " a b"


@settings(max_examples=200, deadline=None)
@given(text=st.text(max_size=40))
def test_sentencepiece_text_survives(text: str) -> None:
    tokenizer = spm_tokenizer()
    expected = text if "▁" not in text else text.replace("▁", " ")
    assert tokenizer.decode(tokenizer.encode(text).ids, skip_special_tokens=False) == expected


def spm_tokenizer(cache: list[Tokenizer] = []) -> Tokenizer:  # noqa: B006
    if not cache:
        cache.append(Tokenizer.from_str(read(SPM).json))
    return cache[0]


@pytest.mark.parametrize(("changes", "message"), [
    ({"token_type": np.full(270, NORMAL, "<i4")}, "marks no token as unknown"),
    ({"tokens": ["<unk>", *(f"t{i}" for i in range(269))]}, "'<0x00>' is absent or not of type byte"),
    ({"scores": np.zeros(3, "<f4")}, "'tokenizer.ggml.scores' has 3 elements, expected 270"),
])  # fmt: skip
def test_a_broken_sentencepiece_vocabulary(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(CheckpointError, match=message):
        read({**SPM, **{f"tokenizer.ggml.{key}": value for key, value in changes.items()}})


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    ["llama-bpe", "llama-spm", "qwen2", "gpt-2", "deepseek-llm", "deepseek-coder", "phi-3", "bert-bge"],
)
def test_published_tokenizations(name: str) -> None:
    """llama.cpp's vocabularies and the ids that the models' own tokenizers gave; fetch_vocabularies.py brings them."""
    path = VOCABULARIES / f"ggml-vocab-{name}.gguf"
    assert path.exists(), (
        "`make test-all` fetches it; else run python tests/formats/gguf/fetch_vocabularies.py"
    )
    files = build_tokenizer(Reader(str(path), read_container(CheckedFile(path)).metadata))
    tokenizer = Tokenizer.from_str(files.json)
    texts = Path(f"{path}.inp").read_bytes().decode().split("\n__ggml_vocab_test__\n")
    expected = [[int(i) for i in line.split()] for line in Path(f"{path}.out").read_text().split("\n")]
    assert len(texts) >= 40
    for text, ids in zip(texts, expected, strict=False):
        assert tokenizer.encode(text, add_special_tokens=False).ids == ids, text
