"""What a configuration says of each layer is what each layer gets: groups, maps by layer, rules that overlap or exclude."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import pytest

from fewbit.formats.auto_round import encode as auto_round
from fewbit.formats.compressed_tensors import encode as compressed
from fewbit.formats.compressed_tensors.config import ARGS
from fewbit.formats.folder.keys import Key
from fewbit.formats.folder.names import Names
from fewbit.formats.gptq import encode as gptq
from fewbit.formats.gptq.resolve import packed_module
from fewbit.formats.modelopt import encode as modelopt
from fewbit.formats.modelopt.settings import Layer
from fewbit.formats.registry import FORMATS
from fewbit.loader import prepare
from fewbit.loader.open import open_model
from fewbit.schemes.reference import quantize
from fewbit.spec.dtype import E2M1, E4M3, E8M0, F16, F32, I4, I8, U4
from fewbit.spec.granularity import CHANNEL, TENSOR, group
from fewbit.spec.refusal import CheckpointError
from fewbit.spec.scheme import QuantTensor, Scheme
from tests.bugs.guard import guarded
from tests.bugs.model import (
    REFERENCE,
    assert_logits,
    assert_weights,
    expected_logits,
    logits,
    spread,
    store,
    table,
    tiny_dense,
)
from tests.formats.altered import keys, rename
from tests.formats.wrapped import wrap

FP8, FP8_ROWS = Scheme(E4M3, TENSOR, F32), Scheme(E4M3, CHANNEL, F32)
NVFP4, MXFP8 = Scheme(E2M1, group(16), E4M3, global_scale=F32), Scheme(E4M3, group(32), E8M0)
INT4 = Scheme(I4, group(32), F16)


def matrices(prefix: str, shapes: dict[str, tuple[int, int]]) -> dict[str, np.ndarray]:
    return {f"{prefix}.{name}.weight": spread(shape, crc32(name.encode())) for name, shape in shapes.items()}


def mixture(experts: int = 4, hidden: int = 128, inner: int = 256) -> dict[str, np.ndarray]:
    """Two layers of attention and experts, as a family that is opened and not served yet names them."""
    weights: dict[str, np.ndarray] = {"model.embed_tokens.weight": spread((64, hidden))}
    for layer in range(2):
        at = f"model.layers.{layer}"
        weights |= matrices(f"{at}.self_attn", {f"{p}_proj": (hidden, hidden) for p in "qkvo"})
        for expert in range(experts):
            shapes = {"gate_proj": (inner, hidden), "up_proj": (inner, hidden), "down_proj": (hidden, inner)}
            weights |= matrices(f"{at}.mlp.experts.{expert}", shapes)
    return weights | {"lm_head.weight": spread((64, hidden), 5)}


EXPERTS_CONFIG = {"model_type": "qwen3_moe", "vocab_size": 64}


def config_group(scheme: Scheme, *targets: str) -> dict[str, Any]:
    return {
        "targets": list(targets),
        "weights": compressed.args_of(scheme),
        "format": compressed.packing_of(scheme),
    }


def groups(*members: dict[str, Any], **more: Any) -> dict[str, Any]:
    numbered = {f"group_{i}": member for i, member in enumerate(members)}
    return {
        "quant_method": "compressed-tensors",
        "format": "mixed-precision",
        "config_groups": numbered,
        **more,
    }


TWO_GROUPS = (config_group(FP8_ROWS, "re:.*self_attn.*"), config_group(INT4, "re:.*mlp.experts.*"))


def two_groups(folder: Path, **more: Any) -> dict[str, QuantTensor]:
    def of(name: str) -> Any:
        scheme = FP8_ROWS if "self_attn" in name else INT4 if "experts" in name else None
        return scheme and (scheme, compressed.encode)

    return store(folder, EXPERTS_CONFIG, mixture(), of, groups(*TWO_GROUPS, **more))


def _by_substring(self: Any, module: str) -> int:
    if self.pattern is not None:
        return 2 if self.pattern.match(module) else 0
    return 3 if self.text in module else 0


@guarded(
    "fewbit.formats.compressed_tensors.targets:Target.strength", _by_substring, "left unquantized by ignore"
)
def test_an_ignored_parent_leaves_its_quantized_children_alone(tmp_path: Path) -> None:
    """An entry of `ignore` is a module, not a piece of text that occurs in names; groups have their own format."""
    meant = two_groups(tmp_path / "m", ignore=["model.layers.0.mlp.experts.0", "lm_head"])
    found = table(tmp_path / "m")
    assert {found[m] for m in found if "experts" in m} == {"i4g32"} and len(found) == 34
    assert {found[m] for m in found if "self_attn" in m} == {"e4m3channel"} and found["lm_head"] == "bf16"
    assert_weights(tmp_path / "m", meant)
    held = sum(i.bytes_on_disk for n, i in open_model(tmp_path / "m").tensors.items() if "experts" in n)
    codes = 2 * 4 * 3 * 128 * 256
    assert held == codes // 2 + codes // 32 * 2  # not those of bf16


@guarded("fewbit.formats.compressed_tensors.resolve:strongest", lambda targets, module: (0, ""), "no target")
def test_several_groups_without_any_ignore(tmp_path: Path) -> None:
    assert_weights(tmp_path / "m", two_groups(tmp_path / "m"))


def test_an_excluded_module_that_is_quantized_is_an_error_with_tensor_and_rule(tmp_path: Path) -> None:
    child = "model.layers.0.mlp.experts.0.gate_proj"
    two_groups(tmp_path / "m", ignore=[child])
    with pytest.raises(CheckpointError) as refusal:
        open_model(tmp_path / "m")
    assert f"left unquantized by ignore '{child}'" in str(refusal.value)
    assert f"{child}.weight_packed" in str(refusal.value)


# ---- a map of layers in the naming of another class


def map_of_layers(folder: Path, naming: str = "{}") -> dict[str, QuantTensor]:
    """Experts in NVFP4, the rest in MXFP8; `naming` is how the map calls a module, the files say w1, w2, w3."""
    at = "model.layers.0"
    shapes = {"w1": (64, 32), "w2": (32, 64), "w3": (64, 32)}
    weights = {"model.embed_tokens.weight": spread((64, 32))}
    weights |= matrices(f"{at}.self_attn", {"q_proj": (32, 32)})
    weights |= matrices(f"{at}.block_sparse_moe.experts.0", shapes)
    weights |= matrices(f"{at}.block_sparse_moe.shared_experts", {"gate_proj": (64, 32)})

    def of(name: str) -> Any:
        if "embed" in name:
            return None
        return (NVFP4 if ".experts." in name else MXFP8), modelopt.encode

    modules = [name.removesuffix(".weight") for name in weights if "embed" not in name]
    layers = {naming.format(m): {"quant_algo": "NVFP4" if ".experts." in m else "MXFP8"} for m in modules}
    config = {"model_type": "minimax_m3_vl_text", "vocab_size": 64}
    meant = store(folder, config, weights, of, None)
    side = {"quant_algo": "MIXED_PRECISION", "quantized_layers": layers}
    (folder / "hf_quant_config.json").write_text(
        json.dumps({"producer": {"name": "modelopt"}, "quantization": side})
    )
    return meant


EXPECTED = {
    "model.embed_tokens": "bf16", "model.layers.0.self_attn.q_proj": "e4m3g32",
    "model.layers.0.mlp.experts.0.gate_proj": "e2m1g16s", "model.layers.0.mlp.experts.0.down_proj": "e2m1g16s",
    "model.layers.0.mlp.experts.0.up_proj": "e2m1g16s", "model.layers.0.mlp.shared_experts.gate_proj": "e4m3g32",
}  # fmt: skip


@pytest.mark.parametrize("inside", [False, True], ids=["text class", "wrapper"])
@guarded("fewbit.formats.folder.names:Names.canonical", lambda self, name: name)
def test_a_map_of_layers_in_the_files_naming(tmp_path: Path, inside: bool) -> None:
    map_of_layers(tmp_path / "m")
    if inside:
        wrap(tmp_path / "m", "minimax_m3_vl")
    assert table(tmp_path / "m") == EXPECTED


@guarded(
    "fewbit.formats.folder.names:Names.spellings",
    lambda self, module: (),
    "does not name it in quantized_layers",
)
def test_a_map_of_layers_in_the_naming_of_the_text_class_inside_a_wrapper(tmp_path: Path) -> None:
    """The files have `language_model.`, the map does not, and the other way round."""
    map_of_layers(tmp_path / "m")
    wrap(tmp_path / "m", "minimax_m3_vl")
    assert table(tmp_path / "m") == EXPECTED
    map_of_layers(tmp_path / "n", "model.language_model.{}")
    path = tmp_path / "n" / "hf_quant_config.json"
    path.write_text(path.read_text().replace("model.language_model.model.", "model.language_model."))
    wrap(tmp_path / "n", "minimax_m3_vl")
    assert table(tmp_path / "n") == EXPECTED


@guarded(
    "fewbit.formats.modelopt.resolve:ModelOptResolver.check_named",
    lambda self, modules: None,
    "DID NOT RAISE",
)
def test_an_entry_that_names_no_module_is_an_error(tmp_path: Path) -> None:
    map_of_layers(tmp_path / "m")
    path = tmp_path / "m" / "hf_quant_config.json"
    side = json.loads(path.read_text())
    side["quantization"]["quantized_layers"]["model.layers.7.mlp.gate"] = {"quant_algo": "NVFP4"}
    path.write_text(json.dumps(side))
    with pytest.raises(
        CheckpointError, match=r"quantized_layers names model\.layers\.7\.mlp\.gate, which no weight file"
    ):
        open_model(tmp_path / "m")


@pytest.mark.parametrize("leaf", ["weight_scale", "weight_scale_2"])
def test_a_scale_that_nothing_takes_is_an_error(tmp_path: Path, leaf: str) -> None:
    map_of_layers(tmp_path / "m")
    at = "model.layers.0.block_sparse_moe"
    rename(f"{at}.experts.0.w1.{leaf}", f"{at}.experts.0.w9.{leaf}")(tmp_path / "m")
    with pytest.raises(CheckpointError, match=r"experts\.0\.w[19]' "):
        open_model(tmp_path / "m")


# ---- four algorithms in one dense model


ALGORITHMS = {"self_attn": ("FP8", FP8), "gate_proj": ("MXFP8", MXFP8), "up_proj": ("MXFP8", MXFP8),
              "down_proj": ("NVFP4", NVFP4), "lm_head": ("W4A16_NVFP4", NVFP4)}  # fmt: skip


@guarded("fewbit.formats.modelopt.settings:Settings.layer_of", lambda self, module: Layer("NVFP4", 16))
def test_each_layer_by_its_own_algorithm(tmp_path: Path) -> None:
    """FP8, MXFP8, NVFP4 and weight-only NVFP4 in the head: the logits of the dequantized weights, and words come of them."""
    config, weights = tiny_dense()
    chosen = {
        n: next((a for part, a in ALGORITHMS.items() if part in n and "norm" not in n), None) for n in weights
    }
    layers = {n.removesuffix(".weight"): {"quant_algo": a[0]} for n, a in chosen.items() if a}
    declared = {"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION", "quantized_layers": layers}

    def of(name: str) -> Any:
        found = chosen[name]
        return found and (found[1], modelopt.encode)

    meant = store(tmp_path / "m", config, weights, of, declared)
    assert set(table(tmp_path / "m").values()) == {"e4m3tensor", "e4m3g32", "e2m1g16s", "bf16"}
    assert_weights(tmp_path / "m", meant)
    assert_logits(tmp_path / "m", config, meant)
    checkpoint, tokens = open_model(tmp_path / "m"), [8, 9]
    for _ in range(16):
        tokens.append(int(logits(checkpoint, tokens)[-1].argmax()))
    assert len(set(tokens[2:])) > 1, "an answer of one token again and again"


# ---- what the table offers


def test_every_format_that_is_offered_can_be_loaded() -> None:
    """One table is the only source of the names; each resolves to a module that reads a folder or a file."""
    from importlib import import_module

    for name, info in FORMATS.items():
        module = import_module(info.module)
        wanted = ("declares", "resolver") if info.folder else ("open_gguf",)
        assert all(callable(getattr(module, part)) for part in wanted), name


@pytest.mark.parametrize(
    "spelling", [{"checkpoint_format": "marlin"}, {"is_marlin_format": True, "checkpoint_format": ...}]
)
@guarded("fewbit.formats.gptq.resolve:marlin_module", packed_module, "has no tensor 'qweight'")
def test_a_serialized_marlin_checkpoint_is_read(tmp_path: Path, spelling: dict[str, Any]) -> None:
    scheme = Scheme(I4, group(128), F16)
    config, weights = tiny_dense()
    settings = replace(gptq.settings_of(quantize(np.ones((256, 256), np.float32), scheme)), marlin=True)
    encode = partial(gptq.encode, settings=settings)
    meant = store(
        tmp_path / "m",
        config,
        weights,
        lambda n: (scheme, encode) if "proj" in n else None,
        gptq.config_of(settings),
    )
    keys(**spelling)(tmp_path / "m")
    assert_weights(tmp_path / "m", meant)
    open_model(tmp_path / "m", "gptq")
    with pytest.raises(CheckpointError, match=r"is in the format 'gptq', but --quantization says 'awq'"):
        open_model(tmp_path / "m", "awq")


# ---- several bit widths in one projection

FOUR, EIGHT = Scheme(I4, group(128), F16), Scheme(I8, group(64), F16)


def width_of(name: str) -> Scheme | None:
    if "layers.1" in name or "proj" not in name:
        return None
    return EIGHT if "v_proj" in name or "up_proj" in name else FOUR


def write_as(form: str, folder: Path) -> tuple[dict[str, Any], dict[str, QuantTensor]]:
    config, weights = tiny_dense()
    wide = r".*layers\.0\..*(v|up)_proj$"
    declared: dict[str, Any]
    if form == "compressed-tensors":
        members = (
            config_group(EIGHT, f"re:{wide}"),
            config_group(FOUR, r"re:.*layers\.0\..*(q|k|o|gate|down)_proj$"),
        )
        declared = groups(*members, ignore=["lm_head"])

        def encode(tensor: QuantTensor) -> Any:
            return compressed.encode(tensor)
    elif form == "gptq":
        rules = {f"+:{wide}": {"bits": 8, "group_size": 64}, r"-:.*layers\.1\..*": {}}
        declared = gptq.config_of(
            gptq.settings_of(quantize(np.ones((128, 128), np.float32), FOUR)), dynamic=rules
        )

        def encode(tensor: QuantTensor) -> Any:
            return gptq.encode(tensor, gptq.settings_of(tensor))
    else:
        entries: dict[str, Any] = {
            n.removesuffix(".weight"): {"bits": 8, "group_size": 64} for n in weights if width_of(n) == EIGHT
        }
        entries[r".*layers\.1\..*"] = {"bits": 16}
        whole = auto_round.settings_of(quantize(np.ones((128, 128), np.float32), FOUR))
        declared = auto_round.config_of(whole, extra_config=entries)

        def encode(tensor: QuantTensor) -> Any:
            return auto_round.encode(tensor, auto_round.settings_of(tensor))

    def of(name: str) -> Any:
        scheme = width_of(name)
        return scheme and (scheme, encode)

    return config, store(folder, config, weights, of, declared)


@guarded("fewbit.layers.merge:_why_apart", lambda *args: "", "qkv_proj")
def test_widths_that_differ_inside_a_projection_are_read_alike_in_three_formats(tmp_path: Path) -> None:
    found = {}
    for form in ("compressed-tensors", "gptq", "auto_round"):
        config, meant = write_as(form, tmp_path / form)
        checkpoint = open_model(tmp_path / form)
        assert checkpoint.format == form
        apart = {
            m.spec.name: len(m.blocks)
            for m in prepare(checkpoint, REFERENCE.selector).linears
            if len(m.blocks) > 1
        }
        assert apart == {"model.layers.0.self_attn.qkv_proj": 2, "model.layers.0.mlp.gate_up_proj": 2}
        assert_weights(tmp_path / form, meant)
        found[form] = logits(checkpoint)
        assert np.abs(found[form] - expected_logits(config, meant)).max() < 1e-4 * np.abs(found[form]).max()
    assert np.array_equal(found["gptq"], found["compressed-tensors"])
    assert np.array_equal(found["gptq"], found["auto_round"])


# ---- asymmetric codes


def asymmetric(shape: tuple[int, int], scheme: Scheme) -> QuantTensor:
    """Zero points 0 and 15 in known places, others random."""
    rng = np.random.default_rng(shape[0])
    groups_of = scheme.granularity.scale_shape(*shape)
    zeros = rng.integers(0, 16, groups_of).astype(np.uint8)
    zeros[0, 0], zeros[1, 0] = 0, 15
    parts = {
        "codes": rng.integers(0, 16, shape).astype(np.uint8),
        "scale": (rng.uniform(0.5, 2, groups_of) * 0.01).astype(np.float16),
        "zero_point": zeros,
    }
    return QuantTensor(scheme, shape, parts)


def _symmetric_only() -> Iterator[tuple[str, Key]]:
    yield from (ARGS | {"symmetric": Key("bool", default=True, only=(True,))}).items()


@pytest.mark.parametrize("granularity", [group(128), CHANNEL], ids=str)
@pytest.mark.parametrize("model", ["dense", "experts"])
@guarded(
    "fewbit.formats.compressed_tensors.config:ARGS",
    dict(_symmetric_only()),
    "'symmetric' is False, which is not supported",
)
def test_asymmetric_four_bits_are_read(tmp_path: Path, model: str, granularity: Any) -> None:
    scheme = Scheme(U4, granularity, F16, zero_point=U4)
    config, weights = tiny_dense() if model == "dense" else (EXPERTS_CONFIG, mixture())
    meant: dict[str, QuantTensor] = {}

    def of(name: str) -> Any:
        if "proj" not in name:
            return None
        meant[name] = asymmetric(weights[name].shape, scheme)
        return scheme, lambda tensor: compressed.encode(meant[name])

    stored = store(tmp_path / "m", config, weights, of, compressed.config_of(scheme))
    assert_weights(tmp_path / "m", {**stored, **meant})
    if model == "dense":
        assert_logits(tmp_path / "m", config, {**stored, **meant})


def test_what_the_map_of_names_gives_is_written_out() -> None:
    """Renaming is by whole parts of a name: `mlp.w1norm` is no `w1`."""
    names = Names(
        prefixes=(("language_model.model.", "model."),), segments=(("w1", "gate_proj"), ("moe", "mlp"))
    )
    assert (
        names.canonical("language_model.model.layers.0.moe.experts.3.w1.weight")
        == "model.layers.0.mlp.experts.3.gate_proj.weight"
    )
    assert names.canonical("model.layers.0.moex.w1norm.weight") == "model.layers.0.moex.w1norm.weight"
    assert "language_model.model.a.moe.w1" in names.spellings("model.a.mlp.gate_proj")
