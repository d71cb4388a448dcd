"""GGUF files to folders and back: the same blocks, the same model."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tokenizers import Tokenizer

from fewbit.formats import open_checkpoint
from fewbit.formats.files import CheckedFile
from fewbit.formats.gguf.container import read_container
from fewbit.formats.gguf.encode_config import metadata_of, rope_divisors
from fewbit.formats.gguf.keys import ARCHITECTURES
from fewbit.formats.gptq.config import Settings
from fewbit.schemes.reference import dequantize as our_dequantize
from fewbit.spec.refusal import FewbitError
from tests.convert.folders import converted, oracle_copy, weights
from tests.formats.gguf.fixture import tiny_gguf, to_disk_rows
from tests.formats.gptq.fixture import tiny_gptq
from tests.formats.plain.fixture import tiny_folder
from tests.formats.tiny import tiny_config

TEXTS = ("The theory in 1234 steps, isn't it?", "<|im_start|>user\nüber  den\t\tWolken<|im_end|>", "")


def blocks(path: Path) -> dict[str, tuple[str, tuple[int, ...], str]]:
    """Type, shape and hash of the bytes of every tensor, by the file's name."""
    file = CheckedFile(path)
    found = {
        name: (t.kind.name, t.shape, hashlib.sha256(file.read(t.start, t.bytes, name).tobytes()).hexdigest())
        for name, t in read_container(file).tensors.items()
    }
    file.close()
    return found


def ids(path: Path) -> list[list[int]]:
    checkpoint = open_checkpoint(path)
    assert checkpoint.tokenizer is not None
    made = Tokenizer.from_str(checkpoint.tokenizer.json)
    first = [checkpoint.tokenizer.bos_id] if checkpoint.tokenizer.add_bos else []
    return [first + made.encode(text).ids for text in TEXTS]


@pytest.mark.parametrize("to", ["mlx", "plain"])
def test_the_demo_model_and_back(tmp_path: Path, demo_model: Path, to: str) -> None:
    """Its Q4_1 and Q8_0 lie in an MLX folder; a plain one has the numbers and lost the types."""
    folder = converted(demo_model, tmp_path / "folder", to)
    assert ids(folder) == ids(demo_model)
    assert json.loads((folder / "config.json").read_text())["rms_norm_eps"] == 1e-5
    back = converted(folder, tmp_path / "back.gguf", "gguf")
    assert ids(back) == ids(demo_model)
    if to == "mlx":
        assert blocks(back) == blocks(demo_model)
    else:
        assert {kind for kind, _, _ in blocks(back).values()} == {"F32"}
    ours, theirs = open_checkpoint(back), open_checkpoint(demo_model)
    assert ours.config == theirs.config
    assert ours.tokenizer is not None and theirs.tokenizer is not None
    assert ours.tokenizer.chat_template == theirs.tokenizer.chat_template
    assert (ours.tokenizer.eos_ids, ours.tokenizer.special_ids) == (
        theirs.tokenizer.eos_ids,
        theirs.tokenizer.special_ids,
    )


@pytest.mark.parametrize(
    "kind", ["q4_0", "q5_0", "q8_0", "iq4_nl", "mxfp4", "nvfp4", "q6_k", "q3_k", "tq2_0", "q1_0"]
)
def test_types_that_compressed_tensors_can_say(tmp_path: Path, kind: str) -> None:
    source = oracle_copy(f"gguf-{kind}", tmp_path)
    folder = converted(source, tmp_path / "folder", "compressed-tensors")
    assert weights(folder) == weights(source)
    if kind in ("q4_0", "q5_0", "q8_0", "mxfp4"):
        back = converted(folder, tmp_path / "back.gguf", "gguf")
        ours, theirs = blocks(back), blocks(source)
        assert {n: b for n, b in ours.items() if b[0] != "F32"} == {
            n: b for n, b in theirs.items() if b[0] != "F32"
        }


@pytest.mark.parametrize("kind", ["q4_k", "q5_k"])
def test_two_levels_become_one(tmp_path: Path, kind: str) -> None:
    """A sub-scale times its super scale is an f32; MLX keeps those."""
    source = oracle_copy(f"gguf-{kind}", tmp_path)
    folder = converted(source, tmp_path / "folder", "mlx")
    assert weights(folder) == weights(source)
    assert {str(i.scheme.scale) for i in open_checkpoint(folder).tensors.values() if i.scheme.scale} == {
        "f32"
    }


@pytest.mark.parametrize("name", ["gguf-iq2_xs", "gguf-q2_k"])
def test_what_no_folder_says_is_refused(tmp_path: Path, name: str) -> None:
    source = oracle_copy(name, tmp_path)
    with pytest.raises(FewbitError, match=r"cannot be converted to compressed-tensors without loss"):
        converted(source, tmp_path / "folder", "compressed-tensors")


@pytest.mark.parametrize("name", ["gguf-convert-qwen3moe-q8_0", "gguf-q4_k_m-like", "gguf-iq3_s"])
def test_a_copy_has_the_same_blocks(tmp_path: Path, name: str) -> None:
    source = oracle_copy(name, tmp_path)
    assert blocks(converted(source, tmp_path / "copy.gguf", "gguf")) == blocks(source)


def test_experts_are_stacked(tmp_path: Path) -> None:
    source = oracle_copy("gguf-convert-qwen3moe-q8_0", tmp_path)
    folder = converted(source, tmp_path / "folder", "compressed-tensors")
    back = converted(folder, tmp_path / "back.gguf", "gguf")
    assert blocks(back) == blocks(source)


@pytest.mark.parametrize("sym", [True, False])
def test_gptq_in_gguf(tmp_path: Path, sym: bool) -> None:
    """Symmetric groups are Q4_0; codes less their zero points take one bit more, so others are Q5_0."""
    source = tiny_gptq(tmp_path / "m", Settings(4, 32, sym))
    file = converted(source, tmp_path / "m.gguf", "gguf")
    kinds = {name: kind for name, (kind, _, _) in blocks(file).items()}
    assert kinds["blk.0.attn_q.weight"] == ("Q4_0" if sym else "Q5_0") and kinds["output.weight"] == "BF16"
    assert weights(file) == weights(source)
    assert ids(file) == ids(source)


@pytest.mark.parametrize("model_type", ["llama", "qwen2", "qwen3"])
@pytest.mark.parametrize("tied", [True, False])
def test_every_family(tmp_path: Path, model_type: str, tied: bool) -> None:
    source = tiny_folder(tmp_path / "m", "f16", model_type, tie_word_embeddings=tied)
    file = converted(source, tmp_path / "m.gguf", "gguf")
    assert weights(file) == weights(source) and open_checkpoint(file).model_type == model_type
    back = converted(file, tmp_path / "back", "plain")
    assert weights(back) == weights(source)


SCALINGS: list[dict[str, Any]] = [
    {"rope_type": "linear", "factor": 4.0},
    {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 128},
    {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    },
]


@pytest.mark.parametrize("scaling", SCALINGS, ids=[s["rope_type"] for s in SCALINGS])
def test_rotary_scaling(tmp_path: Path, scaling: dict[str, Any]) -> None:
    source = tiny_folder(tmp_path / "m", "f16", rope_scaling=scaling)
    file = converted(source, tmp_path / "m.gguf", "gguf")
    assert open_checkpoint(file).config["rope_scaling"] == scaling
    assert ("rope_freqs.weight" in blocks(file)) == (scaling["rope_type"] == "llama3")


def test_what_metadata_cannot_say() -> None:
    config = tiny_config("llama", rope_scaling={"rope_type": "yarn", "factor": 2.0, "attention_factor": 1.5})
    with pytest.raises(ValueError, match=r"GGUF cannot express the rope scaling \{'rope_type': 'yarn'"):
        metadata_of(config, ARCHITECTURES["llama"])
    assert rope_divisors(tiny_config("llama")) is None


def test_a_window_is_refused(tmp_path: Path) -> None:
    source = tiny_folder(tmp_path / "m", "f16", "mistral", sliding_window=64)
    with pytest.raises(FewbitError, match="GGUF cannot express the sliding window of 64 for 'mistral'"):
        converted(source, tmp_path / "m.gguf", "gguf")
    whole = tiny_folder(tmp_path / "n", "f16", "mistral", sliding_window=None)
    assert weights(converted(whole, tmp_path / "n.gguf", "gguf")) == weights(whole)


def test_text_splitting_without_a_name_is_refused(tmp_path: Path) -> None:
    source = tiny_folder(tmp_path / "m", "f16")
    whole = json.loads((source / "tokenizer.json").read_text())
    whole["pre_tokenizer"]["pretokenizers"][0] = {
        "type": "Split", "pattern": {"Regex": "x+"}, "behavior": "Isolated", "invert": False,
    }  # fmt: skip
    (source / "tokenizer.json").write_text(json.dumps(whole))
    with pytest.raises(FewbitError, match=r"GGUF has no name for text split by \['x\+', "):
        converted(source, tmp_path / "m.gguf", "gguf")


def test_a_begin_token_before_the_text(tmp_path: Path) -> None:
    """A GGUF says so by a flag, a folder by the tokenizer's post-processor."""
    source = tiny_folder(tmp_path / "m", "f16")
    whole = json.loads((source / "tokenizer.json").read_text())
    special = {"SpecialToken": {"id": "<|im_start|>", "type_id": 0}}
    text = {"Sequence": {"id": "A", "type_id": 0}}
    whole["post_processor"] = {
        "type": "TemplateProcessing", "single": [special, text], "pair": [special, text, text],
        "special_tokens": {"<|im_start|>": {"id": "<|im_start|>", "ids": [1], "tokens": ["<|im_start|>"]}},
    }  # fmt: skip
    (source / "tokenizer.json").write_text(json.dumps(whole))
    file = converted(source, tmp_path / "m.gguf", "gguf")
    assert open_checkpoint(file).tokenizer.add_bos is True  # type: ignore[union-attr]
    back = converted(file, tmp_path / "back", "plain")
    assert ids(file) == ids(source) == ids(back)
    assert all(found[0] == 1 for found in ids(source))


def test_a_sentencepiece_vocabulary(tmp_path: Path) -> None:
    """Scores become merges in a folder, and merges become scores with the same merges."""
    from tests.formats.gguf.fixture import tiny_gguf_parts, write_gguf

    metadata, tensors = tiny_gguf_parts()
    count = metadata["llama.vocab_size"]
    words = [
        "<unk>",
        "<s>",
        "</s>",
        *(f"<0x{b:02X}>" for b in range(256)),
        "▁",
        "a",
        "b",
        "▁a",
        "ab",
        "▁ab",
        "aa",
    ]
    words += [f"w{i}" for i in range(count - len(words))]
    kinds = [2, 3, 3, *[6] * 256, *[1] * (count - 259)]
    metadata |= {
        "tokenizer.ggml.model": "llama", "tokenizer.ggml.tokens": words, "tokenizer.ggml.token_type": np.array(kinds, "<i4"),
        "tokenizer.ggml.scores": -np.arange(count, dtype="<f4"), "tokenizer.ggml.add_bos_token": True,
    }  # fmt: skip
    for key in ("merges", "pre"):
        del metadata[f"tokenizer.ggml.{key}"]
    source = write_gguf(tmp_path / "m.gguf", metadata, tensors)
    folder = converted(source, tmp_path / "folder", "mlx")
    back = converted(folder, tmp_path / "back.gguf", "gguf")
    assert ids(source) == ids(folder) == ids(back) and blocks(source) == blocks(back)
    text = json.loads(open_checkpoint(back).tokenizer.json)  # type: ignore[union-attr]
    assert ["▁a", "b"] in text["model"]["merges"]


def test_the_tiny_file_and_back(tmp_path: Path) -> None:
    for scheme in ("u4g32o", "f16"):
        source = tiny_gguf(tmp_path / f"{scheme}.gguf", scheme)
        folder = converted(source, tmp_path / scheme, "mlx" if scheme != "f16" else "plain")
        assert blocks(converted(folder, tmp_path / f"{scheme}-back.gguf", "gguf")) == blocks(source)


@pytest.mark.parametrize("to", ["q4_0", "q8_0", "q5_0", "mxfp4"])
def test_the_formats_own_reader_reads_it(tmp_path: Path, to: str) -> None:
    from gguf import GGUFReader
    from gguf.quants import dequantize

    source = tiny_folder(tmp_path / "m", "f32")
    schemes = {"q4_0": "i4g32", "q8_0": "i8g32", "q5_0": "i5g32", "mxfp4": "e2m1g32"}
    file = converted(source, tmp_path / "m.gguf", "gguf", requantize=schemes[to])
    ours = open_checkpoint(file)
    canonical = {info.disk_name: name for name, info in ours.tensors.items()}
    reader = GGUFReader(file)
    assert reader.get_field("general.architecture").contents() == "llama"  # type: ignore[union-attr]
    assert len(reader.tensors) == len(canonical)
    for tensor in reader.tensors:
        found = dequantize(tensor.data, tensor.tensor_type)
        expected = our_dequantize(ours.read(canonical[tensor.name]))
        if "attn_q.weight" in tensor.name or "attn_k.weight" in tensor.name:
            expected = to_disk_rows(expected, 16)
        assert np.array_equal(found.reshape(expected.shape), expected), tensor.name
