"""Stacked experts are what the same experts are one by one, whatever the format and the layout of the stack."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fewbit.formats import open_checkpoint
from fewbit.spec.dtype import E4M3, F16, F32, I4
from fewbit.spec.granularity import CHANNEL, TENSOR, block, group
from fewbit.spec.refusal import CheckpointError
from fewbit.spec.scheme import Scheme
from tests.formats.altered import Alter, drop, keys, put, rename
from tests.formats.compressed_tensors.fixture import tiny_compressed
from tests.formats.folder.stacks import EXPERTS, LAYOUTS, Layout, Suffix, stack_folder
from tests.formats.fp8.fixture import tiny_fp8
from tests.formats.modelopt.fixture import NVFP4, tiny_modelopt
from tests.formats.plain.fixture import tiny_folder

QWEN, LLAMA4, GPT_OSS = LAYOUTS
AT = "model.layers.1.mlp.experts"
FP8_BLOCKS = Scheme(E4M3, block(32, 32), F32)


def underscored(leaf: str) -> str:
    return "" if leaf == "weight" else f"_{leaf}"


def dotted(leaf: str) -> str:
    return f".{leaf}"


def short(leaf: str) -> str:
    return underscored(leaf).replace("_weight_", "_")


Writer = Callable[..., Path]
FORMS: dict[str, tuple[Writer, Suffix, tuple[Layout, ...]]] = {
    "plain": (tiny_folder, underscored, LAYOUTS),
    "plain as modules": (tiny_folder, dotted, (QWEN,)),
    "fp8 blocks": (partial(tiny_fp8, scheme=FP8_BLOCKS), short, (QWEN, LLAMA4)),
    "fp8 rows": (partial(tiny_fp8, scheme=Scheme(E4M3, CHANNEL, F32)), short, LAYOUTS),
    "modelopt fp8": (partial(tiny_modelopt, scheme=Scheme(E4M3, TENSOR, F32)), underscored, LAYOUTS),
    "modelopt nvfp4": (tiny_modelopt, underscored, LAYOUTS),
    "ct packed": (partial(tiny_compressed, scheme=Scheme(I4, group(32), F16)), short, (QWEN,)),
    "ct packed, dotted": (partial(tiny_compressed, scheme=Scheme(I4, group(32), F16)), dotted, (QWEN, LLAMA4)),
    "ct nvfp4": (partial(tiny_compressed, scheme=NVFP4), dotted, LAYOUTS),
    "ct fp8": (partial(tiny_compressed, scheme=Scheme(E4M3, CHANNEL, F32), in_bytes=True), short, LAYOUTS),
    "ct fp8 blocks": (partial(tiny_compressed, scheme=FP8_BLOCKS, in_bytes=True), dotted, (QWEN,)),
}  # fmt: skip
CASES = {
    f"{form}, {layout.model_type}": (form, layout) for form, (_, _, all) in FORMS.items() for layout in all
}


def stacked(tmp_path: Path, form: str, layout: Layout) -> tuple[Path, list[Path]]:
    write, suffix, _ = FORMS[form]
    parts = stack_folder(tmp_path / "m", lambda path, seed: write(path, seed=seed), layout, suffix)
    return tmp_path / "m", parts


@pytest.mark.parametrize("case", CASES)
def test_each_expert_is_what_it_was_alone(tmp_path: Path, case: str) -> None:
    folder, parts = stacked(tmp_path, *CASES[case])
    checkpoint = open_checkpoint(folder)
    names = {n for n in checkpoint.tensors if ".mlp." in n}
    projections = ("gate_proj", "up_proj", "down_proj")
    layers = ("model.layers.0", "model.layers.1")
    assert names == {
        f"{layer}.mlp.experts.{e}.{p}.weight" for layer in layers for e in range(EXPERTS) for p in projections
    }
    for expert, part in enumerate(parts):
        alone = open_checkpoint(part)
        for projection in projections:
            expected = alone.read(f"model.layers.1.mlp.{projection}.weight")
            found = checkpoint.read(f"{AT}.{expert}.{projection}.weight")
            assert found.scheme == expected.scheme and found.shape == expected.shape
            for role, value in expected.parts.items():
                assert found.parts[role].dtype == value.dtype and np.array_equal(found.parts[role], value), (
                    role
                )
            for start, stop in ((32, 64), (0, 33), (32, 32)):
                piece = checkpoint.read(f"{AT}.{expert}.{projection}.weight", start, stop)
                again = alone.read(f"model.layers.1.mlp.{projection}.weight", start, stop)
                for role, value in again.parts.items():
                    assert np.array_equal(piece.parts[role], value), role


def test_one_number_may_serve_all_experts(tmp_path: Path) -> None:
    folder, _ = stacked(tmp_path, "modelopt fp8", QWEN)
    put(f"{AT}.gate_up_proj_weight_scale", "F32", np.float32(0.5).reshape(()))(folder)
    for layer in (0, 1):
        for stack in ("gate_up_proj", "down_proj"):
            name = f"model.layers.{layer}.mlp.experts.{stack}_input_scale"
            put(name, "F32", np.arange(1, 4, dtype=np.float32))(folder)
    checkpoint = open_checkpoint(folder)
    for expert, projection in ((0, "gate_proj"), (2, "up_proj")):
        at = f"{AT}.{expert}.{projection}"
        assert checkpoint.read(f"{at}.weight").parts["scale"] == np.float32(0.5)
        assert checkpoint.read_auxiliary(f"{at}.input_scale") == expert + 1  # type: ignore[attr-defined]


def test_biases_of_gpt_oss(tmp_path: Path) -> None:
    folder, _ = stacked(tmp_path, "plain", GPT_OSS)
    bias = np.arange(3 * 256, dtype=np.float32).reshape(3, 256)
    put(f"{AT}.gate_up_proj_bias", "F32", bias)(folder)
    checkpoint = open_checkpoint(folder)
    assert np.array_equal(checkpoint.read(f"{AT}.1.gate_proj.bias").parts["codes"], bias[1, 0::2])
    assert np.array_equal(checkpoint.read(f"{AT}.1.up_proj.bias").parts["codes"], bias[1, 1::2])


def test_rules_name_the_stack(tmp_path: Path) -> None:
    """An ignored stack that is quantized is an error; a target may name the stack, or what holds it."""
    folder, _ = stacked(tmp_path, "ct packed", QWEN)
    groups = {
        "group_0": {
            "targets": ["re:.*self_attn.*"],
            "weights": {"num_bits": 4, "group_size": 32},
            "format": "pack-quantized",
        }
    }
    keys(config_groups=groups)(folder)
    with pytest.raises(
        CheckpointError,
        match=r"'model.layers.0.mlp.experts.0.gate_proj' holds quantized tensors .* no target",
    ):
        open_checkpoint(folder)
    for target in (r"re:.*mlp\.experts$", r"re:.*mlp\.experts\.(gate_up|down)_proj$"):
        more: dict[str, Any] = {"group_1": {**groups["group_0"], "targets": [target]}}
        keys(config_groups=groups | more)(folder)
        assert f"{AT}.2.up_proj.weight" in open_checkpoint(folder).tensors
    keys(ignore=["lm_head", AT])(folder)
    with pytest.raises(CheckpointError, match=f"module '{AT}.0.*' is left unquantized by ignore '{AT}'"):
        open_checkpoint(folder)


MALFORMED: dict[str, tuple[str, Layout, Alter, str]] = {
    "experts too few": ("fp8 rows", QWEN, put(f"{AT}.gate_up_proj_scale_inv", "F32", lambda s: s[:2]), "expected 3 experts, as 'model.layers.1.mlp.experts.gate_up_proj'"),
    "no scale": ("fp8 rows", QWEN, drop(f"{AT}.down_proj_scale_inv"), f"module '{AT}.0.down_proj' has no tensor 'weight_scale_inv'"),
    "an unknown end": ("fp8 rows", QWEN, rename(f"{AT}.down_proj_scale_inv", f"{AT}.down_proj_scales"), "has no tensor 'weight_scale_inv'"),
    "an odd row": ("plain", QWEN, put(f"{AT}.gate_up_proj", "BF16", lambda w: w[:, :-1]), "expected an even number of rows"),
    "other rows": ("plain", QWEN, put(f"{AT}.down_proj", "BF16", lambda w: w[:, :-1]), "expected experts of 64 rows (or columns), which is hidden_size"),
    "an expert beside its stack": ("plain", QWEN, put(f"{AT}.1.up_proj.weight", "F32", np.zeros((128, 64), np.float32)), f"expected no tensor '{AT}.1.up_proj.weight' beside the stack"),
    "two names": ("plain", QWEN, put(f"{AT}.down_proj.weight", "F32", np.zeros((3, 64, 128), np.float32)), "expected it once, but it is also"),
    "blocks of both": ("fp8 blocks", GPT_OSS, drop(f"{AT}.down_proj"), "rows, the gate's and up's in turn"),
    "a scale of halves": ("fp8 rows", QWEN, put(f"{AT}.gate_up_proj_scale_inv", "F32", lambda s: s[:, :254]), "one scale for the tensor, or 128 for its rows"),
}  # fmt: skip


@pytest.mark.parametrize("case", MALFORMED)
def test_refused(tmp_path: Path, case: str) -> None:
    form, layout, act, expected = MALFORMED[case]
    folder, _ = stacked(tmp_path, form, layout)
    act(folder)
    with pytest.raises(CheckpointError) as refusal:
        open_checkpoint(folder)
    assert expected in str(refusal.value) and str(folder) in str(refusal.value)


@pytest.mark.parametrize(
    ("rows", "size", "good"), [(128, 48, False), (128, 32, True), (32, 128, True), (112, 64, False)]
)
def test_a_block_over_the_border_of_gate_and_up(tmp_path: Path, rows: int, size: int, good: bool) -> None:
    """128 rows in blocks of 48 are 3 blocks a half, and 6 for both; 2 x 128 = 256 rows are 6 as well: nobody can tell which."""
    write = partial(tiny_fp8, scheme=Scheme(E4M3, block(size, 32), F32), intermediate_size=rows)
    stack_folder(tmp_path / "m", lambda path, seed: write(path, seed=seed), QWEN, short)
    if good:
        assert open_checkpoint(tmp_path / "m").read(f"{AT}.2.up_proj.weight").shape == (rows, 64)
    else:
        with pytest.raises(
            CheckpointError,
            match=f"has {rows} rows in the stack .* blocks of {size}, so a block may lie over",
        ):
            open_checkpoint(tmp_path / "m")


def test_the_shape_decides_how_a_stack_lies(tmp_path: Path) -> None:
    """A folder of gpt-oss whose stacks are not transposed, as no table can know."""
    write = partial(tiny_folder, hidden_size=64)
    layout = Layout("gpt_oss", transposed=False, interleaved=True)
    parts = stack_folder(tmp_path / "m", lambda path, seed: write(path, seed=seed), layout, underscored)
    expected = open_checkpoint(parts[2]).read("model.layers.1.mlp.up_proj.weight")
    found = open_checkpoint(tmp_path / "m").read(f"{AT}.2.up_proj.weight")
    assert np.array_equal(found.parts["codes"], expected.parts["codes"])
