"""Hugging Face folders as checkpoints, and what transformers writes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from tokenizers import Tokenizer

from fewbit.formats import open_checkpoint
from fewbit.formats.folder.keys import MODEL_TYPES
from fewbit.schemes import SCHEMES
from fewbit.schemes.reference import quantize
from tests.formats.gguf.fixture import tiny_gguf
from tests.formats.plain.fixture import tiny_folder
from tests.formats.tiny import CHAT_TEMPLATE, tiny_config, tiny_weights


def rewrite(path: Path, **changes: Any) -> None:
    """Changes keys of a JSON file; `...` removes one."""
    value = json.loads(path.read_text()) | changes
    path.write_text(json.dumps({k: v for k, v in value.items() if v is not ...}))


@pytest.mark.parametrize("model_type", MODEL_TYPES)
@pytest.mark.parametrize("scheme", ["f32", "f16", "bf16"])
@pytest.mark.parametrize("shards", [1, 3])
def test_what_was_written_is_read(tmp_path: Path, model_type: str, scheme: str, shards: int) -> None:
    checkpoint = open_checkpoint(tiny_folder(tmp_path / "m", scheme, model_type, seed=5, shards=shards))
    weights = tiny_weights(tiny_config(model_type), seed=5)
    assert (checkpoint.format, checkpoint.model_type) == ("plain", model_type)
    assert set(checkpoint.tensors) == set(weights)
    for name, weight in weights.items():
        expected = quantize(weight, SCHEMES[scheme]).parts["codes"]
        assert checkpoint.read(name).parts["codes"].tobytes() == expected.tobytes()
        rows = len(weight)
        assert checkpoint.read(name, 3, rows - 1).parts["codes"].tobytes() == expected[3 : rows - 1].tobytes()
        assert checkpoint.tensors[name].file.parent == tmp_path / "m"


@pytest.mark.parametrize("model_type", ["llama", "qwen2", "qwen3"])
def test_a_gguf_of_the_same_model_is_the_same_checkpoint(tmp_path: Path, model_type: str) -> None:
    folder = open_checkpoint(tiny_folder(tmp_path / "m", "f32", model_type))
    file = open_checkpoint(tiny_gguf(tmp_path / "m.gguf", "f32", model_type))
    assert set(folder.tensors) == set(file.tensors)
    for name in folder.tensors:
        assert np.array_equal(folder.read(name).parts["codes"], file.read(name).parts["codes"])
    for key in file.config.keys() & folder.config.keys():
        expected = folder.config[key]
        assert file.config[key] == (
            pytest.approx(expected, rel=1e-7) if isinstance(expected, float) else expected
        ), key
    assert folder.tokenizer.chat_template == file.tokenizer.chat_template == CHAT_TEMPLATE
    assert folder.tokenizer.eos_ids == file.tokenizer.eos_ids == (2, 0)
    assert folder.tokenizer.special_ids == file.tokenizer.special_ids
    text = "the cat sat <|im_end|> 42"
    ids = [Tokenizer.from_str(c.tokenizer.json).encode(text).ids for c in (folder, file)]
    assert ids[0] == ids[1]


def test_the_public_library_reads_and_writes_the_same(tmp_path: Path) -> None:
    checkpoint = open_checkpoint(tiny_folder(tmp_path / "m", "f32"))
    theirs = load_file(tmp_path / "m" / "model.safetensors")
    for name in checkpoint.tensors:
        assert np.array_equal(theirs[name], checkpoint.read(name).parts["codes"])
    save_file(theirs, tmp_path / "m" / "model.safetensors")
    again = open_checkpoint(tmp_path / "m")
    assert set(again.tensors) == set(theirs)
    for name in theirs:
        assert np.array_equal(theirs[name], again.read(name).parts["codes"])


@pytest.mark.parametrize("model_type", MODEL_TYPES)
def test_config_is_complete(tmp_path: Path, model_type: str) -> None:
    config = open_checkpoint(tiny_folder(tmp_path / "m", model_type=model_type)).config
    assert {**tiny_config(model_type), "bos_token_id": 1, "eos_token_id": 2}.items() <= config.items()
    keys = {
        "num_key_value_heads",
        "head_dim",
        "rms_norm_eps",
        "tie_word_embeddings",
        "rope_theta",
        "rope_scaling",
        "hidden_act",
    }
    assert keys <= config.keys() and "rope_parameters" not in config


def test_defaults(tmp_path: Path) -> None:
    folder = tiny_folder(tmp_path / "m", head_dim=16)
    rewrite(
        folder / "config.json",
        head_dim=...,
        num_key_value_heads=...,
        rms_norm_eps=...,
        rope_theta=...,
        hidden_act=...,
    )
    config = open_checkpoint(folder).config
    assert (config["head_dim"], config["num_key_value_heads"], config["rms_norm_eps"]) == (16, 4, 1e-6)
    assert (config["rope_theta"], config["hidden_act"], config["attention_bias"]) == (10000.0, "silu", False)


def test_sliding_window_of_mistral(tmp_path: Path) -> None:
    folder = tiny_folder(tmp_path / "m", model_type="mistral")
    assert open_checkpoint(folder).config["sliding_window"] == 4096  # the class's own default
    rewrite(folder / "config.json", sliding_window=None)
    assert open_checkpoint(folder).config["sliding_window"] is None
    rewrite(folder / "config.json", sliding_window=128, layer_types=["sliding_attention"] * 2)
    assert open_checkpoint(folder).config["sliding_window"] == 128


LLAMA3 = {
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 256,
}
SCALINGS = {
    "new default": ({"rope_theta": ..., "rope_scaling": ..., "rope_parameters": {"rope_type": "default", "rope_theta": 5e5}}, 5e5, None),
    "new llama3": ({"rope_theta": ..., "rope_scaling": ..., "rope_parameters": {"rope_type": "llama3", "rope_theta": 5e5, **LLAMA3}},
                   5e5, {"rope_type": "llama3", **LLAMA3}),
    "old llama3": ({"rope_scaling": {"rope_type": "llama3", **LLAMA3}}, 1e4, {"rope_type": "llama3", **LLAMA3}),
    "old type": ({"rope_scaling": {"type": "linear", "factor": 2}}, 1e4, {"rope_type": "linear", "factor": 2}),
    "both types": ({"rope_scaling": {"type": "yarn", "rope_type": "yarn", "factor": 4.0}}, 1e4,
                   {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 512}),
}  # fmt: skip


@pytest.mark.parametrize("case", SCALINGS)
def test_rope_settings(tmp_path: Path, case: str) -> None:
    changes, theta, scaling = SCALINGS[case]
    folder = tiny_folder(tmp_path / "m")
    rewrite(folder / "config.json", **changes)
    config = open_checkpoint(folder).config
    assert (config["rope_theta"], config["rope_scaling"]) == (theta, scaling)


@pytest.mark.parametrize("model_type", MODEL_TYPES)
def test_what_transformers_saves(tmp_path: Path, model_type: str) -> None:
    transformers = pytest.importorskip("transformers")
    torch = pytest.importorskip("torch")
    folder = tiny_folder(
        tmp_path / "m",
        "f32",
        model_type,
        **({"attention_bias": True} if model_type in ("llama", "qwen3") else {}),
    )
    own = open_checkpoint(folder)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder)
    model.to(torch.bfloat16).save_pretrained(tmp_path / "saved", max_shard_size="200KB")
    saved = open_checkpoint(tmp_path / "saved")
    assert len({info.file for info in saved.tensors.values()}) > 1
    windows = (
        "layer_types",
        "sliding_window",
        "max_window_layers",
    )  # spelt out by transformers, without effect when off
    compared = [{k: v for k, v in c.config.items() if k not in windows} for c in (saved, own)]
    assert compared[0] == compared[1] and set(saved.tensors) == set(own.tensors)
    for name, weight in model.state_dict().items():
        assert (
            saved.read(name).parts["codes"].tobytes()
            == weight.contiguous().view(torch.int16).numpy().tobytes()
        )


def test_templates_and_tokens(tmp_path: Path) -> None:
    folder = tiny_folder(tmp_path / "m")
    (folder / "chat_template.jinja").write_text("from the file")
    assert open_checkpoint(folder).tokenizer.chat_template == "from the file"
    (folder / "chat_template.jinja").unlink()
    named = [{"name": "tool_use", "template": "tools"}, {"name": "default", "template": "plain"}]
    rewrite(
        folder / "tokenizer_config.json",
        chat_template=named,
        eos_token={"content": "<|extra_0|>", "special": True},
    )
    rewrite(folder / "generation_config.json", eos_token_id=[2, 7, 2])
    tokenizer = open_checkpoint(folder).tokenizer
    assert (tokenizer.chat_template, tokenizer.eos_id, tokenizer.eos_ids) == ("plain", 3, (3, 2, 7))
    assert tokenizer.add_bos is None and tokenizer.bos_id == 1
    for name in ("tokenizer.json", "tokenizer_config.json", "generation_config.json"):
        (folder / name).unlink()
    assert open_checkpoint(folder).tokenizer is None


@pytest.mark.parametrize("shared", [False, True])
def test_the_hub_cache_of_links(tmp_path: Path, shared: bool) -> None:
    """models--x--y/snapshots/<revision> holds links into ../../blobs, whose files may be links into the cache's own blobs."""
    snapshot, blobs = tmp_path / "models--a--b" / "snapshots" / "1234", tmp_path / "models--a--b" / "blobs"
    blobs.mkdir(parents=True)
    tiny_folder(snapshot)
    for index, path in enumerate(sorted(snapshot.iterdir())):
        path.rename(blobs / str(index))
        path.symlink_to(Path("..") / ".." / "blobs" / str(index))
        if shared:
            common = tmp_path / "blobs" / "ab"
            common.mkdir(parents=True, exist_ok=True)
            (blobs / str(index)).rename(common / f"ab{index}")
            (blobs / str(index)).symlink_to(Path("..") / ".." / "blobs" / "ab" / f"ab{index}")
    checkpoint = open_checkpoint(snapshot)
    assert checkpoint.read("model.norm.weight").shape == (64,) and checkpoint.tokenizer is not None
