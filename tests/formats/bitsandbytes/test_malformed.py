"""What is wrong with a bitsandbytes folder is said with file, tensor and rule."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fewbit.formats import open_checkpoint
from fewbit.spec.refusal import CheckpointError
from tests.formats import edits
from tests.formats.bitsandbytes.fixture import tiny_bitsandbytes
from tests.formats.edits import Edit, add, drop, put, rename

DOWN = "model.layers.0.mlp.down_proj"
STATE = f"{DOWN}.weight.quant_state.bitsandbytes__nf4"
keys = partial(edits.keys, "quantization_config")


def state(**changes: Any) -> Edit:
    def change(raw: np.ndarray) -> np.ndarray:
        values = json.loads(raw.tobytes()) | changes
        text = json.dumps({k: v for k, v in values.items() if v is not ...})
        return np.frombuffer(text.encode(), np.uint8)

    return put(STATE, change)


def text(raw: bytes) -> Edit:
    return put(STATE, lambda _: np.frombuffer(raw, np.uint8))


CASES: dict[str, tuple[Edit, str]] = {
    "an unknown key": (keys(mystery=1), "key 'mystery' is unknown for the format bitsandbytes"),
    "an unknown type": (keys(bnb_4bit_quant_type="nf3"), "'bnb_4bit_quant_type' is 'nf3', which is not supported"),
    "another type": (keys(bnb_4bit_quant_type="fp4"), "has no tensor 'weight.quant_state.bitsandbytes__fp4'"),
    "both widths": (keys(load_in_8bit=True), "'load_in_4bit' and 'load_in_8bit' are both True"),
    "no width": (keys(load_in_4bit=False), "'load_in_4bit' and 'load_in_8bit' are both False"),
    "the other width": (keys(load_in_4bit=False, load_in_8bit=True), "expected type I8"),
    "copies that differ": (keys(_load_in_4bit=False), "key 'load_in_4bit' is True and '_load_in_4bit' is False"),
    "storage of 16 bits": (keys(bnb_4bit_quant_storage="bfloat16"), "'bnb_4bit_quant_storage' is 'bfloat16'"),
    "double that is not": (keys(bnb_4bit_use_double_quant=True), "expected quant_type 'nf4' with nested scales"),
    "a skipped module that is packed": (keys(llm_int8_skip_modules=["down_proj"]), f"module '{DOWN}' is quantized (it has weight"),
    "a state with an unknown key": (state(mystery=1), f"tensor '{STATE}': key 'mystery' is unknown for a quant_state"),
    "a state of another type": (state(quant_type="fp4"), "expected quant_type 'nf4' without nested scales"),
    "a state without blocksize": (state(blocksize=...), "key 'blocksize' is absent"),
    "a blocksize of 48": (state(blocksize=48), "expected a blocksize that is a power of two, not 48"),
    "another blocksize": (state(blocksize=64), f"tensor '{DOWN}.weight.absmax' (F32 [256]), expected shape [128]"),
    "another shape": (state(shape=[64, 256]), f"tensor '{DOWN}.weight' (U8 [4096, 1]), expected shape [8192, 1]"),
    "an odd shape": (state(shape=[128, 63]), "key 'shape' is [128, 63], expected rows and an even number"),
    "a shape of no list": (state(shape=8), "key 'shape' is 8"),
    "a huge shape": (state(shape=[1 << 70, 2]), "key 'shape'"),
    "half a nested state": (state(nested_offset=0.5), "one of 'nested_blocksize' and 'nested_offset'"),
    "a huge offset": (state(nested_offset=10**400, nested_blocksize=256), "key 'nested_offset'"),
    "nested all of a sudden": (state(nested_offset=0.5, nested_blocksize=256), "without nested scales"),
    "a state that is no JSON": (text(b"{"), "is not valid JSON"),
    "a state that is no object": (text(b"[1]"), "is a JSON list, expected an object"),
    "a state that is long": (text(b" " * 70000), "has 70000 bytes, expected at most 65536"),
    "no state": (drop(STATE), f"module '{DOWN}' has no tensor 'weight.quant_state.bitsandbytes__nf4'"),
    "no absmax": (drop(f"{DOWN}.weight.absmax"), f"module '{DOWN}' has no tensor 'weight.absmax'"),
    "no map": (drop(f"{DOWN}.weight.quant_map"), f"module '{DOWN}' has no tensor 'weight.quant_map'"),
    "no weight": (drop(f"{DOWN}.weight"), f"module '{DOWN}' has no tensor 'weight'"),
    "absmax renamed": (rename(f"{DOWN}.weight.absmax", f"{DOWN}.weight.absmaxx"), "has no tensor 'weight.absmax'"),
    "absmax of another type": (put(f"{DOWN}.weight.absmax", lambda a: a.astype(np.float16), "F16"), "expected type F32"),
    "a map cut": (put(f"{DOWN}.weight.quant_map", lambda m: m[:8]), "(F32 [8]), expected shape [16]"),
    "NaN scales": (put(f"{DOWN}.weight.absmax", lambda a: a * np.float32(np.nan)), f"tensor '{DOWN}.weight.absmax' has a NaN scale"),
    "a NaN map": (put(f"{DOWN}.weight.quant_map", lambda m: m * np.float32(np.nan)), f"'{DOWN}.weight.quant_map'"),
    "a tensor too many": (add(f"{DOWN}.weight.extra", "I32", np.zeros(4, np.int32)), f"'{DOWN}.weight.extra'"),
    "scales of int8 too": (add(f"{DOWN}.SCB", "F32", np.zeros(64, np.float32)), f"'{DOWN}.SCB' (F32 [64]) is taken by nothing"),
    "scales of a norm": (add("model.norm.SCB", "F32", np.ones(4, np.float32)), "module 'model.norm' has no tensor"),
}  # fmt: skip

CASES_8: dict[str, tuple[Edit, str]] = {
    "no SCB": (drop(f"{DOWN}.SCB"), f"module '{DOWN}' has no tensor 'SCB'"),
    "SCB renamed": (rename(f"{DOWN}.SCB", f"{DOWN}.scb"), f"module '{DOWN}' has no tensor 'SCB'"),
    "SCB of another type": (put(f"{DOWN}.SCB", lambda s: s.astype(np.float16), "F16"), "expected type F32"),
    "SCB of another shape": (put(f"{DOWN}.SCB", lambda s: s[:-1]), "(F32 [63]), expected shape [64]"),
    "codes of another type": (put(f"{DOWN}.weight", lambda w: w.view(np.uint8), "U8"), "expected type I8"),
    "codes in another order": (put(f"{DOWN}.weight_format", lambda f: np.full_like(f, 2)), "expected 0 (rows as they are), not 2"),
    "plain where SCB is": (put(f"{DOWN}.weight", lambda w: w.astype(np.float16), "F16"), "expected type I8"),
}  # fmt: skip


@pytest.mark.parametrize(
    ("quant_type", "case"), [*(("nf4", c) for c in CASES), *(("int8", c) for c in CASES_8)]
)
def test_refused(tmp_path: Path, quant_type: str, case: str) -> None:
    folder = tiny_bitsandbytes(tmp_path / "m", quant_type)
    act, expected = (CASES if quant_type == "nf4" else CASES_8)[case]
    act(folder)
    with pytest.raises(CheckpointError) as refusal:
        checkpoint = open_checkpoint(folder)
        checkpoint.read(f"{DOWN}.weight")
    assert expected in str(refusal.value) and str(folder) in str(refusal.value)


NESTED = [
    (drop(f"{DOWN}.weight.nested_absmax"), "has no tensor 'weight.nested_absmax'"),
    (put(f"{DOWN}.weight.nested_quant_map", lambda m: m[:16]), r"expected shape \[256\]"),
    (put(f"{DOWN}.weight.nested_absmax", lambda a: a * np.float32(np.inf)), f"{DOWN}.weight.absmax"),
    (state(nested_offset=1e300), f"{DOWN}.weight.absmax"),
    (keys(bnb_4bit_use_double_quant=False), "without nested scales"),
]


@pytest.mark.parametrize(("act", "expected"), NESTED, ids=range(len(NESTED)))
def test_nested_scales_refused(tmp_path: Path, act: Edit, expected: str) -> None:
    folder = tiny_bitsandbytes(tmp_path / "m", "nf4", double=True)
    act(folder)
    with pytest.raises(CheckpointError, match=expected):
        open_checkpoint(folder).read(f"{DOWN}.weight")
