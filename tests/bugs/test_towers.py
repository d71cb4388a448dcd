"""Towers of images and sound: biases that one projection lacks, activations of three axes, codes of odd shapes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fewbit.formats.bitsandbytes import encode as bitsandbytes
from fewbit.formats.bitsandbytes.resolve import STATE
from fewbit.formats.compressed_tensors import encode as compressed
from fewbit.formats.folder.resolve import split_name
from fewbit.formats.folder.writer import DiskArray, as_disk, write_json
from fewbit.formats.gguf.config import read_config
from fewbit.kernels.backend import open_backend
from fewbit.kernels.ops.recorder import Ops
from fewbit.kernels.selector import Selector
from fewbit.layers.linear import Linear, LinearBlock
from fewbit.loader import prepare
from fewbit.loader.open import open_model
from fewbit.platforms.known import KNOWN
from fewbit.platforms.x86.detect import detect
from fewbit.schemes import SCHEMES
from fewbit.schemes.plain.scheme import BF16
from fewbit.schemes.reference import dequantize, quantize
from fewbit.spec.cell import Cell, Choice
from fewbit.spec.dtype import E2M1, E4M3, F16, F32, I4, I8, I32
from fewbit.spec.granularity import CHANNEL, TENSOR, group
from fewbit.spec.refusal import CheckpointError, RefusedError
from fewbit.spec.scheme import QuantTensor, Scheme
from tests.bugs.guard import guarded
from tests.bugs.model import REFERENCE, logits, spread
from tests.formats.bitsandbytes.fixture import nest, tiny_bitsandbytes, tiny_tensor
from tests.formats.gguf.fixture import tiny_gguf_parts, write_gguf
from tests.formats.plain.fixture import tiny_folder
from tests.formats.wrapped import wrap
from tests.models.tiny import PLAIN, ArrayCheckpoint, plain_llama

INT4, INT8, FP8 = Scheme(I4, group(32), F16), Scheme(I8, CHANNEL, F32), Scheme(E4M3, TENSOR, F32)
NVFP4 = Scheme(E2M1, group(16), E4M3, global_scale=F32)

# ---- a projection without a bias among others that have one


def without_key_bias(scheme: Scheme) -> tuple[ArrayCheckpoint, ArrayCheckpoint]:
    """A model whose k_proj has no bias, and the same with one of zeros."""
    whole = plain_llama({"proj": scheme}, bias=True)
    for name in [n for n in whole.held if "k_proj.bias" in n]:
        whole.held[name] = quantize(np.zeros(whole.held[name].shape, np.float32), PLAIN)
    held = {n: t for n, t in whole.held.items() if "k_proj.bias" not in n}
    config = {k: v for k, v in whole.config.items() if k != "attention_bias"}
    return ArrayCheckpoint("llama", config, held), whole


def _of_the_others(self: Any, block: Any) -> Any:
    """A bias for k made of q's, cut to the packed width."""
    if not any(block.biases):
        return None
    values = [
        self._floats(b) if b else np.ones(w.shape[0], np.float32)
        for w, b in zip(block.weights, block.biases, strict=True)
    ]
    return self.backend.upload(np.concatenate(values), F32)


@pytest.mark.parametrize("scheme", [INT4, INT8, FP8], ids=str)
@guarded("fewbit.loader.stream:Stream._bias", _of_the_others)
def test_a_missing_bias_is_zeros_of_the_logical_rows(scheme: Scheme) -> None:
    bare, whole = without_key_bias(scheme)
    method = next(m for m in prepare(bare, REFERENCE.selector).linears if m.spec.kind == "qkv")
    assert len(method.blocks) == 1 and [b is not None for b in method.blocks[0].biases] == [True, False, True]
    assert np.array_equal(logits(bare), logits(whole))


def _by_the_first(*args: Any) -> Any:
    config = read_config(*args)
    return {**config, "attention_bias": True}


@guarded(
    "fewbit.formats.gguf.checkpoint:read_config",
    _by_the_first,
    r"demands tensors that are missing.*k_proj\.bias",
)
def test_a_file_without_the_key_bias_opens(tmp_path: Path) -> None:
    metadata, tensors = tiny_gguf_parts("u4g32o", attention_bias=True)
    whole = open_model(write_gguf(tmp_path / "whole.gguf", metadata, tensors))
    kept = {n: t for n, t in tensors.items() if not n.endswith("attn_k.bias")}
    checkpoint = open_model(write_gguf(tmp_path / "m.gguf", metadata, kept))
    prepare(checkpoint, REFERENCE.selector)
    assert not np.array_equal(logits(checkpoint), logits(whole))


# ---- activations of any leading axes


def run(linear: Linear, x: np.ndarray, backend: Any = REFERENCE) -> np.ndarray:
    """y of all rows, in the shape that x has but for the last axis."""
    rows = int(np.prod(x.shape[:-1]))
    source, count = backend.upload(x.astype(np.float32), F32), backend.upload(np.array([rows], np.int32), I32)
    out = backend.empty((*x.shape[:-1], linear.n), F32)
    ops = Ops(backend.selector, rows)
    linear.record(ops, source, out, count)
    backend.compile(ops.plan()).run()
    return np.array(backend.array(out))


def made(tensor: QuantTensor, backend: Any = REFERENCE) -> Linear:
    """One matrix on a backend; RefusedError where no kernel serves it."""
    n, k = tensor.shape
    scale = tensor.scheme.scale.name if tensor.scheme.scale else ""
    cell = Cell("linear", tensor.scheme.name, scale, sizes=(("n", n), ("k", k)))
    choice = backend.selector.ask(cell)
    if not isinstance(choice, Choice):
        raise RefusedError("linear", choice)
    packer = backend.packer(backend.layout(choice.layout, tensor.scheme), n, k)
    packer.write(0, tensor)
    return Linear((LinearBlock(packer.finish(), None, choice),))


@pytest.mark.parametrize("shape", [(6, 64), (2, 3, 64), (2, 1, 3, 64)], ids=str)
@guarded("fewbit.spec.buffer:Buffer.as_rows", lambda self: self)
def test_a_quantized_linear_takes_any_leading_axes(shape: tuple[int, ...]) -> None:
    tensor = quantize(spread((48, 64)), INT8)
    x = np.random.default_rng(1).standard_normal((6, 64)).astype(np.float32)
    for axes in (shape, (2, 3, 64)):
        y = run(made(tensor), x.reshape(axes))
        assert y.shape == (*axes[:-1], 48)
        np.testing.assert_allclose(y.reshape(6, 48), x @ dequantize(tensor).T, rtol=1e-5, atol=1e-5)


def test_columns_cut_out_between_axes_are_refused() -> None:
    whole = REFERENCE.upload(np.zeros((4, 96), np.float32), F32)
    odd = type(whole)(whole.dtype, (2, 2, 32), (192, 32, 1), whole.handle)
    with pytest.raises(ValueError, match="has no even rows"):
        odd.as_rows()


# ---- 4-bit towers of bitsandbytes


def vision(double: bool) -> tuple[dict[str, DiskArray], dict[str, QuantTensor]]:
    stored: dict[str, DiskArray] = {}
    meant: dict[str, QuantTensor] = {}
    for seed, (name, shape) in enumerate(
        {"attn.qkv": (96, 64), "mlp.gate_proj": (80, 64), "mlp.fc2": (64, 96)}.items()
    ):
        at = f"visual.blocks.0.{name}"
        meant[f"{at}.weight"] = tiny_tensor(spread(shape, seed), "nf4")
        leaves = bitsandbytes.encode(meant[f"{at}.weight"])
        leaves = nest(leaves, f"{STATE}nf4") if double else leaves
        stored |= {f"{at}.{leaf}": array for leaf, array in leaves.items()}
    return stored, meant


@pytest.mark.parametrize("double", [False, True], ids=["scales as they are", "scales quantized"])
@guarded(
    "fewbit.formats.bitsandbytes.resolve:BitsAndBytesResolver.split", lambda self, name: split_name(name)
)
def test_a_vision_tower_in_four_bits_is_read_like_the_text_model(tmp_path: Path, double: bool) -> None:
    folder = tiny_bitsandbytes(tmp_path / "m", "nf4", double=double, seed=2)
    plain = logits(open_model(folder))
    stored, meant = vision(double)
    wrap(folder, "qwen2_5_vl", {}, stored)
    config = json.loads((folder / "config.json").read_text())
    config["text_config"]["model_type"] = "llama"
    write_json(folder / "config.json", config)
    checkpoint = open_model(folder)
    assert np.array_equal(logits(checkpoint), plain)
    for name, tensor in meant.items():
        info = checkpoint.tensors[name]
        assert (info.component, info.scheme.name, info.shape) == ("vision tower", "u4g32c", tensor.shape)
        if not double:
            assert np.array_equal(dequantize(checkpoint.read(name)), dequantize(tensor))


def test_a_tower_that_the_config_skips(tmp_path: Path) -> None:
    """Plain as it says; in four bits although it says so, it is a contradiction that is named."""
    skipping = {"llm_int8_skip_modules": ["visual", "lm_head"]}
    folder = tiny_bitsandbytes(tmp_path / "m", "nf4", keys=skipping)
    wrap(
        folder, "llava", tower={"visual.blocks.0.attn.qkv.weight": as_disk(quantize(spread((96, 64)), BF16))}
    )
    checkpoint: Any = open_model(folder)
    assert "visual" in checkpoint.unquantized["visual.blocks.0.attn.qkv"]
    folder = wrap(tiny_bitsandbytes(tmp_path / "n", "nf4", keys=skipping), "llava", tower=vision(False)[0])
    with pytest.raises(CheckpointError, match=r"module 'visual\.blocks\.0\.attn\.qkv'.*visual"):
        open_model(folder)


# ---- shapes that no tile divides

ODD = [
    (Scheme(I4, group(128), F16), 4304, 1152), (INT4, 4304, 1152), (FP8, 4304, 1152), (NVFP4, 4304, 1152),
    (INT8, 80, 72), (Scheme(I4, group(24), F16), 80, 72), (FP8, 80, 72), (SCHEMES["i8g32"], 4304, 1152), (SCHEMES["bf16"], 80, 72),
]  # fmt: skip


@pytest.mark.parametrize(("scheme", "n", "k"), ODD, ids=str)
@pytest.mark.parametrize("backend", ["reference", "cpu"])
def test_an_odd_shape_is_computed_or_refused_by_name(backend: str, scheme: Scheme, n: int, k: int) -> None:
    """4304 is no multiple of 32 or 64: padding serves it. Whatever is refused says which axis and what is on offer."""
    on = open_backend(backend, detect())
    tensor = quantize(spread((n, k)), scheme)
    try:
        linear = made(tensor, on)
    except RefusedError as refused:
        assert backend == "cpu"
        assert all(r.axis in ("scheme", "n", "k", "scale") and r.asked in str(r) for r in refused.refusals)
        return
    x = np.random.default_rng(2).standard_normal((5, k)).astype(np.float32)
    y, expected = run(linear, x, on), x @ dequantize(tensor).T
    assert np.abs(y - expected).max() < 2e-2 * np.abs(expected).max() and y.shape == (5, n)


def test_every_platform_answers_for_odd_shapes_with_a_kernel_or_a_reason() -> None:
    for platform in KNOWN.values():
        for scheme, n, k in ODD:
            scale = scheme.scale.name if scheme.scale else ""
            answer = Selector(platform).ask(Cell("linear", scheme.name, scale, sizes=(("n", n), ("k", k))))
            assert isinstance(answer, Choice) or all(str(refusal) for refusal in answer)


def test_plain_vision_layers_load_though_the_config_does_not_exclude_them(tmp_path: Path) -> None:
    tower = {
        "visual.blocks.0.fc1.weight": as_disk(quantize(spread((4304, 16)), BF16)),
        "visual.blocks.0.fc1.bias": as_disk(quantize(np.zeros(4304, np.float32), BF16)),
        "visual.patch.weight": as_disk(
            QuantTensor(Scheme(F16), (4, 3, 2, 2), {"codes": np.zeros((4, 3, 2, 2), np.float16)})
        ),
    }
    folder = wrap(tiny_folder(tmp_path / "m"), tower=tower)
    config = json.loads((folder / "config.json").read_text())
    declared = compressed.config_of(INT4, ignore=[])
    write_json(folder / "config.json", {**config, "quantization_config": declared})
    checkpoint: Any = open_model(folder)
    assert checkpoint.unquantized["visual.blocks.0.fc1"] == "it is stored as a plain float"
    prepared = prepare(checkpoint, REFERENCE.selector)
    assert prepared.explained.keys() == tower.keys()


@guarded("fewbit.loader.report:NOT_SERVED", "", "not served")
def test_a_quantized_vision_layer_is_accounted_for(tmp_path: Path) -> None:
    """The tower is read by the format (types, shapes, rule), and explained as not served: never left out in silence."""
    fc2 = compressed.encode(quantize(spread((4304, 1152)), Scheme(I4, group(128), F16)))
    folder = wrap(
        tiny_folder(tmp_path / "m"), tower={f"visual.blocks.0.fc2.{leaf}": a for leaf, a in fc2.items()}
    )
    config = json.loads((folder / "config.json").read_text())
    declared = compressed.config_of(Scheme(I4, group(128), F16), ignore=["re:.*language_model.*"])
    write_json(folder / "config.json", {**config, "quantization_config": declared})
    checkpoint = open_model(folder)
    info = checkpoint.tensors["visual.blocks.0.fc2.weight"]
    assert (info.scheme.name, info.shape, info.component) == ("i4g128", (4304, 1152), "vision tower")
    assert info.rule.startswith("config group 'group_0'")
    explained = prepare(checkpoint, REFERENCE.selector).explained
    assert explained == {
        "visual.blocks.0.fc2.weight": "vision tower: not served by this family, which takes text alone"
    }
