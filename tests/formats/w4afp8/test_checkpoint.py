"""W4AFP8 folders: what is written is read, however it is declared, and wherever input scales lie."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fewbit.formats import open_checkpoint
from fewbit.formats.w4afp8.encode import encode
from fewbit.schemes.affine.scheme import U4G32O
from fewbit.schemes.reference import dequantize, quantize
from fewbit.spec.refusal import CheckpointError
from fewbit.spec.scheme import QuantTensor
from tests.formats.altered import Alter, drop, keys, put, rename, tensors
from tests.formats.tiny import tiny_config
from tests.formats.w4afp8.fixture import (
    GROUP,
    INPUT_SCALE,
    PACKED,
    SHORT,
    mixture,
    stored,
    tiny_w4afp8,
)  # fmt: skip

EXPERT = "model.layers.0.mlp.experts.1.down_proj"
LINEAR = "model.layers.0.self_attn.o_proj"


def declared_by_method(folder: Path) -> None:
    pass


def mixed(**more: Any) -> Alter:
    """As the converter writes it: no quantization_config, a side file that names no layers, short names of input scales."""

    def act(folder: Path) -> None:
        config = json.loads((folder / "config.json").read_text())
        del config["quantization_config"]
        (folder / "config.json").write_text(json.dumps(config))
        said = {"quant_algo": "MIXED_PRECISION", "kv_cache_quant_algo": None, "group_size": GROUP, **more}
        (folder / "hf_quant_config.json").write_text(json.dumps({"quantization": said}))

        def shorten(held: dict[str, Any]) -> None:
            for name in [n for n in held if ".experts." in n and n.endswith("input_scale")]:
                module, proj, leaf = name.rsplit(".", 2)
                held[f"{module}.{SHORT[proj]}.{leaf}"] = held.pop(name)

        tensors(shorten)(folder)

    return act


LAYERS = {
    "model.layers.0.self_attn.o_proj": {"quant_algo": "FP8_BLOCK_SCALES"},
    "model.layers.0.mlp.experts": {"quant_algo": "W4A8_AWQ", "group_size": 128},
}


@pytest.mark.parametrize("declare", [declared_by_method, mixed(), mixed(quantized_layers=LAYERS)])
def test_what_was_written_is_read(tmp_path: Path, declare: Alter) -> None:
    folder = tiny_w4afp8(tmp_path / "m", seed=3)
    declare(folder)
    checkpoint = open_checkpoint(folder)
    assert checkpoint.format == "w4afp8"
    for name, weight in mixture(tiny_config(), 3).items():
        found = checkpoint.read(name)
        if "proj" not in name:
            assert found.scheme.is_plain
            continue
        module = name.removesuffix(".weight")
        expected = stored(module, weight)
        assert found.scheme == expected.scheme
        for role, part in expected.parts.items():
            assert np.array_equal(found.parts[role], part), (name, role)
        if ".experts." in name:
            inputs = checkpoint.tensors[name].layer.input_quant
            assert inputs is not None and inputs.is_static and inputs.scale == f"{module}.input_scale"
            assert np.array_equal(checkpoint.read_auxiliary(inputs.scale), INPUT_SCALE)
            assert np.array_equal(checkpoint.read(name, 5, 29).parts["codes"], expected.parts["codes"][5:29])
    assert len(checkpoint.auxiliary) == 12  # type: ignore[attr-defined]


def test_nvfp4_among_mixed_layers_is_modelopt_s(tmp_path: Path) -> None:
    folder = tiny_w4afp8(tmp_path / "m")
    mixed(quantized_layers={"model.layers.0": {"quant_algo": "NVFP4"}})(folder)
    with pytest.raises(CheckpointError, match="is quantized with the format 'without a name'"):
        open_checkpoint(folder)


def test_every_code_with_extreme_scales(tmp_path: Path) -> None:
    """All 16 codes in both nibbles; scales of both signs, subnormal, largest, zero."""
    folder = tiny_w4afp8(tmp_path / "m")
    codes = np.tile(np.arange(-8, 8, dtype=np.int8), (64, 8))
    codes[:, 1::2] = codes[:, 1::2][:, ::-1]
    words = np.array([1, 0x7F7FFFFF, 1 << 23, 0xFF7FFFFF, 0, 0x80000001], np.uint32)
    scale = np.resize(words.view(np.float32), (64, 4))
    tensor = QuantTensor(PACKED, (64, 128), {"codes": codes, "scale": scale})
    for leaf, array in encode(tensor, INPUT_SCALE).items():
        put(f"{EXPERT}.{leaf}", array.kind, array.array)(folder)
    found = open_checkpoint(folder).read(f"{EXPERT}.weight")
    assert np.array_equal(found.parts["codes"], codes)
    assert np.array_equal(found.parts["scale"].view("u4"), scale.view("u4"))
    with np.errstate(over="ignore"):
        assert np.array_equal(dequantize(found), codes * np.repeat(scale, GROUP, axis=1))


def test_what_w4afp8_cannot_say() -> None:
    with pytest.raises(ValueError, match="W4AFP8 cannot express the scheme u4g32o"):
        encode(quantize(np.ones((32, 32), np.float32), U4G32O), INPUT_SCALE)


CASES: dict[str, tuple[Alter, str]] = {
    "an unknown key": (keys(mystery=1), "key 'mystery' is unknown for the format w4afp8"),
    "other blocks": (keys(weight_block_size=[64, 64]), "key 'weight_block_size' is [64, 64], expected [128, 128]"),
    "another group": (keys(group_size=64), "and groups of 64 along K=64"),
    "dynamic experts": (keys(moe_activation_scheme="dynamic"), "key 'moe_activation_scheme' is 'dynamic', which is not supported"),
    "an expert left out": (keys(ignored_layers=["experts.1"]), "leaves out 'experts.1'; they contradict"),
    "a layer left out that is quantized": (keys(ignored_layers=["o_proj"]), "is left unquantized by the entry 'o_proj'"),
    "an unknown key of mixed layers": (mixed(mystery=1), "key 'mystery' is unknown for the format w4afp8"),
    "an unknown algorithm of a layer": (mixed(quantized_layers={"x": {"quant_algo": "BLOCK_INT8"}}), "quantized_layers 'x': key 'quant_algo' is 'BLOCK_INT8'"),
    "a layer that is no object": (mixed(quantized_layers={"x": 4}), "quantized_layers 'x': is 4, expected an object"),
    "no scale": (drop(f"{EXPERT}.weight_scale_inv"), f"module '{EXPERT}' has no tensor 'weight_scale_inv'"),
    "no input scale": (drop(f"{EXPERT}.input_scale"), f"module '{EXPERT}' has no tensor 'input_scale'"),
    "a scale of another name": (rename(f"{EXPERT}.weight_scale_inv", f"{EXPERT}.weight_scale"), f"module '{EXPERT}' has no tensor 'weight_scale_inv'"),
    "scales cut": (put(f"{EXPERT}.weight_scale_inv", "F32", np.ones((64, 3), np.float32)), "expected one scale for each of 64 rows and groups of 32 along K=128"),
    "scales that are integers": (put(f"{EXPERT}.weight_scale_inv", "I32", np.ones((64, 4), np.int32)), "expected type F32 or F16 or BF16"),
    "a NaN scale": (put(f"{EXPERT}.weight_scale_inv", "F32", np.full((64, 4), np.nan, np.float32)), "has a NaN scale"),
    "an input scale a row": (put(f"{EXPERT}.input_scale", "F32", np.ones(64, np.float32)), "expected a single number"),
    "codes of 4 bits in a layer": (put(f"{LINEAR}.weight", "I8", np.zeros((64, 32), np.int8)), f"tensor '{LINEAR}.weight' (I8 [64, 32]), expected type F8_E4M3"),
    "unsigned codes": (put(f"{EXPERT}.weight", "U8", np.zeros((64, 64), np.uint8)), f"tensor '{EXPERT}.weight' (U8 [64, 64]), expected type F8_E4M3"),
    "a tensor too many": (put(f"{EXPERT}.extra", "I8", np.ones(1, np.int8)), "is taken by nothing"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_refused(tmp_path: Path, case: str) -> None:
    folder = tiny_w4afp8(tmp_path / "m")
    act, expected = CASES[case]
    act(folder)
    with pytest.raises(CheckpointError) as refusal:
        open_checkpoint(folder).read(f"{EXPERT}.weight")
    assert expected in str(refusal.value) and str(folder) in str(refusal.value)
