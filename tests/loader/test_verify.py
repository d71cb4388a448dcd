"""The report of `fewbit inspect --verify`: numbers counted, and every fault told with its tensor; loading refuses the same."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import numpy as np
import pytest

from fewbit.formats import open_checkpoint
from fewbit.kernels.backend import Backend
from fewbit.loader import load_model
from fewbit.loader.ranges import Range, measure
from fewbit.loader.verify import Verification, place_of, verify
from fewbit.spec.dtype import BF16, E4M3, E8M0, F16, F32, I6
from fewbit.spec.granularity import CHANNEL
from fewbit.spec.refusal import CheckpointError
from fewbit.spec.scheme import Scheme
from tests.formats.altered import Alter, drop, put, tensors
from tests.formats.fp8.fixture import tiny_fp8
from tests.formats.gguf.fixture import tiny_gguf
from tests.formats.modelopt.fixture import tiny_modelopt

Run = Callable[..., CompletedProcess[str]]
DOWN = "model.layers.1.mlp.down_proj"


def verified(path: Path) -> Verification:
    checkpoint = open_checkpoint(path)
    try:
        return verify(checkpoint)
    finally:
        checkpoint.close()


@pytest.mark.parametrize(
    ("part", "element", "expected"),
    [
        (np.array([0, -0.0, 2, -3], np.float32), F32, Range(4, -3, 2, zero=2, negative=1)),
        (
            np.array([2.0**-15, 65504, 1], np.float16),
            F16,
            Range(3, 2.0**-15, 65504, subnormal=1, saturated=1),
        ),
        (np.array([0x3F80, 0x0001, 0x8000], np.uint16), BF16, Range(3, 0, 1, zero=1, subnormal=1)),
        (np.array([0x7E, 0x01, 0x00, 0xFE], np.uint8), E4M3, Range(4, -448, 448, 1, 1, 1, 2)),
        (np.array([127, 254], np.uint8), E8M0, Range(2, 1, 2.0**127, saturated=1)),
        (np.array([[-3, 0], [5, 31]], np.int8), I6, Range(4, -3, 31, zero=1, negative=1)),
        (np.zeros((0, 4), np.float32), F32, Range()),
    ],
    ids=lambda value: str(value) if hasattr(value, "bits") else "",
)
def test_numbers_are_counted(part: np.ndarray, element: object, expected: Range) -> None:
    assert measure(part, element) == expected  # type: ignore[arg-type]


def test_places_are_those_of_every_layer() -> None:
    assert place_of("model.layers.3.self_attn.q_proj.weight") == "self_attn.q_proj"
    assert place_of("model.layers.3.mlp.experts.7.up_proj.weight") == "mlp.experts.*.up_proj"
    assert place_of("lm_head.weight") == "lm_head"


def test_a_sound_gguf(tmp_path: Path) -> None:
    path = tiny_gguf(tmp_path / "m.gguf", "u4g32o")
    found = verified(path)
    assert not found.faults and found.parameters == 21
    assert len(found.account.weights) == found.account.count == 21
    down = next(kind for kind in found.kinds if kind.place == "mlp.down_proj")
    assert (down.scheme, down.tensors, set(down.parts)) == ("u4g32o", 2, {"scale", "offset"})
    assert down.parts["scale"].count == 2 * 64 * 128 // 32 and down.parts["scale"].zero == 0
    assert found.bytes_read == sum(info.bytes_on_disk for info in open_checkpoint(path).tensors.values())


def refused_alike(folder: Path, reference: Backend, *texts: str) -> None:
    """The one fault of the report is what loading says."""
    found = verified(folder)
    checkpoint = open_checkpoint(folder)
    with pytest.raises(CheckpointError) as refusal:
        load_model(checkpoint, reference)
    checkpoint.close()
    assert found.faults == [str(refusal.value)]
    for text in texts:
        assert text in found.faults[0], found.faults[0]


def spoiled(row: int, value: float) -> Callable[[np.ndarray], np.ndarray]:
    def act(array: np.ndarray) -> np.ndarray:
        array[row] = value
        return array

    return act


@pytest.mark.parametrize(
    ("value", "word"), [(np.nan, "a NaN"), (np.inf, "an infinite"), (-np.inf, "an infinite")]
)
def test_a_scale_that_is_no_number(tmp_path: Path, reference: Backend, value: float, word: str) -> None:
    folder = tiny_fp8(tmp_path / "m", Scheme(E4M3, CHANNEL, F32))
    (name,) = [n for n in names(folder) if n.startswith(f"{DOWN}.weight_scale")]
    put(name, "F32", spoiled(37, value))(folder)
    refused_alike(folder, reference, f"'{name}' has {word} scale at row 37", "model.safetensors")


def test_all_faults_are_told(tmp_path: Path) -> None:
    folder = tiny_fp8(tmp_path / "m", Scheme(E4M3, CHANNEL, F32))
    scales = [n for n in names(folder) if "weight_scale" in n and "mlp" in n]
    for name in scales:
        put(name, "F32", spoiled(5, np.nan))(folder)
    faults = verified(folder).faults
    assert len(faults) == len(scales) == 6
    assert all(any(f"'{name}' has a NaN scale at row 5" in fault for fault in faults) for name in scales)


def cached(change: Alter) -> Alter:
    """Scales of the cache in both layers, then the change."""

    def act(folder: Path) -> None:
        for layer in (0, 1):
            for leaf in ("k", "v"):
                name = f"model.layers.{layer}.self_attn.{leaf}_proj.{leaf}_scale"
                put(name, "F32", np.full((), 0.5 + layer, np.float32))(folder)
        change(folder)

    return act


K, V = "model.layers.1.self_attn.k_proj.k_scale", "model.layers.1.self_attn.v_proj.v_scale"


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (drop(K), "has no scale of the cache 'model.layers.1.self_attn.k_scale', though it has 'model.layers.0.self_attn.k_scale'"),
        (drop(V), "has no scale of the cache 'model.layers.1.self_attn.v_scale'"),
        (put(K, "F32", np.zeros((), np.float32)), "scale of the cache 'model.layers.1.self_attn.k_scale' is 0, expected above 0"),
        (put(V, "F32", np.full((), -1, np.float32)), "scale of the cache 'model.layers.1.self_attn.v_scale' is -1"),
        (put(V, "F32", np.full((), np.nan, np.float32)), f"tensor '{V}' has the value nan at [0]"),
    ],
)  # fmt: skip
def test_scales_of_the_cache(tmp_path: Path, reference: Backend, change: Alter, text: str) -> None:
    folder = tiny_fp8(tmp_path / "m", Scheme(E4M3, CHANNEL, F32))
    cached(lambda _: None)(folder)
    assert verified(folder).cache == {
        f"model.layers.{i}.self_attn.{leaf}": 0.5 + i for i in (0, 1) for leaf in ("k_scale", "v_scale")
    }
    change(folder)
    refused_alike(folder, reference, text)


def test_the_scales_of_one_layer_alone_are_missed(tmp_path: Path) -> None:
    folder = tiny_fp8(tmp_path / "m", Scheme(E4M3, CHANNEL, F32))
    cached(drop("model.layers.0.self_attn.v_proj.v_scale"))(folder)
    drop("model.layers.0.self_attn.k_proj.k_scale")(folder)
    assert verified(folder).no_cache == [
        "model.layers.0.self_attn.k_scale", "model.layers.0.self_attn.v_scale",
    ]  # fmt: skip


def test_zero_groups_are_counted_and_zero_matrices_named(tmp_path: Path) -> None:
    """Zero is a legal scale: a group of zeros may have it, and a matrix of zeros is a matrix. Nobody should miss it, though."""
    folder = tiny_fp8(tmp_path / "m", Scheme(E4M3, CHANNEL, F32))
    (name,) = [n for n in names(folder) if n.startswith(f"{DOWN}.weight_scale")]
    put(name, "F32", spoiled(3, 0))(folder)
    found = verified(folder)
    kind = next(kind for kind in found.kinds if kind.place == "mlp.down_proj")
    assert not found.faults and not found.zero and kind.parts["scale"].zero == 1
    put(name, "F32", np.zeros_like)(folder)
    assert verified(folder).zero == [f"{DOWN}.weight"] and not verified(folder).faults


def test_nvfp4_has_no_negative_scales(tmp_path: Path, reference: Backend) -> None:
    """Its scales have no sign bit: hardware ignores it, a table would negate the group."""
    folder = tiny_modelopt(tmp_path / "m")

    def act(array: np.ndarray) -> np.ndarray:
        array[7, 2] |= 0x80
        return array

    put(f"{DOWN}.weight_scale", "F8_E4M3", act)(folder)
    refused_alike(folder, reference, f"'{DOWN}.weight_scale' has the negative scale", "at row 7, column 2")


def names(folder: Path) -> list[str]:
    found: list[str] = []
    tensors(lambda held: found.extend(held))(folder)
    return found


def test_the_command(fewbit_cli: Run, tmp_path: Path) -> None:
    folder = tiny_fp8(tmp_path / "m", Scheme(E4M3, CHANNEL, F32))
    done = fewbit_cli("inspect", "--verify", folder, COLUMNS="80")
    assert done.returncode == 0, done.stderr
    text = " ".join(done.stdout.split())
    assert "21 of 21 parameters filled (llama)" in text and "35 tensors: 35 are parts of 21 weights" in text
    assert max(map(len, done.stdout.splitlines())) <= 80
    (name,) = [n for n in names(folder) if n.startswith(f"{DOWN}.weight_scale")]
    put(name, "F32", spoiled(0, np.nan))(folder)
    done = fewbit_cli("inspect", "--verify", folder)
    assert done.returncode == 1 and "no, see below" in done.stdout
    assert (
        done.stderr.startswith(f"fewbit: {folder} is not complete and sound: ") and f"'{name}'" in done.stderr
    )
    drop(name)(folder)
    done = fewbit_cli("inspect", "--verify", folder)
    assert done.returncode == 1 and f"module '{DOWN}' has no tensor 'weight_scale" in done.stderr
