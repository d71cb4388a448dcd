"""Rules and tensors meet under one name each: overlapping groups, lists in other spellings, descriptions by shard."""

from __future__ import annotations

import json
from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fewbit.formats.auto_round import encode as auto_round
from fewbit.formats.compressed_tensors import encode as compressed
from fewbit.formats.folder.writer import DiskArray, as_disk, write_json, write_weights
from fewbit.formats.modelslim import encode as modelslim
from fewbit.formats.quark import encode as quark
from fewbit.layers.merge import split_runs
from fewbit.layers.spec import LinearSpec, TensorSpec
from fewbit.loader import prepare
from fewbit.loader.open import open_model
from fewbit.schemes.plain.scheme import BF16
from fewbit.schemes.reference import dequantize, quantize
from fewbit.spec.dtype import E2M1, E4M3, F16, F32, I4, I8
from fewbit.spec.granularity import CHANNEL, group
from fewbit.spec.refusal import CheckpointError
from fewbit.spec.scheme import QuantTensor, Scheme
from tests.bugs.guard import guarded
from tests.bugs.model import REFERENCE, assert_logits, assert_weights, spread, store, table, tiny_dense
from tests.formats.altered import drop
from tests.formats.plain.fixture import tiny_folder
from tests.formats.quark.fixture import UINT4, tiny_quark
from tests.formats.wrapped import wrap

FP8 = Scheme(E4M3, CHANNEL, F32)
NVFP4 = Scheme(E2M1, group(16), E4M3, global_scale=F32)
INT4 = Scheme(I4, group(32), F16)
INT8 = Scheme(I8, CHANNEL, F32)
I4G32, I8G32 = Scheme(I4, group(32), F16), Scheme(I8, group(32), F16)


def declared(*members: tuple[Scheme, list[str]], **more: Any) -> dict[str, Any]:
    groups = {
        f"group_{i}": {
            "targets": targets, "weights": compressed.args_of(scheme), "format": compressed.packing_of(scheme)
        }
        for i, (scheme, targets) in enumerate(members)
    }  # fmt: skip
    return {
        "quant_method": "compressed-tensors",
        "format": "mixed-precision",
        "config_groups": groups,
        **more,
    }


# ---- groups whose patterns overlap

ROWS = (FP8, ["re:.*self_attn.*", "re:.*layers\\.3\\.mlp\\.(gate|up|down)_proj$", "lm_head"])
BLOCKS = (NVFP4, ["re:.*mlp\\.(gate|up|down)_proj$"])


def overlapping(
    folder: Path, *members: tuple[Scheme, list[str]]
) -> tuple[dict[str, Any], dict[str, QuantTensor]]:
    """Layer 3 lies in both groups and is stored as the first says; no weight_shape beside the small floats."""
    config, weights = tiny_dense(num_hidden_layers=4)

    def of(name: str) -> Any:
        if name.startswith("lm_head") or "self_attn" in name or ("mlp" in name and "layers.3." in name):
            return FP8, compressed.encode
        return (NVFP4, compressed.encode) if "mlp" in name else None

    return config, store(folder, config, weights, of, declared(*members))


@guarded("fewbit.formats.compressed_tensors.resolve:fits", lambda module, group: True, "layers.3.mlp")
def test_a_layer_in_two_groups_is_what_its_tensors_say(tmp_path: Path) -> None:
    """Whatever the order of the groups, the logits are those of the dequantized weights."""
    for name, members in (("m", (ROWS, BLOCKS)), ("n", (BLOCKS, ROWS))):
        config, meant = overlapping(tmp_path / name, *members)
        found = table(tmp_path / name)
        assert {found[m] for m in found if "layers.3.mlp" in m} == {"e4m3channel"}
        assert {found[m] for m in found if "mlp" in m and "layers.3" not in m} == {"e2m1g16s"}
        assert_weights(tmp_path / name, meant)
        assert_logits(tmp_path / name, config, meant)


def test_a_module_that_fits_no_group_is_named_with_group_and_tensors(tmp_path: Path) -> None:
    overlapping(tmp_path / "m", ROWS, BLOCKS)
    drop("model.layers.1.mlp.up_proj.weight_scale")(tmp_path / "m")
    with pytest.raises(CheckpointError) as refusal:
        open_model(tmp_path / "m")
    text = str(refusal.value)
    assert (
        "'model.layers.1.mlp.up_proj' has no tensor 'weight_scale'" in text
        and "config group 'group_1'" in text
    )
    assert "weight_packed, weight_global_scale" in text


@guarded("fewbit.formats.auto_round.config:AutoRoundConfig.named", lambda self, module: None, "shape")
def test_a_name_in_another_spelling_is_stronger_than_a_pattern(tmp_path: Path) -> None:
    """The pattern is found in the file's own name, the exact name is that of the text class."""
    down = "model.layers.0.mlp.down_proj"
    settings = auto_round.settings_of(quantize(spread((64, 64)), I4G32))
    config, weights = tiny_dense()

    def of(name: str) -> Any:
        scheme = I8G32 if name.startswith(down) else I4G32
        return (scheme, lambda t: auto_round.encode(t, auto_round.settings_of(t))) if "proj" in name else None

    rules = {r".*\.mlp\..*": {"bits": 4}, down: {"bits": 8}}
    meant = store(tmp_path / "m", config, weights, of, auto_round.config_of(settings, extra_config=rules))
    wrap(tmp_path / "m")
    assert_weights(tmp_path / "m", meant)


@guarded(
    "fewbit.formats.quark.config:Settings.named",
    lambda self, names: next((g for g in self.by_name if fnmatchcase(names[0], g)), ""),
    "DID NOT RAISE",
)
def test_entries_that_differ_are_refused_whatever_spelling_each_is_in(tmp_path: Path) -> None:
    down = "model.layers.0.mlp.down_proj"
    entry = quark.config_of(UINT4)["global_quant_config"]
    other = {**entry, "input_tensors": {"dtype": "int8", "qscheme": "per_tensor", "is_dynamic": True}}
    rules = {"layer_quant_config": {"language_model.*": entry, down: other}}
    wrap(tiny_quark(tmp_path / "m", keys=rules))
    with pytest.raises(
        CheckpointError, match=r"has 'language_model\.\*' and 'model\.layers\.0\.mlp\.down_proj' for"
    ):
        open_model(tmp_path / "m")


# ---- leaves that are fused later

LEAVES = {"in_proj_qkv": (96, 64), "in_proj_z": (32, 64), "in_proj_b": (8, 64), "in_proj_a": (8, 64)}
PLAIN_LEAVES = {0: set(LEAVES), 1: {"in_proj_b", "in_proj_a"}, 2: set[str]()}
IGNORED = {
    "leaf names": [f"model.layers.{i}.linear_attn.{leaf}" for i, leaves in PLAIN_LEAVES.items() for leaf in sorted(leaves)],
    "fused names": [f"model.layers.{i}.linear_attn.{n}" for i, n in ((0, "in_proj_qkvz"), (0, "in_proj_ba"), (1, "in_proj_ba"))],
    "a pattern": ["re:.*layers\\.0\\.linear_attn.*", "re:.*layers\\.1\\.linear_attn\\.in_proj_[ba]$"],
}  # fmt: skip


def hybrid(folder: Path, ignore: list[str]) -> dict[str, QuantTensor]:
    """Three layers of four leaves: all plain; two of four; all quantized."""
    weights = {"model.embed_tokens.weight": spread((64, 64))}
    for layer in PLAIN_LEAVES:
        for seed, (leaf, shape) in enumerate(LEAVES.items()):
            weights[f"model.layers.{layer}.linear_attn.{leaf}.weight"] = spread(shape, seed)

    def of(name: str) -> Any:
        parts = name.split(".")
        plain = "embed" in name or parts[4] in PLAIN_LEAVES[int(parts[2])]
        return None if plain else (INT4, compressed.encode)

    config = {"model_type": "qwen3_moe", "vocab_size": 64}
    return store(folder, config, weights, of, declared((INT4, ["Linear"]), ignore=["lm_head", *ignore]))


def fused(layer: int, *leaves: str) -> LinearSpec:
    names = [f"model.layers.{layer}.linear_attn.{leaf}.weight" for leaf in leaves]
    weights = tuple(TensorSpec(n, LEAVES[leaf]) for n, leaf in zip(names, leaves, strict=True))
    return LinearSpec(f"layers.{layer}", "in_proj", weights, (None,) * len(leaves))


@pytest.mark.parametrize("spelling", IGNORED)
@guarded("fewbit.formats.compressed_tensors.resolve:PACKED", frozenset())
def test_leaves_are_resolved_before_they_are_fused(tmp_path: Path, spelling: str) -> None:
    meant = hybrid(tmp_path / "m", IGNORED[spelling])
    assert_weights(tmp_path / "m", meant)
    infos = open_model(tmp_path / "m").tensors
    found = table(tmp_path / "m")
    for layer, plain in PLAIN_LEAVES.items():
        for leaf in LEAVES:
            assert found[f"model.layers.{layer}.linear_attn.{leaf}"] == ("bf16" if leaf in plain else "i4g32")
    runs = {
        (layer, leaves): [
            run.leaves for run in split_runs(fused(layer, *leaves), infos, lambda name: np.ones(1))[0]
        ]
        for layer in PLAIN_LEAVES
        for leaves in (("in_proj_qkv", "in_proj_z"), ("in_proj_z", "in_proj_b"))
    }
    assert (
        runs[0, ("in_proj_z", "in_proj_b")] == runs[2, ("in_proj_z", "in_proj_b")] == ["in_proj_z, in_proj_b"]
    )
    assert runs[1, ("in_proj_z", "in_proj_b")] == ["in_proj_z", "in_proj_b"]  # this layer alone differs
    assert runs[1, ("in_proj_qkv", "in_proj_z")] == ["in_proj_qkv, in_proj_z"]


def test_a_weight_that_no_parameter_takes_is_an_error(tmp_path: Path) -> None:
    folder = tiny_folder(tmp_path / "m")
    stray = {"model.layers.0.linear_attn.in_proj_qkvz.weight": as_disk(quantize(spread((8, 8)), BF16))}
    wrap(folder, "llava", {}, stray)
    text = "that nothing in this architecture takes: model.layers.0.linear_attn.in_proj_qkvz.weight"
    with pytest.raises(CheckpointError, match=text.replace(".", r"\.")):
        prepare(open_model(folder), REFERENCE.selector)


# ---- a module inside the module

TOWER = ("q_proj", "k_proj", "v_proj", "gate_proj", "up_proj")


def tower(folder: Path, suffix: str, quantized: Mapping[str, bool], ignore: list[str]) -> Path:
    """A vision tower of width 8608 in a wrapper; `suffix` stands between a module and its leaf in the file."""
    stored: dict[str, DiskArray] = {}
    for seed, leaf in enumerate(TOWER):
        weight, at = spread((8608, 32), seed), f"vision_tower.blocks.0.{leaf}{suffix}"
        if quantized[leaf]:
            stored |= {f"{at}.{k}": a for k, a in compressed.encode(quantize(weight, INT4)).items()}
        else:
            stored[f"{at}.weight"] = as_disk(quantize(weight, BF16))
    wrap(tiny_folder(folder), tower=stored)
    config = json.loads((folder / "config.json").read_text())
    rules = declared((INT4, ["Linear"]), ignore=["lm_head", "re:.*language_model.*", *ignore])
    write_json(folder / "config.json", {**config, "quantization_config": rules})
    return folder


@pytest.mark.parametrize("suffix", ["", ".linear"], ids=["no suffix in the file", "suffix in the file"])
@pytest.mark.parametrize("listed", ["", ".linear"], ids=["no suffix in the list", "suffix in the list"])
@guarded("fewbit.formats.folder.names:Names.spellings", lambda self, module: ())
def test_an_ignored_module_under_the_name_of_its_wrapper(tmp_path: Path, suffix: str, listed: str) -> None:
    """The rule is found in either spelling, behind either prefix."""
    ignore = [f"model.vision_tower.blocks.0.{leaf}{listed}" for leaf in TOWER]
    folder = tower(tmp_path / "m", suffix, dict.fromkeys(TOWER, False), ignore)
    checkpoint: Any = open_model(folder)
    for leaf, entry in zip(TOWER, ignore, strict=True):
        assert checkpoint.unquantized[f"vision_tower.blocks.0.{leaf}{suffix}"] == f"ignore {entry!r}"
    prepare(checkpoint, REFERENCE.selector)


def test_a_list_of_some_members_leaves_the_others_as_they_are_stored(tmp_path: Path) -> None:
    """Only q is listed: k and v, which are plain too, stay plain; were they quantized, they would stay quantized."""
    ignore = ["vision_tower.blocks.0.q_proj.linear"]
    folder = tower(tmp_path / "m", "", dict.fromkeys(TOWER, False), ignore)
    assert {table(folder)[f"vision_tower.blocks.0.{leaf}"] for leaf in TOWER} == {"bf16"}
    folder = tower(tmp_path / "n", "", {leaf: leaf != "q_proj" for leaf in TOWER}, ignore)
    found = table(folder)
    assert (
        found["vision_tower.blocks.0.q_proj"] == "bf16" and found["vision_tower.blocks.0.k_proj"] == "i4g32"
    )
    folder = tower(tmp_path / "o", "", dict.fromkeys(TOWER, True), ignore)
    with pytest.raises(
        CheckpointError, match=r"blocks\.0\.q_proj' is left unquantized by ignore 'vision_tower\.blocks"
    ):
        open_model(folder)


# ---- a description of every shard


def described(folder: Path, missing: str = "") -> dict[str, QuantTensor]:
    """int8 shards and a plain one that are fused elsewhere, and a vision tower that is quantized as well."""
    at, tower_at = "language_model.model.layers.0", "visual.blocks.0"
    shapes = {
        f"{at}.self_attn.q_proj": (64, 64), f"{at}.linear_attn.in_proj_qkv": (96, 64), f"{at}.linear_attn.in_proj_z": (32, 64),
        f"{at}.linear_attn.in_proj_b": (8, 64), f"{tower_at}.attn.qkv": (96, 32), f"{tower_at}.mlp.fc1": (80, 32),
    }  # fmt: skip
    stored: dict[str, DiskArray] = {}
    kinds: dict[str, str] = {}
    meant = {}
    for seed, (module, shape) in enumerate(shapes.items()):
        plain = module.endswith("in_proj_b")
        tensor = quantize(spread(shape, seed), BF16 if plain else INT8)
        leaves = {"weight": as_disk(tensor)} if plain else modelslim.encode(tensor)
        kind = "FLOAT" if plain else "W8A8_DYNAMIC"
        stored |= {f"{module}.{leaf}": array for leaf, array in leaves.items()}
        kinds |= {f"{module}.{leaf}": kind for leaf in leaves}
        meant[f"{module.replace('language_model.model.', 'model.')}.weight"] = tensor
    kinds.pop(missing, None)
    folder.mkdir()
    write_weights(folder, stored)
    text = {"model_type": "qwen3_moe", "vocab_size": 64}
    write_json(folder / "config.json", {"model_type": "qwen2_5_vl", "text_config": text})
    write_json(folder / "quant_model_description.json", modelslim.description_of(kinds))
    return meant


@guarded("fewbit.formats.modelslim.resolve:INPUTS", {}, "'in_proj_qkv'|input")
def test_each_shard_is_looked_up_in_the_description(tmp_path: Path) -> None:
    meant = described(tmp_path / "m")
    checkpoint = open_model(tmp_path / "m")
    assert_weights(tmp_path / "m", meant)
    infos = checkpoint.tensors
    at = "model.layers.0.linear_attn"
    assert str(infos[f"{at}.in_proj_qkv.weight"].layer.input_quant) == "i8token dynamic asymmetric", (
        "'in_proj_qkv' lost its input"
    )
    spec = LinearSpec(
        "in_proj", "in_proj",
        tuple(TensorSpec(f"{at}.{n}.weight", infos[f"{at}.{n}.weight"].shape) for n in ("in_proj_qkv", "in_proj_z", "in_proj_b")),
        (None,) * 3,
    )  # fmt: skip
    runs, why = split_runs(spec, infos, lambda name: np.ones(1))
    assert [run.leaves for run in runs] == ["in_proj_qkv, in_proj_z", "in_proj_b"]
    assert why == ["in_proj_qkv, in_proj_z and in_proj_b stay apart: i8channel (scales f32) and bf16"]
    towers = {n: i for n, i in infos.items() if i.component == "vision tower"}
    assert {i.scheme.name for i in towers.values()} == {"i8channel"} and len(towers) == 2
    ours = dequantize(checkpoint.read("visual.blocks.0.attn.qkv.weight"))
    assert np.array_equal(ours, dequantize(meant["visual.blocks.0.attn.qkv.weight"]))


@pytest.mark.parametrize("leaf", ["weight", "weight_scale"])
def test_a_tensor_that_the_description_lacks_is_named(tmp_path: Path, leaf: str) -> None:
    name = f"language_model.model.layers.0.self_attn.q_proj.{leaf}"
    described(tmp_path / "m", missing=name)
    with pytest.raises(CheckpointError, match=name.replace(".", r"\.")):
        open_model(tmp_path / "m")
