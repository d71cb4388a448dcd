"""Nothing is lost between checkpoint and model: missing, left-over and misshapen tensors are named, before any is read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fewbit.formats import open_checkpoint
from fewbit.kernels.backend import Backend
from fewbit.kernels.selector import Selector
from fewbit.loader import LoadOptions, load_model, prepare
from fewbit.loader.memory import Capacity, MemoryNeed, MemoryRefused, check_memory, kv_bytes_per_page
from fewbit.loader.report import Report
from fewbit.platforms.linux.memory import Memory
from fewbit.schemes import SCHEMES
from fewbit.schemes.reference import quantize
from fewbit.spec.cell import Platform
from fewbit.spec.refusal import CheckpointError, RefusedError
from fewbit.spec.scheme import QuantTensor
from tests.formats.gguf.fixture import tiny_gguf_parts, write_gguf
from tests.models.tiny import PLAIN, ArrayCheckpoint, Driver, plain_llama, runner_of


def vector(size: int) -> object:
    return quantize(np.ones(size, np.float32), PLAIN)


def refusal(checkpoint: ArrayCheckpoint, reference: Backend) -> str:
    with pytest.raises(CheckpointError) as error:
        load_model(checkpoint, reference)
    return str(error.value)


def test_a_missing_tensor_is_named(reference: Backend) -> None:
    checkpoint = plain_llama()
    del checkpoint.held["model.layers.1.mlp.up_proj.weight"]
    assert "the config demands tensors that are missing: model.layers.1.mlp.up_proj.weight" in refusal(
        checkpoint, reference
    )


def test_a_left_over_tensor_is_named(reference: Backend) -> None:
    checkpoint = plain_llama()
    checkpoint.held["model.layers.0.self_attn.q_proj.bias"] = vector(64)
    checkpoint.config["attention_bias"] = False
    checkpoint.held["model.layers.7.input_layernorm.weight"] = vector(64)
    text = refusal(checkpoint, reference)
    assert "nothing in this architecture takes: model.layers.0.self_attn.q_proj.bias, model.layers.7" in text


def test_a_wrong_shape_is_named_with_the_right_one(reference: Backend) -> None:
    checkpoint = plain_llama()
    checkpoint.config["intermediate_size"] = 128
    text = refusal(checkpoint, reference)
    assert (
        "model.layers.0.mlp.gate_proj.weight is [96, 64], expected [128, 64]" in text and "and 1 more" in text
    )


def test_a_quantized_norm_is_refused(reference: Backend) -> None:
    checkpoint = plain_llama()
    name = "model.norm.weight"
    checkpoint.held[name] = quantize(np.ones((1, 64), np.float32), SCHEMES["i8g32"])
    text = refusal(checkpoint, reference)
    assert "model.norm.weight is i8g32" in text and "model.norm.weight is [1, 64], expected [64]" in text


def test_explained_tensors_are_reported(reference: Backend) -> None:
    checkpoint = plain_llama(tied=True)
    checkpoint.held["lm_head.weight"] = checkpoint.held["model.embed_tokens.weight"]
    checkpoint.held["model.layers.0.self_attn.rotary_emb.inv_freq"] = vector(8)
    report = load_model(checkpoint, reference).report
    assert report.explained == {
        "lm_head.weight": "the config ties it to the embedding",
        "model.layers.0.self_attn.rotary_emb.inv_freq": "computed from rope_theta",
    }
    assert set(report.consumed) | set(report.explained) == set(checkpoint.held)


def test_the_report_finds_what_loading_left_out(reference: Backend) -> None:
    checkpoint = plain_llama()
    loaded = load_model(checkpoint, reference)
    consumed = dict(loaded.report.consumed)
    del consumed["model.norm.weight"]
    with pytest.raises(
        CheckpointError, match=r"unfilled \[model.norm.weight\], tensors unread \[model.norm.weight\]"
    ):
        Report.of(loaded.prepared.spec, checkpoint, consumed, {})
    consumed = dict(loaded.report.consumed) | {"model.norm.weight": SCHEMES["bf16"]}
    with pytest.raises(CheckpointError, match=r"took another scheme \[model.norm.weight\]"):
        Report.of(loaded.prepared.spec, checkpoint, consumed, {})


def test_an_unserved_scheme_names_the_tensors() -> None:
    """On a platform without the reference, a scheme that no kernel declares is a refusal, never a fall back."""
    nothing = Selector(Platform("bare", frozenset()), "triton")
    with pytest.raises(
        RefusedError, match=r"model.layers.0.self_attn.q_proj.weight, model.layers.0.self_attn.k_proj"
    ):
        prepare(plain_llama(), nothing)


def test_schemes_that_differ_inside_a_projection_stay_side_by_side(reference: Backend) -> None:
    """q and k in 4 bits, v in 8, gate in 4, up in 5, layer 1 unquantized: the logits are those of the same plain weights."""
    part_schemes = {
        "layers.0.self_attn.q": "u4g32o", "layers.0.self_attn.k": "u4g32o", "layers.0.self_attn.v": "i8g32",
        "layers.0.mlp.gate": "i4g32", "layers.0.mlp.up": "u5g32o", "layers.0.mlp.down": "i8g32",
    }  # fmt: skip
    mixed = plain_llama({part: SCHEMES[name] for part, name in part_schemes.items()}, bias=True)
    prepared = prepare(mixed, reference.selector)
    blocks = {m.spec.name: [(b.scheme.name, b.n) for b in m.blocks] for m in prepared.linears}
    assert blocks["model.layers.0.self_attn.qkv_proj"] == [("u4g32o", 96), ("i8g32", 32)]
    assert blocks["model.layers.0.mlp.gate_up_proj"] == [("i4g32", 96), ("u5g32o", 96)]
    assert blocks["model.layers.1.self_attn.qkv_proj"] == [("f32", 128)]

    plain = mixed.dequantized()
    tokens = {0: list(range(20)), 1: [3]}
    ours = Driver(runner_of(mixed, reference)).logits(tokens)
    expected = Driver(runner_of(plain, reference)).logits(tokens)
    for a, b in zip(ours, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-5 * np.abs(b).max())


def test_progress_ends_at_the_total(reference: Backend) -> None:
    seen: list[tuple[int, int]] = []
    checkpoint = plain_llama()
    load_model(checkpoint, reference, LoadOptions(progress=lambda done, total: seen.append((done, total))))
    total = sum(info.bytes_on_disk for info in checkpoint.tensors.values())
    assert (
        seen[-1] == (total, total) and [d for d, _ in seen] == sorted(d for d, _ in seen) and len(seen) > 10
    )


def test_the_sum_is_refused_before_loading() -> None:
    need = MemoryNeed(weights=3 << 30, cache=2 << 30, working=1 << 30)
    check_memory(need, Memory(16 << 30, 8 << 30, "machine"))
    with pytest.raises(MemoryRefused) as error:
        check_memory(need, Memory(16 << 30, 6 << 30, "control group"))
    assert "weights 3 GiB, keys and values 2 GiB, working memory 1.09 GiB: together 6.09 GiB" in str(
        error.value
    )
    assert "the control group has 6 GiB left" in str(error.value)


def test_the_sum_is_what_a_runner_allocates(reference: Backend) -> None:
    capacity = Capacity(max_rows=64, max_sequences=8, pages=32, max_pages_per_sequence=6)
    checkpoint = plain_llama()
    loaded = load_model(checkpoint, reference, LoadOptions(capacity=capacity))
    runner = runner_of(checkpoint, reference)
    assert kv_bytes_per_page(loaded.prepared.shape) == runner.kv_bytes_per_page == 2 * 2 * 32 * 32 * 2
    assert loaded.need.cache == 32 * runner.kv_bytes_per_page
    working = sum(buffer.handle.nbytes for buffer in runner.buffers() if buffer.dtype.name == "f32")
    assert abs(working - loaded.need.working) < 4096  # the sampling parameters are not counted


class Unread(ArrayCheckpoint):
    def read(self, name: str, start: int = 0, stop: int | None = None) -> QuantTensor:
        raise AssertionError(f"{name} was read")


def test_nothing_is_read_before_the_model_is_known_to_fit(
    reference: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = plain_llama()
    checkpoint = Unread(whole.model_type, whole.config, whole.held)
    monkeypatch.setattr("fewbit.loader.read_memory", lambda: Memory(1 << 30, 90 << 20, "control group"))
    with pytest.raises(MemoryRefused, match="the model does not fit: weights 321 KiB"):
        load_model(checkpoint, reference)


def test_a_nan_scale_is_refused_with_its_tensor(tmp_path: Path, reference: Backend) -> None:
    metadata, tensors = tiny_gguf_parts("u4g32o")
    tensor = tensors["blk.1.ffn_up.weight"]
    assert isinstance(tensor, QuantTensor)
    tensor.parts["scale"][5, 1] = np.nan
    checkpoint = open_checkpoint(write_gguf(tmp_path / "nan.gguf", metadata, tensors))
    with pytest.raises(CheckpointError, match=r"tensor 'blk.1.ffn_up.weight' has a NaN scale at row 5"):
        load_model(checkpoint, reference)
