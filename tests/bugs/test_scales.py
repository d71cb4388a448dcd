"""A scale means what its format says: bytes of two kinds of FP8, divisors beside multipliers, small scales beside text of all scripts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fewbit.convert.rewrite import rewrite
from fewbit.formats.compressed_tensors import encode as compressed
from fewbit.formats.folder import safetensors
from fewbit.formats.folder.parts import Shared
from fewbit.formats.fp8 import encode as fp8
from fewbit.formats.modelopt import encode as modelopt
from fewbit.kernels.selector import Selector
from fewbit.loader.open import open_model
from fewbit.schemes.floats.table import values
from fewbit.schemes.reference import dequantize
from fewbit.spec.cell import Cell, Platform
from fewbit.spec.dtype import E2M1, E4M3, E4M3FNUZ, E8M0, F32
from fewbit.spec.granularity import CHANNEL, block, group
from fewbit.spec.refusal import CheckpointError
from fewbit.spec.scheme import QuantTensor, Scheme
from fewbit.tokenizer.tokenizer import Tokenizer
from tests.bugs.guard import guarded
from tests.bugs.model import REFERENCE, store, tiny_dense
from tests.formats.altered import put
from tests.formats.compressed_tensors.fixture import tiny_tensor
from tests.models.tiny import ArrayCheckpoint, Driver, runner_of

# ---- one byte, two values

NAME = "model.layers.0.mlp.down_proj.weight"
FN, FNUZ = Scheme(E4M3, CHANNEL, F32), Scheme(E4M3FNUZ, CHANNEL, F32)
SHARED_BYTES = np.array(
    [code for code in range(256) if code not in (0x7F, 0x80, 0xFF)], np.uint8
)  # numbers in both


def eights(scheme: Scheme, codes: np.ndarray, scale: float) -> QuantTensor:
    return QuantTensor(
        scheme, codes.shape, {"codes": codes, "scale": np.full((len(codes), 1), scale, np.float32)}
    )


def one_module(folder: Path, tensor: QuantTensor) -> Any:
    """A folder of one FP8 module."""
    weights = {
        "model.embed_tokens.weight": np.ones((16, 16), np.float32),
        NAME: np.ones(tensor.shape, np.float32),
    }
    config = {"model_type": "qwen3_moe", "vocab_size": 16}

    def of(name: str) -> Any:
        return (FN, lambda _: fp8.encode(tensor)) if name == NAME else None

    store(folder, config, weights, of, fp8.config_of(tensor.scheme))
    return open_model(folder)


@guarded("fewbit.formats.folder.safetensors:DTYPES", safetensors.DTYPES | {"F8_E4M3FNUZ": E4M3})
def test_the_same_byte_is_half_as_much_in_the_other_kind(tmp_path: Path) -> None:
    """The type is part of the tensor: 0x7E is 448 and 224, so a scale twice as large gives the same weights."""
    codes = np.stack([SHARED_BYTES] * 2)
    first = one_module(tmp_path / "fn", eights(FN, codes, 0.5))
    second = one_module(tmp_path / "fnuz", eights(FNUZ, codes, 1.0))
    assert second.tensors[NAME].scheme.codes.name == "e4m3fnuz"
    ours, theirs = (dequantize(c.read(NAME)) for c in (first, second))
    assert (
        np.array_equal(ours, theirs)
        and ours[0, SHARED_BYTES == 0x7E] == 224
        and ours[0, SHARED_BYTES == 1] == 2.0**-10
    )
    again = dequantize(second.read(NAME))
    assert np.array_equal(again, theirs)  # a second reading doubles nothing


def test_0x80_is_minus_zero_in_one_and_no_number_in_the_other(tmp_path: Path) -> None:
    codes = np.full((2, 16), 0x80, np.uint8)
    weight = dequantize(one_module(tmp_path / "fn", eights(FN, codes, 1.0)).read(NAME))
    assert (weight == 0).all() and np.signbit(weight).all()
    with pytest.raises(CheckpointError, match=r"e4m3fnuz code 0x80.*no finite number"):
        one_module(tmp_path / "fnuz", eights(FNUZ, codes, 1.0)).read(NAME)


@guarded("fewbit.convert.rewrite:_float_codes", lambda numbers, to: replace(numbers, element=to.codes))
def test_converting_one_into_the_other_is_done_once(tmp_path: Path) -> None:
    before = eights(FNUZ, np.stack([SHARED_BYTES] * 2), 3.0)
    after = rewrite(before, FN)
    assert np.array_equal(dequantize(after), values("e4m3fnuz")[before.parts["codes"]] * np.float32(3))
    assert np.array_equal(dequantize(rewrite(after, FN)), dequantize(after))


def test_scales_that_are_powers_of_two_in_a_byte(tmp_path: Path) -> None:
    """e8m0 by blocks: a byte up is a factor of two, with no multiplication of that type."""
    scheme = Scheme(E4M3, block(16, 16), E8M0)
    codes = np.tile(SHARED_BYTES[:64], (32, 1))
    scale = np.array([[120, 127, 130, 121], [127, 128, 126, 100]], np.uint8)
    checkpoint = one_module(tmp_path / "m", QuantTensor(scheme, (32, 64), {"codes": codes, "scale": scale}))
    expected = values("e4m3")[codes] * np.repeat(
        np.repeat(2.0 ** (scale.astype(np.float32) - 127), 16, 0), 16, 1
    )
    assert np.array_equal(dequantize(checkpoint.read(NAME)), expected.astype(np.float32))


# ---- one model, two exports

NVFP4 = Scheme(E2M1, group(16), E4M3, global_scale=F32)
TEXT = (
    "안녕하세요. 오늘은 날씨가 좋습니다. 서울에서 부산까지 기차로 두 시간 반이 걸립니다. "
    "สวัสดีครับ วันนี้อากาศดีมาก เราไปตลาดกันเถอะ 🌧️🚆🎉 Привет, мир — straße, naïve, 東京。"
)


def export(folder: Path, form: str) -> tuple[dict[str, Any], dict[str, QuantTensor]]:
    """The same codes and scales, the global scale as a multiplier or as its reciprocal (a power of two: both are exact)."""
    config, weights = tiny_dense()
    tensors = {n: tiny_tensor(w, NVFP4) for n, w in weights.items() if "proj" in n and w.ndim == 2}
    encode = modelopt.encode if form == "modelopt" else compressed.encode
    made = modelopt.config_of(NVFP4) if form == "modelopt" else compressed.config_of(NVFP4)
    names = iter(tensors)

    def of(name: str) -> Any:
        return (NVFP4, lambda _, own=name: encode(tensors[own])) if name in tensors else None

    meant = store(folder, config, weights, of, made)
    inputs = ("input_scale", 0.5, ()) if form == "modelopt" else ("input_global_scale", 2.0, (1,))
    if form == "modelopt":
        for name in names:
            put(f"{name.removesuffix('weight')}{inputs[0]}", "F32", np.float32(inputs[1]).reshape(inputs[2]))(
                folder
            )
    return config, meant | tensors


def text_logits(checkpoint: Any, tokens: list[int]) -> np.ndarray:
    pages = -(-len(tokens) // 32)
    runner = runner_of(
        checkpoint, REFERENCE, F32, max_rows=len(tokens), pages=pages + 1, max_pages_per_sequence=pages
    )
    return Driver(runner, pages).logits({0: tokens})[0]


@guarded("fewbit.formats.compressed_tensors.weights:Reciprocal", lambda tensor: Shared(tensor, (1,)))
def test_two_exports_of_one_model_write_the_same_text(tmp_path: Path) -> None:
    """More than 300 tokens of Korean, Thai, Cyrillic and emoji: equal logits, which are those of the dequantized weights."""
    config, meant = export(tmp_path / "modelopt", "modelopt")
    export(tmp_path / "compressed-tensors", "compressed-tensors")
    checkpoints = {form: open_model(tmp_path / form) for form in ("modelopt", "compressed-tensors")}
    files = checkpoints["modelopt"].tokenizer
    assert files is not None
    tokens = Tokenizer(files).encode(TEXT)
    assert len(tokens) > 300
    found = {form: text_logits(checkpoint, tokens) for form, checkpoint in checkpoints.items()}
    assert np.array_equal(found["modelopt"], found["compressed-tensors"])
    expected = text_logits(ArrayCheckpoint("llama", config, meant).dequantized(), tokens)
    assert np.abs(found["modelopt"] - expected).max() < 1e-4 * np.abs(expected).max()


def test_which_layer_is_off_can_be_told(tmp_path: Path) -> None:
    """Layer by layer, the two exports give the same weights: where one differs, its name is known."""
    export(tmp_path / "modelopt", "modelopt")
    export(tmp_path / "compressed-tensors", "compressed-tensors")
    name = "model.layers.1.mlp.up_proj"
    put(f"{name}.weight_global_scale", "F32", lambda a: a * np.float32(2))(tmp_path / "compressed-tensors")
    one, other = (open_model(tmp_path / form) for form in ("modelopt", "compressed-tensors"))
    off = [n for n in one.tensors if not np.array_equal(dequantize(one.read(n)), dequantize(other.read(n)))]
    assert off == [f"{name}.weight"]


def test_a_kind_of_float_that_nothing_serves_is_refused_by_name() -> None:
    answer = Selector(Platform("bare", frozenset()), "cpu").ask(_cell("e4m3fnuzchannel"))
    assert isinstance(answer, tuple) and "e4m3fnuzchannel" in str(answer[0])


def _cell(scheme: str) -> Any:
    return Cell("linear", scheme, "f32", sizes=(("n", 64), ("k", 64)))
