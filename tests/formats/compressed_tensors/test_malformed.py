"""What is wrong with a compressed-tensors folder is said with file, tensor and rule."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fewbit.formats import open_checkpoint
from fewbit.formats.compressed_tensors.encode import MXFP4, NVFP4
from fewbit.formats.files import CheckedFile
from fewbit.formats.folder.safetensors import read_header
from fewbit.formats.folder.writer import DiskArray, safetensors_bytes
from fewbit.spec.dtype import BF16, E4M3, F32, I4, U4
from fewbit.spec.granularity import CHANNEL, block, group
from fewbit.spec.refusal import CheckpointError
from fewbit.spec.scheme import Scheme
from tests.formats.compressed_tensors.fixture import tiny_compressed

DOWN = "model.layers.0.mlp.down_proj"
SYMMETRIC = Scheme(I4, group(32), F32)
ZERO_POINTS = Scheme(U4, group(32), F32, U4)
ORDERED = Scheme(I4, group(32), F32, group_index=True)
IN_BYTES = Scheme(I4, CHANNEL, F32)
FP8 = Scheme(E4M3, block(32, 32), F32)
Act = Callable[[Path], None]


def keys(**changes: Any) -> Act:
    def act(folder: Path) -> None:
        config = json.loads((folder / "config.json").read_text())
        config["quantization_config"] |= changes
        (folder / "config.json").write_text(json.dumps(config))

    return act


def in_group(part: str, **changes: Any) -> Act:
    def act(folder: Path) -> None:
        config = json.loads((folder / "config.json").read_text())
        found = config["quantization_config"]["config_groups"]["group_0"]
        (found if part == "" else found[part]).update(changes)
        (folder / "config.json").write_text(json.dumps(config))

    return act


def tensors(change: Callable[[dict[str, DiskArray]], Any]) -> Act:
    def act(folder: Path) -> None:
        path = folder / "model.safetensors"
        file = CheckedFile(path)
        held = {name: DiskArray(tensor.kind, tensor.whole()) for name, tensor in read_header(file).items()}
        file.close()
        change(held)
        path.write_bytes(safetensors_bytes(held))

    return act


def put(leaf: str, value: Callable[[np.ndarray], np.ndarray], kind: str = "") -> Act:
    def change(held: dict[str, DiskArray]) -> None:
        stored = held[f"{DOWN}.{leaf}"]
        held[f"{DOWN}.{leaf}"] = DiskArray(kind or stored.kind, np.ascontiguousarray(value(stored.array)))

    return tensors(change)


def add(name: str, kind: str, array: np.ndarray) -> Act:
    return tensors(lambda held: held.update({name: DiskArray(kind, array)}))


def without(leaf: str) -> Act:
    return tensors(lambda held: held.pop(f"{DOWN}.{leaf}"))


def renamed(leaf: str, other: str) -> Act:
    return tensors(lambda held: held.update({f"{DOWN}.{other}": held.pop(f"{DOWN}.{leaf}")}))


CASES: dict[str, tuple[Scheme, Act, str]] = {
    "an unknown key": (SYMMETRIC, keys(mystery=1), "key 'mystery' is unknown for the format compressed-tensors"),
    "an unknown key of a group": (SYMMETRIC, in_group("", mystery=1), "config_groups: group_0: key 'mystery' is unknown"),
    "an unknown key of weights": (SYMMETRIC, in_group("weights", mystery=1), "group_0: weights: key 'mystery' is unknown"),
    "an unknown format": (SYMMETRIC, keys(format="mystery"), "'format' is 'mystery', which is not supported"),
    "sparse experts": (SYMMETRIC, keys(moe_sparsity_config={"0": 0.5}), "'moe_sparsity_config' is {'0': 0.5}, which is not supported"),
    "marlin": (SYMMETRIC, in_group("", format="marlin-24"), "has no tensor 'meta'"),
    "bits 9": (SYMMETRIC, in_group("weights", num_bits=9), "'num_bits' is 9, which is not supported"),
    "other bits": (SYMMETRIC, in_group("weights", num_bits=8), "expected words of 8-bit codes of the weight"),
    "group 0": (SYMMETRIC, in_group("weights", group_size=0), "strategy 'group' needs a length"),
    "group that does not divide": (SYMMETRIC, in_group("weights", group_size=48), "no multiple of its group size 48"),
    "another group": (SYMMETRIC, in_group("weights", group_size=64), "expected shape [64, 1] of one scale a group"),
    "another strategy": (SYMMETRIC, in_group("weights", strategy="channel"), "expected shape [64, 1] of one scale a channel"),
    "dynamic weights": (SYMMETRIC, in_group("weights", dynamic=True), "has weights that are dynamic"),
    "floats in words": (SYMMETRIC, in_group("weights", type="float"), "says type float"),
    "a block without extents": (FP8, in_group("weights", block_structure=[0, 32]), "'block_structure' is [0, 32]"),
    "another block": (FP8, in_group("weights", block_structure=[64, 64]), "of one scale a block"),
    "a pattern that is none": (SYMMETRIC, keys(ignore=["re:("]), "pattern 're:(' is no regular expression"),
    "ignored but packed": (SYMMETRIC, keys(ignore=[DOWN]), f"module '{DOWN}' is left unquantized by ignore '{DOWN}'"),
    "named but plain": (SYMMETRIC, lambda f: (keys(ignore=[])(f), in_group("", targets=["Linear", "lm_head"])(f))[0], "module 'lm_head' is plain"),
    "no target": (SYMMETRIC, in_group("", targets=["re:.*up_proj"]), "but no target of"),
    "an online rotation of another kind": (SYMMETRIC, keys(transform_config={"config_groups": {"u": {"type": "random-matrix", "apply": []}}}), "'type' is 'random-matrix', which is not supported"),
    "a rotation without its matrix": (SYMMETRIC, keys(transform_config={"config_groups": {"u": {"type": "hadamard", "apply": [{"targets": ["Linear"], "location": "input"}]}}}), "is rotated by 'u_input.weight', but"),
    "a rotation of the cache": (SYMMETRIC, keys(transform_config={"config_groups": {"u": {"type": "hadamard", "apply": [{"targets": ["Linear"], "location": "k_cache"}]}}}), "'location' is 'k_cache', which is not supported"),
    "two keys that differ": (SYMMETRIC, lambda f: _twin(f), "differs from compression_config beside it"),
    "no scale": (SYMMETRIC, without("weight_scale"), f"module '{DOWN}' has no tensor 'weight_scale'"),
    "a scale renamed": (SYMMETRIC, renamed("weight_scale", "weight_scales"), f"module '{DOWN}' has no tensor 'weight_scale'"),
    "no shape": (SYMMETRIC, without("weight_shape"), f"module '{DOWN}' has no tensor 'weight_shape'"),
    "another shape": (SYMMETRIC, put("weight_shape", lambda s: s * 2), "that 'model.layers.0.mlp.down_proj.weight_shape' states"),
    "scales of another type": (SYMMETRIC, put("weight_scale", lambda s: s.astype(np.int16), "I16"), f"tensor '{DOWN}.weight_scale' (I16"),
    "scales of another shape": (SYMMETRIC, put("weight_scale", lambda s: s[:-1]), f"tensor '{DOWN}.weight_scale' (F32 [63, 4]), expected shape [64, 4]"),
    "NaN scales": (SYMMETRIC, put("weight_scale", lambda s: s * np.float32(np.nan)), f"tensor '{DOWN}.weight_scale' has a NaN scale"),
    "words cut": (SYMMETRIC, put("weight_packed", lambda w: w[:, :-1]), f"tensor '{DOWN}.weight_packed' (I32 [64, 15])"),
    "zero points though symmetric": (SYMMETRIC, add(f"{DOWN}.weight_zero_point", "I32", np.ones((8, 4), np.int32)), "says symmetric; they contradict each other"),
    "no zero points": (ZERO_POINTS, without("weight_zero_point"), f"module '{DOWN}' has no tensor 'weight_zero_point'"),
    "zero points of another shape": (ZERO_POINTS, put("weight_zero_point", lambda z: z[:-1]), f"tensor '{DOWN}.weight_zero_point' (I32 [7, 4]), expected shape [8, 4]"),
    "zero points said symmetric": (ZERO_POINTS, in_group("weights", symmetric=True), "they contradict each other"),
    "an index out of range": (ORDERED, put("weight_g_idx", lambda i: i + (np.arange(len(i)) == 7).astype(np.int32) * 9), "column 7 is in group"),
    "an index cut": (ORDERED, put("weight_g_idx", lambda i: i[:-1]), f"tensor '{DOWN}.weight_g_idx' (I32 [127]), expected shape [128]"),
    "a tensor too many": (SYMMETRIC, add(f"{DOWN}.extra", "I32", np.zeros(4, np.int32)), f"'{DOWN}.extra' (I32 [4]) is taken by nothing"),
    "a scale of a plain module": (SYMMETRIC, add("lm_head.weight_scale", "F32", np.ones(4, np.float32)), "module 'lm_head' is left unquantized by ignore 'lm_head'"),
    "plain and packed": (SYMMETRIC, add(f"{DOWN}.weight", "F32", np.ones((64, 128), np.float32)), f"module '{DOWN}' is quantized by"),
    "no input scale": (FP8, in_group("", input_activations={"num_bits": 8, "type": "float", "strategy": "tensor"}), "has no tensor 'input_scale'"),
    "FP8 bytes of another type": (FP8, put("weight", lambda w: w.view(np.int8), "I8"), f"tensor '{DOWN}.weight' (I8"),
    "an FP8 NaN": (FP8, put("weight", lambda w: np.full_like(w, 0x7F)), f"tensor '{DOWN}.weight' has the e4m3 code 0x7f"),
    "no global scale": (NVFP4, without("weight_global_scale"), f"module '{DOWN}' has no tensor 'weight_global_scale'"),
    "a global scale of 0": (NVFP4, put("weight_global_scale", lambda g: g * 0), "expected a finite number other than 0"),
    "a NaN in e4m3 scales": (NVFP4, put("weight_scale", lambda s: np.full_like(s, 0x7F)), "e4m3 code 0x7f"),
    "groups of another length": (NVFP4, in_group("weights", group_size=32), "the config does not fit"),
    "e8m0 scales of another shape": (MXFP4, put("weight_scale", lambda s: s[:, :-1]), f"tensor '{DOWN}.weight_scale' (U8 [64, 3]), expected shape [64, 4]"),
    "a NaN in e8m0 scales": (MXFP4, put("weight_scale", lambda s: np.full_like(s, 255)), "e8m0 code 0xff"),
    "an integer of too many bits": (IN_BYTES, put("weight", lambda w: np.full_like(w, 8)), "has 8 at [0, 0], expected -8 to 7"),
}  # fmt: skip


def _twin(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    config["compression_config"] = config["quantization_config"] | {"ignore": []}
    (folder / "config.json").write_text(json.dumps(config))


@pytest.mark.parametrize("case", CASES)
def test_refused(tmp_path: Path, case: str) -> None:
    scheme, act, expected = CASES[case]
    folder = tiny_compressed(tmp_path / "m", scheme, in_bytes=scheme is IN_BYTES)
    act(folder)
    with pytest.raises(CheckpointError) as refusal:
        checkpoint = open_checkpoint(folder)
        checkpoint.read(f"{DOWN}.weight")
    assert expected in str(refusal.value) and str(folder) in str(refusal.value)


SPARSE: dict[str, tuple[str, Act, str]] = {
    "a bitmask that keeps more": ("sparse-24-bitmask", put("bitmask", lambda m: m | 255), "keeps 128 weights in row 0"),
    "no bitmask": ("sparse-24-bitmask", without("bitmask"), "has no tensor 'bitmask'"),
    "a run that is cut": ("sparse-24-bitmask", put("compressed", lambda c: c[:, :-1]), "expected shape [64, 64]"),
    "no extents": ("sparse-24-bitmask", put("shape", lambda s: s * 0), "two extents above 0"),
    "offsets that descend": ("sparse-bitmask", put("row_offsets", lambda o: o[::-1]), "does not ascend from 0"),
    "offsets that shift a weight": ("sparse-bitmask", put("row_offsets", lambda o: o + (np.arange(64) == 3)), "keeps 64 weights in row 2"),
    "offsets beyond the end": ("sparse-bitmask", put("row_offsets", lambda o: o * (1 << 40)), "does not ascend from 0"),
}  # fmt: skip


@pytest.mark.parametrize("case", SPARSE)
def test_sparse_refused(tmp_path: Path, case: str) -> None:
    stored, act, expected = SPARSE[case]
    folder = tiny_compressed(tmp_path / "m", Scheme(E4M3, CHANNEL, BF16))

    def sparse(held: dict[str, DiskArray]) -> None:
        weight = held.pop(f"{DOWN}.weight").array
        n, k = weight.shape
        mask = np.arange(k) % 4 < 2
        kept = weight[:, mask]
        held[f"{DOWN}.compressed"] = DiskArray("F8_E4M3", kept if "24" in stored else kept.reshape(-1))
        held[f"{DOWN}.bitmask"] = DiskArray(
            "U8", np.packbits(np.tile(mask, (n, 1)), axis=1, bitorder="little")
        )
        held[f"{DOWN}.shape"] = DiskArray("I64", np.array([n, k]))
        if "24" not in stored:
            held[f"{DOWN}.row_offsets"] = DiskArray("I64", np.arange(n) * (k // 2))

    tensors(sparse)(folder)
    keys(sparsity_config={"format": stored})(folder)
    open_checkpoint(folder).read(f"{DOWN}.weight")
    act(folder)
    with pytest.raises(CheckpointError) as refusal:
        open_checkpoint(folder).read(f"{DOWN}.weight")
    assert expected in str(refusal.value) and str(folder) in str(refusal.value)
