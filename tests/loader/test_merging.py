"""A merged projection holds the numbers of its members to the bit; what cannot share a matrix stays apart, and says why."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fewbit.formats import open_checkpoint
from fewbit.kernels import storage
from fewbit.kernels.backend import Backend
from fewbit.kernels.selector import Selector
from fewbit.layers.method import choose_linear
from fewbit.loader import load_model, prepare
from fewbit.models import family
from fewbit.schemes import stack
from fewbit.schemes.reference import dequantize, quantize
from fewbit.spec.cell import Cell, Choice
from fewbit.spec.dtype import E2M1, E4M3, F32, I8
from fewbit.spec.granularity import CHANNEL, TENSOR, block, group
from fewbit.spec.refusal import Refusal
from fewbit.spec.scheme import QuantTensor, Scheme
from tests.formats.altered import beside, put
from tests.formats.modelopt.fixture import tiny_modelopt
from tests.models.tiny import ArrayCheckpoint, plain_llama

NVFP4 = Scheme(E2M1, group(16), E4M3, global_scale=F32)
FP8 = Scheme(E4M3, TENSOR, F32)


def spread(checkpoint: ArrayCheckpoint, scheme: Scheme) -> ArrayCheckpoint:
    """Members of a projection get magnitudes from 0.1 to 10, so that a shared scale would show."""
    for index, name in enumerate(n for n in checkpoint.held if "proj" in n):
        values = dequantize(checkpoint.held[name]) * np.float32(10.0 ** (index % 3 - 1))
        checkpoint.held[name] = quantize(values, scheme)
    return checkpoint


def packed(checkpoint: ArrayCheckpoint, backend: Backend) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """The matrices of layer 0's qkv and of its gate and up, as the model holds them."""
    layer = load_model(checkpoint, backend).model._layers[0]  # type: ignore[attr-defined]
    qkv, gate_up = (
        [storage.view(block.weight.data) for block in linear.blocks]
        for linear in (layer.attention.qkv, layer.mlp.gate_up)
    )
    return qkv, gate_up


def members(checkpoint: ArrayCheckpoint, at: str, *names: str) -> np.ndarray:
    return np.concatenate([dequantize(checkpoint.held[f"{at}.{name}.weight"]) for name in names])


MERGED = [FP8, Scheme(I8, TENSOR, F32), NVFP4, Scheme(E4M3, CHANNEL, F32), Scheme(E4M3, block(16, 32), F32)]


@pytest.mark.parametrize("scheme", MERGED, ids=str)
def test_merged_weights_are_those_of_each_member(scheme: Scheme, reference: Backend) -> None:
    checkpoint = spread(plain_llama(), scheme)
    qkv, gate_up = packed(checkpoint, reference)
    assert len(qkv) == len(gate_up) == 1
    expected = members(checkpoint, "model.layers.0.self_attn", "q_proj", "k_proj", "v_proj")
    assert np.array_equal(qkv[0].view(np.uint32), expected.view(np.uint32))
    expected = members(checkpoint, "model.layers.0.mlp", "gate_proj", "up_proj")
    assert np.array_equal(gate_up[0].view(np.uint32), expected.view(np.uint32))


@pytest.mark.parametrize("scheme", [FP8, NVFP4], ids=str)
def test_the_larger_of_two_scales_would_be_caught(
    scheme: Scheme, reference: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The comparison above fails where a merged projection takes one scale for all."""
    as_rows = stack.as_rows

    def with_the_largest(tensor: QuantTensor, to: Scheme) -> QuantTensor:
        found = as_rows(tensor, to)
        if tensor.scheme == to:
            return found
        role = "super_scale" if "super_scale" in found.parts else "scale"
        return QuantTensor(to, found.shape, {**found.parts, role: np.full_like(found.parts[role], 10.0)})

    monkeypatch.setattr(stack, "as_rows", with_the_largest)
    checkpoint = spread(plain_llama(), scheme)
    qkv, _ = packed(checkpoint, reference)
    expected = members(checkpoint, "model.layers.0.self_attn", "q_proj", "k_proj", "v_proj")
    assert not np.array_equal(qkv[0], expected)


def test_blocks_that_a_member_cuts_stay_apart(reference: Backend) -> None:
    checkpoint = spread(plain_llama(inner=104), replace(FP8, granularity=block(16, 4)))
    method = next(m for m in prepare(checkpoint, reference.selector).linears if m.spec.kind == "gate_up")
    assert [b.n for b in method.blocks] == [104, 104]
    assert method.apart == (
        "gate_proj and up_proj stay apart: 104 rows are no multiple of the 16 that share a scale",
    )


def test_the_same_codes_with_another_type_of_scale_stay_apart(reference: Backend) -> None:
    checkpoint = plain_llama({"gate_proj": NVFP4, "up_proj": replace(NVFP4, global_scale=None)})
    method = next(m for m in prepare(checkpoint, reference.selector).linears if m.spec.kind == "gate_up")
    assert [b.scheme.name for b in method.blocks] == ["e2m1g16s", "e2m1g16"]
    assert "e2m1g16s (scales e4m3) and e2m1g16 (scales e4m3)" in method.apart[0]


@pytest.mark.parametrize(
    ("scales", "blocks"), [((0.5, 0.5, 0.5), [1]), ((0.5, 0.5, 0.25), [2]), ((0.5, 0.25, 0.5), [3])], ids=str
)
def test_members_with_different_static_input_scales_stay_apart(
    tmp_path: Path, reference: Backend, scales: tuple[float, ...], blocks: list[int]
) -> None:
    folder = tiny_modelopt(tmp_path / "m", FP8, num_hidden_layers=1)
    beside(folder, "input_scale", "F32", np.float32(1))
    for name, value in zip(("q_proj", "k_proj", "v_proj"), scales, strict=True):
        put(f"model.layers.0.self_attn.{name}.input_scale", "F32", np.float32(value))(folder)
    prepared = prepare(open_checkpoint(folder), reference.selector)
    qkv = next(m for m in prepared.linears if m.spec.kind == "qkv")
    assert [len(qkv.blocks)] == blocks
    assert ("different static scales" in " ".join(qkv.apart)) == (blocks != [1])


class WithoutRows(Selector):
    """Serves every scheme but the one that per-tensor scales become."""

    def ask(self, cell: Cell) -> Choice | tuple[Refusal, ...]:
        if cell.scheme == "e4m3channel":
            return (Refusal("scheme", cell.scheme, ("e4m3tensor",)),)
        return super().ask(cell)


def test_a_merged_scheme_without_a_kernel_stays_apart(reference: Backend) -> None:
    checkpoint = spread(plain_llama(), FP8)
    module = family(checkpoint.model_type)
    spec = module.describe(module.parse("llama", checkpoint.config, checkpoint.tensors))
    qkv = next(linear for linear in spec.linears if linear.kind == "qkv")
    method = choose_linear(qkv, checkpoint, WithoutRows(reference.selector.platform, "reference"))
    assert [b.scheme.name for b in method.blocks] == ["e4m3tensor"] * 3
    assert method.apart == (
        "q_proj, k_proj, v_proj stay apart: together they are e4m3channel, and scheme e4m3channel is not supported (offered: e4m3tensor)",
    )
