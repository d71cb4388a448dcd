"""Stacked experts of qwen3moe and gpt-oss: one tensor each, their config, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fewbit.formats import open_checkpoint
from fewbit.formats.gguf.types import TYPES
from fewbit.schemes.affine.scheme import I8G32
from fewbit.schemes.reference import quantize
from fewbit.spec.refusal import CheckpointError
from tests.formats.gguf.fixture import RawTensor, raw_tensor, tiny_gguf_parts, write_gguf

EXPERTS, INNER, HIDDEN = 4, 32, 64
GATE = "blk.1.ffn_gate_exps.weight"


def expert(seed: int, n: int = INNER, k: int = HIDDEN) -> Any:
    return quantize(np.random.default_rng(seed).standard_normal((n, k)).astype(np.float32), I8G32)


def stacked(part: str, layer: int) -> RawTensor:
    n, k = (HIDDEN, INNER) if "down" in part else (INNER, HIDDEN)
    data = b"".join(raw_tensor(expert(seed(part, layer, i), n, k)).data for i in range(EXPERTS))
    return RawTensor(8, (k, n, EXPERTS), data)


def seed(part: str, layer: int, index: int) -> int:
    return 1000 * layer + 100 * ["gate", "up", "down"].index(part) + index


def f32(*extents: int) -> RawTensor:
    values = np.random.default_rng(5).standard_normal(extents[::-1]).astype("<f4")
    return RawTensor(0, extents, values.tobytes())


def parts(architecture: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """A tiny dense model whose MLPs are replaced."""
    base = {"qwen3moe": "qwen3", "gpt-oss": "qwen2"}[architecture]
    metadata, tensors = tiny_gguf_parts("i8g32", base)
    metadata = {key.replace(f"{base}.", f"{architecture}."): value for key, value in metadata.items()}
    metadata["general.architecture"] = architecture
    metadata |= {f"{architecture}.expert_count": EXPERTS, f"{architecture}.expert_used_count": 2}
    metadata[f"{architecture}.expert_feed_forward_length"] = INNER
    tensors = {name: tensor for name, tensor in tensors.items() if ".ffn_" not in name or "norm" in name}
    for layer in range(2):
        at = f"blk.{layer}."
        for part in ("gate", "up", "down"):
            tensors[f"{at}ffn_{part}_exps.weight"] = stacked(part, layer)
        tensors[f"{at}ffn_gate_inp.weight"] = f32(HIDDEN, EXPERTS)
        if architecture == "gpt-oss":
            tensors[f"{at}post_attention_norm.weight"] = tensors.pop(f"{at}ffn_norm.weight")
            tensors |= {f"{at}ffn_gate_inp.bias": f32(EXPERTS), f"{at}attn_sinks.weight": f32(4)}
            tensors[f"{at}attn_output.bias"] = f32(HIDDEN)
            for part, width in (("gate", INNER), ("up", INNER), ("down", HIDDEN)):
                tensors[f"{at}ffn_{part}_exps.bias"] = f32(width, EXPERTS)
    if architecture == "gpt-oss":
        metadata["gpt-oss.attention.sliding_window"] = 128
        scaling = {"type": "yarn", "factor": 32.0, "original_context_length": 4096}
        metadata |= {f"gpt-oss.rope.scaling.{key}": value for key, value in scaling.items()}
    return metadata, tensors


@pytest.mark.parametrize("architecture", ["qwen3moe", "gpt-oss"])
def test_every_expert_is_a_tensor_of_its_own(tmp_path: Path, architecture: str) -> None:
    checkpoint = open_checkpoint(write_gguf(tmp_path / "m.gguf", *parts(architecture)))
    for layer in range(2):
        for part in ("gate", "up", "down"):
            for i in range(EXPERTS):
                name = f"model.layers.{layer}.mlp.experts.{i}.{part}_proj.weight"
                found = checkpoint.read(name)
                n, k = found.shape
                expected = expert(seed(part, layer, i), n, k)
                assert checkpoint.tensors[name].scheme == I8G32
                assert checkpoint.tensors[name].bytes_on_disk == n * TYPES[8].row_bytes(k)
                for role, value in expected.parts.items():
                    assert found.parts[role].tobytes() == value.tobytes(), (name, role)
                    piece = checkpoint.read(name, 3, 17).parts[role]
                    assert piece.tobytes() == value[3:17].tobytes(), (name, role)


def test_qwen3moe(tmp_path: Path) -> None:
    checkpoint = open_checkpoint(write_gguf(tmp_path / "m.gguf", *parts("qwen3moe")))
    assert checkpoint.model_type == "qwen3_moe"
    wanted = {
        "num_experts": EXPERTS,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": INNER,
        "norm_topk_prob": True,
    }
    assert wanted.items() <= dict(checkpoint.config).items()
    assert checkpoint.tensors["model.layers.0.mlp.gate.weight"].shape == (EXPERTS, HIDDEN)


def test_gpt_oss(tmp_path: Path) -> None:
    metadata, tensors = parts("gpt-oss")
    checkpoint = open_checkpoint(write_gguf(tmp_path / "m.gguf", metadata, tensors))
    config = checkpoint.config
    assert (checkpoint.model_type, config["num_local_experts"], config["intermediate_size"]) == (
        "gpt_oss",
        EXPERTS,
        INNER,
    )
    assert (
        config["layer_types"] == ["sliding_attention", "full_attention"] and config["sliding_window"] == 128
    )
    assert config["rope_scaling"]["rope_type"] == "yarn" and config["rope_scaling"]["truncate"] is False
    at = "model.layers.1."
    biases = np.frombuffer(tensors["blk.1.ffn_up_exps.bias"].data, "<f4").reshape(EXPERTS, INNER)
    for i in range(EXPERTS):
        assert np.array_equal(checkpoint.read(f"{at}mlp.experts.{i}.up_proj.bias").parts["codes"], biases[i])
    for name in (
        "self_attn.sinks",
        "mlp.router.weight",
        "mlp.router.bias",
        "post_attention_layernorm.weight",
    ):
        assert at + name in checkpoint.tensors


REFUSALS = {
    "experts of another number": ({GATE: RawTensor(8, (HIDDEN, INNER, 2), bytes(2 * INNER * 68))}, {},
                                  f"'{GATE}' has the shape \\[2, 32, 64\\], expected 3 dimensions .* experts, 4"),
    "a matrix for all": ({GATE: RawTensor(8, (HIDDEN, INNER), bytes(INNER * 68))}, {}, f"'{GATE}' has the shape \\[32, 64\\]"),
    "a dense MLP": ({"blk.1.ffn_gate.weight": f32(HIDDEN, INNER)}, {}, "'blk.1.ffn_gate.weight' has no place"),
    "a shared expert": ({"blk.1.ffn_gate_shexp.weight": f32(HIDDEN, INNER)}, {}, "'blk.1.ffn_gate_shexp.weight' has no place"),
    "no number": ({}, {"expert_count": None}, "no metadata key '.*expert_count'"),
    "no experts": ({}, {"expert_count": 0}, "expert_count' is 0"),
    "an unknown key": ({}, {"expert_weights_scale": 2.0}, "expert_weights_scale' is unknown"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSALS)
@pytest.mark.parametrize("architecture", ["qwen3moe", "gpt-oss"])
def test_refused(tmp_path: Path, architecture: str, case: str) -> None:
    added, keys, expected = REFUSALS[case]
    metadata, tensors = parts(architecture)
    metadata |= {f"{architecture}.{key}": value for key, value in keys.items()}
    metadata = {key: value for key, value in metadata.items() if value is not None}
    with pytest.raises(CheckpointError, match=expected):
        open_checkpoint(write_gguf(tmp_path / "m.gguf", metadata, {**tensors, **added}))


def test_two_tensors_of_one_name_are_refused(tmp_path: Path) -> None:
    metadata, tensors = parts("gpt-oss")
    tensors["blk.0.ffn_norm.weight"] = f32(HIDDEN)
    with pytest.raises(
        CheckpointError, match=r"'blk.0.post_attention_norm.weight' and 'blk.0.ffn_norm.weight' are both"
    ):
        open_checkpoint(write_gguf(tmp_path / "m.gguf", metadata, tensors))


def test_gpt_oss_without_a_window_is_refused(tmp_path: Path) -> None:
    metadata, tensors = parts("gpt-oss")
    del metadata["gpt-oss.attention.sliding_window"]
    with pytest.raises(CheckpointError, match=r"no metadata key 'gpt-oss.attention.sliding_window'"):
        open_checkpoint(write_gguf(tmp_path / "m.gguf", metadata, tensors))
