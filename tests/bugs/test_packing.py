"""Codes and zero points survive every packing; what is stored in turn is told apart; scales of activations are not dropped."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fewbit.formats.awq import encode as awq
from fewbit.formats.awq.config import Settings as AwqSettings
from fewbit.formats.folder.parts import EveryRow
from fewbit.formats.folder.writer import DiskArray
from fewbit.formats.gptq import encode as gptq
from fewbit.loader import prepare
from fewbit.loader.open import open_model
from fewbit.schemes.arrays import Array
from fewbit.schemes.reference import dequantize
from fewbit.spec.dtype import F16, U4
from fewbit.spec.granularity import group
from fewbit.spec.refusal import CheckpointError, RefusedError
from fewbit.spec.scheme import QuantTensor, Scheme
from tests.bugs.guard import guarded
from tests.bugs.model import REFERENCE, assert_weights, store, tiny_dense
from tests.formats.altered import tensors
from tests.formats.awq.fixture import tiny_awq
from tests.formats.mxfp4.fixture import EXPERTS, tiny_experts, tiny_mxfp4

ASYMMETRIC = Scheme(U4, group(64), F16, zero_point=U4)


def every_pair() -> QuantTensor:
    """All 16 x 16 pairs of code and zero point: row n has the zero points n and 15 - n, every group all codes."""
    codes = np.tile(np.arange(16, dtype=np.uint8), (16, 8))
    zeros = np.stack([np.arange(16), 15 - np.arange(16)], axis=1).astype(np.uint8)
    scale = (2.0 ** -np.arange(32)).reshape(16, 2).clip(2.0**-12).astype(np.float16)
    return QuantTensor(ASYMMETRIC, (16, 128), {"codes": codes, "scale": scale, "zero_point": zeros})


def expected(tensor: QuantTensor) -> Array:
    """w = scale * (code - zero point), in a line of its own."""
    p = tensor.parts
    zeros, scale = (np.repeat(x.astype(np.float32), 64, axis=1) for x in (p["zero_point"], p["scale"]))
    found: Array = (p["codes"].astype(np.float32) - zeros) * scale
    return found


def one_module(folder: Path, encode: Any, declared: dict[str, Any]) -> QuantTensor:
    """A folder of one quantized module, and that module as it is read back."""
    name, tensor = "model.layers.0.mlp.down_proj.weight", every_pair()
    weights = {
        "model.embed_tokens.weight": np.ones((16, 16), np.float32),
        name: np.ones((16, 128), np.float32),
    }
    config = {"model_type": "qwen3_moe", "vocab_size": 16}
    store(
        folder,
        config,
        weights,
        lambda n: (ASYMMETRIC, lambda _: encode(tensor)) if n == name else None,
        declared,
    )
    return open_model(folder).read(name)


def _field_by_field(words: Array, bits: int, step: int) -> Array:
    """The zero points less one, each wrapped in its own field: 0 becomes 15, and back again without a borrow."""
    found = words.view(np.uint32).copy()
    mask = np.uint32((1 << bits) - 1)
    out = np.zeros_like(found)
    for shift in range(0, 32, bits):
        field = (found >> np.uint32(shift)) & mask
        out |= np.where(
            field == mask if step > 0 else field == 0, field, field + np.uint32(step & 0xFFFFFFFF)
        ) << np.uint32(shift)
    return out.view(words.dtype)


@guarded("fewbit.formats.gptq.decode:add_to_words", _field_by_field)
def test_every_pair_of_code_and_zero_point_survives_each_packing(tmp_path: Path) -> None:
    """AWQ, GPTQ with zero points less one, and GPTQ as they are: one dequantization, zero points 0 and 15 among them."""
    meant = every_pair()
    assert {*meant.parts["zero_point"].ravel()} == set(range(16))
    forms: dict[str, tuple[Any, dict[str, Any]]] = {
        "awq": (partial(awq.encode, settings=AwqSettings(64, True)), awq.config_of(AwqSettings(64, True))),
    }
    for version in (1, 2):
        settings = gptq.settings_of(meant, version)
        forms[f"gptq {version}"] = (partial(gptq.encode, settings=settings), gptq.config_of(settings))
    for name, (encode, declared) in forms.items():
        found = one_module(tmp_path / name, encode, declared)
        assert np.array_equal(dequantize(found), expected(meant)), name
        assert {role: p.tolist() for role, p in found.parts.items()} == {
            r: p.tolist() for r, p in meant.parts.items()
        }


@pytest.mark.parametrize("name", ["awq", "gptq"])
def test_whole_models_with_zero_points_at_both_ends(tmp_path: Path, name: str) -> None:
    config, weights = tiny_dense()
    weights = {n: np.abs(w) if "gate" in n else -np.abs(w) if "up" in n else w for n, w in weights.items()}
    settings = AwqSettings(64, True)
    encode = (
        partial(awq.encode, settings=settings)
        if name == "awq"
        else lambda t: gptq.encode(t, gptq.settings_of(t))
    )
    shape = every_pair()
    declared = awq.config_of(settings) if name == "awq" else gptq.config_of(gptq.settings_of(shape))
    meant = store(
        tmp_path / "m", config, weights, lambda n: (ASYMMETRIC, encode) if "proj" in n else None, declared
    )
    zeros = {int(z) for t in meant.values() if "zero_point" in t.parts for z in t.parts["zero_point"].ravel()}
    assert {0, 15} <= zeros  # all of one sign: the range begins or ends at 0
    assert_weights(tmp_path / "m", meant)


# ---- gate and up in turn


def _halves(self: EveryRow, start: int, stop: int) -> Array:
    rows = self.tensor.shape[0] // self.step
    found: Array = np.ascontiguousarray(self.tensor.rows(self.first * rows + start, self.first * rows + stop))
    return found


@guarded("fewbit.formats.folder.parts:EveryRow.read", _halves)
def test_gate_and_up_that_lie_in_turn_are_told_apart(tmp_path: Path) -> None:
    """Gates about 5, ups about 0.01: taken as two halves, each would hold both."""
    folder = tiny_mxfp4(tmp_path / "m", hidden_size=64, intermediate_size=64, num_hidden_layers=1)

    def shift(held: dict[str, DiskArray]) -> None:
        scales = held["model.layers.0.mlp.experts.gate_up_proj_scales"].array
        scales[:, 0::2], scales[:, 1::2] = 129, 120
        bias = held["model.layers.0.mlp.experts.gate_up_proj_bias"]
        values = np.zeros(bias.array.shape, np.float32)
        values[:, 0::2], values[:, 1::2] = 5, 0.0078125
        held["model.layers.0.mlp.experts.gate_up_proj_bias"] = DiskArray(
            "BF16", (values.view(np.uint32) >> 16).astype(np.uint16)
        )

    tensors(shift)(folder)
    checkpoint = open_model(folder)
    for expert in range(EXPERTS):
        at = f"model.layers.0.mlp.experts.{expert}"
        gate, up = (np.abs(dequantize(checkpoint.read(f"{at}.{p}_proj.weight"))) for p in ("gate", "up"))
        assert gate.max() > 1 and up.max() < 0.1 and gate.shape == up.shape == (64, 64)
        assert set(dequantize(checkpoint.read(f"{at}.gate_proj.bias"))) == {5.0}
        assert set(dequantize(checkpoint.read(f"{at}.up_proj.bias"))) == {0.0078125}


def test_interleaved_experts_are_those_that_were_written(tmp_path: Path) -> None:
    folder = tiny_mxfp4(tmp_path / "m", seed=4)
    meant = tiny_experts(json.loads((folder / "config.json").read_text()), 4)
    checkpoint = open_model(folder)
    for name, weight in meant.items():
        if name.endswith("weight"):
            ours = dequantize(checkpoint.read(name))
            assert np.corrcoef(ours.ravel(), weight.ravel())[0, 1] > 0.98, name


# ---- activations with scales

SCALES = "model.layers.0.mlp.act.scales"


def scaled(folder: Path) -> Path:
    tiny_awq(folder, AwqSettings(32, True))
    values = np.linspace(0.5, 8, 128).astype(np.float16)
    tensors(lambda held: held.update({SCALES: DiskArray("F16", values)}))(folder)
    return folder


@guarded("fewbit.formats.awq.resolve:scaled_readers", lambda disk: {}, "DID NOT RAISE")
def test_a_scaled_activation_is_refused_rather_than_dropped(tmp_path: Path) -> None:
    """Its scales belong to the linear after it; until a method applies them, the layer is refused by name."""
    with pytest.raises(
        RefusedError, match=r"down_proj\.weight: layer quantization pre_scale is not supported.*'scales'"
    ):
        prepare(open_model(scaled(tmp_path / "m")), REFERENCE.selector)


def test_dropping_the_scales_would_show(tmp_path: Path) -> None:
    checkpoint: Any = open_model(scaled(tmp_path / "m"))
    weight = dequantize(checkpoint.read("model.layers.0.mlp.down_proj.weight"))
    scale = checkpoint.read_auxiliary(SCALES)
    x = np.random.default_rng(0).standard_normal((4, 128)).astype(np.float32)
    right, without = (x * scale) @ weight.T, x @ weight.T
    assert np.abs(right - without).max() > 0.5 * np.abs(right).max()  # ten thousand tolerances of logits


def test_a_stray_tensor_is_reported(tmp_path: Path) -> None:
    folder = tiny_awq(tmp_path / "m", AwqSettings(32, True))
    tensors(lambda held: held.update({"foo.bar": DiskArray("F16", np.ones(4, np.float16))}))(folder)
    with pytest.raises(CheckpointError, match=r"nothing in this architecture takes: foo\.bar"):
        prepare(open_model(folder), REFERENCE.selector)
