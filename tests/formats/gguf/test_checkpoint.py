"""GGUF files of the supported families as checkpoints: config, names, rows."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest

from fewbit.formats import open_checkpoint
from fewbit.formats.files import CheckedFile
from fewbit.formats.gguf.container import read_container
from fewbit.formats.gguf.keys import ARCHITECTURES
from fewbit.formats.gguf.rope import llama3_divisors
from fewbit.schemes import SCHEMES
from fewbit.schemes.reference import dequantize, quantize
from fewbit.spec.refusal import CheckpointError
from tests.formats.gguf.fixture import RawTensor, gguf_bytes, tiny_gguf, tiny_gguf_parts
from tests.formats.tiny import tiny_config, tiny_weights

DENSE = [name for name, architecture in ARCHITECTURES.items() if not architecture.experts]
WIDE = {"hidden_size": 256, "intermediate_size": 256, "head_dim": 64}


@pytest.mark.parametrize("architecture", DENSE)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_what_was_written_is_read(tmp_path: Path, architecture: str, scheme: str) -> None:
    """Canonical names, canonical row order, and exactly the quantized values."""
    changes = WIDE if SCHEMES[scheme].super_scale else {}
    checkpoint = open_checkpoint(tiny_gguf(tmp_path / "m.gguf", scheme, architecture, seed=3, **changes))
    weights = tiny_weights(tiny_config(ARCHITECTURES[architecture].model_type, **changes), seed=3)
    assert set(checkpoint.tensors) == set(weights)
    for name, weight in weights.items():
        info, tensor = checkpoint.tensors[name], checkpoint.read(name)
        assert info.shape == weight.shape and info.scheme == tensor.scheme
        expected = quantize(weight, info.scheme)
        for role, part in expected.parts.items():
            assert tensor.parts[role].tobytes() == part.tobytes(), (name, role)


@pytest.mark.parametrize(
    ("start", "stop"), [(0, 0), (0, 1), (5, 6), (3, 29), (16, 32), (15, 33), (63, 64), (64, 64)]
)
def test_any_slice_of_rows(tmp_path: Path, start: int, stop: int) -> None:
    checkpoint = open_checkpoint(tiny_gguf(tmp_path / "m.gguf", attention_bias=True))
    for name in (
        "self_attn.q_proj.weight",
        "self_attn.v_proj.weight",
        "self_attn.q_proj.bias",
        "input_layernorm.weight",
    ):
        whole = checkpoint.read(f"model.layers.1.{name}")
        rows = slice(min(start, whole.shape[0]), min(stop, whole.shape[0]))
        piece = checkpoint.read(f"model.layers.1.{name}", rows.start, rows.stop)
        assert piece.shape == (rows.stop - rows.start, *whole.shape[1:])
        for role, part in whole.parts.items():
            assert piece.parts[role].tobytes() == part[rows].tobytes()


def test_rows_are_read_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fewbit.formats.gguf.checkpoint.PIECE_BYTES", 100)
    path = tiny_gguf(tmp_path / "m.gguf")
    name = "model.layers.0.self_attn.q_proj.weight"
    pieces = open_checkpoint(path).read(name, 3, 50)
    monkeypatch.undo()
    assert pieces.parts["codes"].tobytes() == open_checkpoint(path).read(name, 3, 50).parts["codes"].tobytes()


def test_rows_and_names_outside(tmp_path: Path) -> None:
    checkpoint = open_checkpoint(tiny_gguf(tmp_path / "m.gguf"))
    with pytest.raises(CheckpointError, match=r"m.gguf: has no tensor 'model.layers.9"):
        checkpoint.read("model.layers.9.mlp.up_proj.weight")
    for start, stop in ((-1, 2), (3, 2), (0, 65)):
        with pytest.raises(ValueError, match="lie outside 0:64"):
            checkpoint.read("model.norm.weight", start, stop)


@pytest.mark.parametrize("architecture", DENSE)
def test_config(tmp_path: Path, architecture: str) -> None:
    config = open_checkpoint(tiny_gguf(tmp_path / "m.gguf", architecture=architecture)).config
    for key, value in tiny_config(ARCHITECTURES[architecture].model_type).items():
        assert config[key] == (pytest.approx(value, rel=1e-7) if isinstance(value, float) else value), key


def test_tied_embeddings_and_biases(tmp_path: Path) -> None:
    path = tiny_gguf(tmp_path / "m.gguf", tie_word_embeddings=True, attention_bias=True, mlp_bias=True)
    checkpoint = open_checkpoint(path)
    assert checkpoint.config["tie_word_embeddings"] and "lm_head.weight" not in checkpoint.tensors
    assert checkpoint.config["attention_bias"] and checkpoint.config["mlp_bias"]
    weights = tiny_weights(tiny_config(tie_word_embeddings=True, attention_bias=True, mlp_bias=True))
    name = "model.layers.1.self_attn.k_proj.bias"
    assert np.array_equal(checkpoint.read(name).parts["codes"], weights[name])


SCALINGS = {
    "none": ({"rope.scaling.type": "none"}, None),
    "linear": ({"rope.scaling.type": "linear", "rope.scaling.factor": 4.0}, {"rope_type": "linear", "factor": 4.0}),
    "linear of old files": ({"rope.scale_linear": 2.0}, {"rope_type": "linear", "factor": 2.0}),
    "yarn": (
        {"rope.scaling.type": "yarn", "rope.scaling.factor": 4.0, "rope.scaling.original_context_length": 128},
        {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 128},
    ),
    "yarn with its settings": (
        {"rope.scaling.type": "yarn", "rope.scaling.factor": 4.0, "rope.scaling.original_context_length": 128,
         "rope.scaling.yarn_beta_fast": 16.0, "rope.scaling.yarn_beta_slow": 2.0, "rope.scaling.attn_factor": 2.0},
        {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 128, "beta_fast": 16.0, "beta_slow": 2.0,
         "attention_factor": 2 * (0.1 * np.log(4.0) + 1)},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", SCALINGS)
def test_rope_scaling(tmp_path: Path, case: str) -> None:
    keys, expected = SCALINGS[case]
    metadata, tensors = tiny_gguf_parts()
    path = tmp_path / "m.gguf"
    path.write_bytes(gguf_bytes({**metadata, **{f"llama.{k}": v for k, v in keys.items()}}, tensors))
    assert open_checkpoint(path).config["rope_scaling"] == expected


@pytest.mark.parametrize("factor", [8.0, 32.0])
def test_llama3_scaling_from_its_divisors(tmp_path: Path, factor: float) -> None:
    metadata, tensors = tiny_gguf_parts(head_dim=64, rope_theta=500000.0)
    scaling = {"rope_type": "llama3", "factor": factor, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
               "original_max_position_embeddings": 8192}  # fmt: skip
    divisors = llama3_divisors(64, 500000.0, scaling).astype("<f4")
    assert divisors[0] == 1 and divisors[-1] == factor and len(np.unique(divisors)) > 2
    path = tmp_path / "m.gguf"
    path.write_bytes(
        gguf_bytes(metadata, {**tensors, "rope_freqs.weight": RawTensor(0, (32,), divisors.tobytes())})
    )
    checkpoint = open_checkpoint(path)
    assert checkpoint.config["rope_scaling"] == scaling
    assert not any("rope" in name for name in checkpoint.tensors)


def test_the_package_reads_what_our_writer_writes(tmp_path: Path) -> None:
    path = tiny_gguf(tmp_path / "m.gguf", "u4g32ot", **WIDE)
    ours = open_checkpoint(path)
    theirs = {t.name: t for t in gguf.GGUFReader(path).tensors}
    assert {info.disk_name for info in ours.tensors.values()} == set(theirs)
    for name, info in ours.tensors.items():
        if "q_proj" not in name and "k_proj" not in name:
            public = theirs[info.disk_name]
            expected = gguf.dequantize(public.data, public.tensor_type)
            assert np.array_equal(dequantize(ours.read(name)).reshape(-1), expected.reshape(-1))


def test_we_read_what_the_package_writes(tmp_path: Path) -> None:
    writer = gguf.GGUFWriter(tmp_path / "m.gguf", "qwen2")
    metadata, tensors = tiny_gguf_parts("f32", "qwen2", intermediate_size=96)
    for key, value in metadata.items():
        if key == "general.architecture":
            continue
        match value:
            case str():
                writer.add_string(key, value)
            case bool():
                writer.add_bool(key, value)
            case int():
                writer.add_uint32(key, value)
            case float():
                writer.add_float32(key, value)
            case _:
                writer.add_array(key, value.tolist() if isinstance(value, np.ndarray) else value)
    for name, tensor in tensors.items():
        writer.add_tensor(name, tensor.parts["codes"])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    checkpoint = open_checkpoint(tmp_path / "m.gguf")
    own = open_checkpoint(tiny_gguf(tmp_path / "own.gguf", "f32", "qwen2", intermediate_size=96))
    assert checkpoint.config == own.config and checkpoint.tokenizer == own.tokenizer
    for name in own.tensors:
        assert np.array_equal(checkpoint.read(name).parts["codes"], own.read(name).parts["codes"])


@pytest.mark.demo
def test_the_demo_model(demo_model: Path) -> None:
    started = time.process_time()
    checkpoint = open_checkpoint(demo_model)
    assert time.process_time() - started < 1.0
    config: dict[str, Any] = dict(checkpoint.config)
    assert (checkpoint.format, checkpoint.model_type, config["num_hidden_layers"], config["head_dim"]) == (
        "gguf",
        "llama",
        30,
        64,
    )
    assert (config["vocab_size"], config["rope_theta"], config["tie_word_embeddings"]) == (
        49152,
        100000.0,
        True,
    )
    kinds = [info.scheme.name for info in checkpoint.tensors.values()]
    assert {kind: kinds.count(kind) for kind in set(kinds)} == {"u4g32o": 210, "i8g32": 1, "f32": 61}
    disk = read_container(CheckedFile(demo_model)).tensors
    for name in (
        "model.embed_tokens.weight",
        "model.layers.7.mlp.down_proj.weight",
        "model.layers.0.self_attn.v_proj.weight",
    ):
        tensor = disk[checkpoint.tensors[name].disk_name]
        raw = np.fromfile(demo_model, np.uint8, tensor.bytes, offset=tensor.start).reshape(
            tensor.shape[0], -1
        )
        expected = gguf.dequantize(raw, gguf.GGMLQuantizationType(tensor.kind.id))
        assert np.array_equal(dequantize(checkpoint.read(name)), expected)
    started = time.process_time()
    for name in checkpoint.tensors:
        checkpoint.read(name)
    assert time.process_time() - started < 3.0  # 134.5 M weights take 0.3 s on an idle core


def test_a_checkpoint_of_100_gb_opens_at_once(tmp_path: Path) -> None:
    """A sparse file: 1000 layers of 100 MB, none of which is touched."""
    metadata, _ = tiny_gguf_parts("f32", num_hidden_layers=1)
    hidden, inner = 4096, 6144
    metadata |= {"llama.block_count": 1000, "llama.embedding_length": hidden, "llama.feed_forward_length": inner,
                 "llama.attention.head_count": 32, "llama.attention.head_count_kv": 32, "llama.attention.key_length": 128,
                 "llama.attention.value_length": 128, "llama.rope.dimension_count": 128}  # fmt: skip
    shapes = {"ffn_up": (hidden, inner), "attn_norm": (hidden,)}
    infos = {"token_embd.weight": RawTensor(0, (hidden, 288), offset=0)}
    offset = hidden * 288 * 4
    for layer in range(1000):
        for part, extents in shapes.items():
            infos[f"blk.{layer}.{part}.weight"] = RawTensor(0, extents, offset=offset)
            offset += int(np.prod(extents)) * 4
    path = tmp_path / "large.gguf"
    header = gguf_bytes(metadata, infos)
    with path.open("wb") as file:
        file.write(header)
        file.truncate(len(header) + offset)
    assert path.stat().st_size > 100 * 10**9
    started = time.process_time()
    checkpoint = open_checkpoint(path)
    assert time.process_time() - started < 1.0
    assert len(checkpoint.tensors) == 2001
    assert not checkpoint.read("model.layers.999.input_layernorm.weight").parts["codes"].any()
