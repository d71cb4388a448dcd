"""Every format to every other: the same numbers, or a refusal that names tensor and reason. Which of them, is stated here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from fewbit.convert.target import TARGETS
from fewbit.formats import open_checkpoint
from fewbit.formats.auto_round.config import FLOATS, GPTQ
from fewbit.formats.auto_round.config import Settings as AutoRound
from fewbit.formats.awq.config import Settings as Awq
from fewbit.formats.gptq.config import Settings as Gptq
from fewbit.formats.mlx.config import Settings as Mlx
from fewbit.spec.dtype import BF16, E2M1, E4M3, E8M0, F16, F32, I4, I8, U4
from fewbit.spec.granularity import CHANNEL, group
from fewbit.spec.refusal import FewbitError
from fewbit.spec.scheme import Scheme
from tests.convert.folders import converted, declared, oracle_copy, weights
from tests.formats.auto_round.fixture import tiny_auto_round
from tests.formats.awq.fixture import tiny_awq
from tests.formats.compressed_tensors.fixture import tiny_compressed
from tests.formats.fp8.fixture import tiny_fp8
from tests.formats.gguf.fixture import tiny_gguf
from tests.formats.gptq.fixture import tiny_gptq
from tests.formats.mlx.fixture import tiny_mlx
from tests.formats.modelopt.fixture import tiny_modelopt
from tests.formats.plain.fixture import tiny_folder
from tests.formats.quark.fixture import tiny_quark

NVFP4 = Scheme(E2M1, group(16), E4M3, global_scale=F32)
MXFP4 = Scheme(E2M1, group(32), E8M0)
INTEGERS = ("gptq", "gptq_v2", "auto_round", "compressed-tensors")

SOURCES: dict[str, tuple[Callable[[Path], Path], tuple[str, ...]]] = {
    "plain bf16": (lambda p: tiny_folder(p, "bf16"), ("plain", "gguf", *INTEGERS, "awq", "fp8", "modelopt", "quark", "mlx")),
    "gptq sym": (lambda p: tiny_gptq(p, Gptq(4, 32, True)), (*INTEGERS, "plain", "awq", "gguf", "quark", "modelopt")),
    "gptq asym": (lambda p: tiny_gptq(p, Gptq(4, 32, False)), (*INTEGERS, "plain", "awq", "gguf", "quark", "mlx")),
    "gptq 3 bits": (lambda p: tiny_gptq(p, Gptq(3, 32, True)), (*INTEGERS, "plain", "awq", "gguf", "quark", "modelopt")),
    "gptq 8 bits": (lambda p: tiny_gptq(p, Gptq(8, 32, True)), (*INTEGERS, "plain", "gguf", "quark")),
    "gptq order": (lambda p: tiny_gptq(p, Gptq(4, 32, False, True)), ("gptq", "gptq_v2", "compressed-tensors", "plain")),
    "awq": (lambda p: tiny_awq(p, Awq(32)), (*INTEGERS, "plain", "awq", "gguf", "quark", "mlx")),
    "awq gemv_fast": (lambda p: tiny_awq(p, Awq(64, version="gemv_fast")), ("plain", "gguf", "mlx")),
    "auto_round": (lambda p: tiny_auto_round(p, AutoRound(4, 32, True, "int", GPTQ)), (*INTEGERS, "plain", "awq", "gguf", "quark", "modelopt")),
    "auto_round mxfp4": (lambda p: tiny_auto_round(p, AutoRound(4, 32, True, "mx_fp", FLOATS)), ("auto_round", "compressed-tensors", "quark")),
    "ct 4 bits": (lambda p: tiny_compressed(p, Scheme(I4, group(32), BF16)), (*INTEGERS, "plain", "awq", "quark", "modelopt", "gguf")),
    "ct fp8": (lambda p: tiny_compressed(p, Scheme(E4M3, CHANNEL, F32)), ("plain", "compressed-tensors", "quark")),
    "ct nvfp4": (lambda p: tiny_compressed(p, NVFP4), ("plain", "compressed-tensors", "modelopt", "quark")),
    "ct mxfp4": (lambda p: tiny_compressed(p, MXFP4), ("plain", "compressed-tensors", "quark", "gguf", "mlx", "modelopt")),
    "ct int8 bytes": (lambda p: tiny_compressed(p, Scheme(I8, CHANNEL, F32, zero_point=I8), in_bytes=True), ("plain", "compressed-tensors", "quark", "gptq", "gptq_v2", "auto_round")),
    "fp8": (tiny_fp8, ("fp8", "compressed-tensors", "quark")),
    "quark uint4": (tiny_quark, (*INTEGERS, "plain", "awq", "quark")),
    "mlx 4 bits": (lambda p: tiny_mlx(p, Mlx(4, 32), scale="f16"), ("plain", "mlx", "gguf")),
    "mlx mxfp4": (lambda p: tiny_mlx(p, Mlx(4, 32, "mxfp4")), ("plain", "mlx", "gguf", "compressed-tensors", "quark", "modelopt")),
    "mlx nvfp4": (lambda p: tiny_mlx(p, Mlx(4, 16, "nvfp4")), ("plain", "mlx", "gguf", "compressed-tensors", "modelopt", "quark")),
    "gguf q4_0": (lambda p: tiny_gguf(p.with_suffix(".gguf"), "i4g32"), (*INTEGERS, "plain", "awq", "gguf", "quark", "modelopt")),
    "gguf q4_1": (lambda p: tiny_gguf(p.with_suffix(".gguf"), "u4g32o"), ("plain", "gguf", "mlx")),
    "gguf q8_0": (lambda p: tiny_gguf(p.with_suffix(".gguf"), "i8g32"), (*INTEGERS, "plain", "gguf", "quark")),
}  # fmt: skip
"""Name to what makes it, and the targets that hold it without loss."""


@pytest.mark.parametrize("name", SOURCES)
def test_the_same_numbers_or_a_reason(tmp_path: Path, name: str) -> None:
    make, lossless = SOURCES[name]
    source = make(tmp_path / "m")
    numbers, done = weights(source), set()
    for to in TARGETS:
        place = tmp_path / f"to-{to}"
        try:
            converted(source, place, to)
        except FewbitError as error:
            text = str(error)
            assert "tensor model." in text or "tensor lm_head" in text, text
            assert "cannot be converted to" in text or "cannot express" in text, text
            assert not place.exists()
            continue
        done.add(to)
        assert weights(place) == numbers, to
        assert (
            open_checkpoint(place).format.replace("-", "_") == to.removesuffix("_v2").replace("-", "_")
            or "bf16" in name
        )
    assert sorted(done) == sorted(lossless)


def test_nvfp4_of_a_global_scale_without_reciprocal_is_refused(tmp_path: Path) -> None:
    """About half of all numbers are the rounded reciprocal of none; compressed-tensors stores the reciprocal."""
    source = tiny_modelopt(tmp_path / "m", seed=3)
    with pytest.raises(FewbitError, match=r"is the reciprocal of no number, and a divisor is stored"):
        converted(source, tmp_path / "ct", "compressed-tensors", weights_only=True)
    assert weights(converted(source, tmp_path / "quark", "quark")) == weights(source)


CARRIED = {
    "ct-fp8-static-kvfp8": ("fp8", "modelopt", "quark", "compressed-tensors"),
    "quark-fp8-kvfp8": ("fp8", "modelopt", "quark", "compressed-tensors"),
    "mo-fp8-kvfp8": ("fp8", "modelopt", "quark", "compressed-tensors"),
    "ct-nvfp4": ("modelopt", "quark", "auto_round", "compressed-tensors"),
    "ar-nvfp4": ("modelopt", "quark", "auto_round", "compressed-tensors"),
    "quark-mxfp4": ("auto_round", "quark", "compressed-tensors"),
    "ct-w8a8-int-static-asym": ("quark", "compressed-tensors"),
    "mo-w4a8-awq": ("modelopt",),
    "mo-mixed-fp8-nvfp4": ("quark", "modelopt"),
    "mo-nvfp4-kvnvfp4": ("modelopt",),
}


@pytest.mark.parametrize("name", CARRIED)
def test_what_lies_beside_weights_comes_along(tmp_path: Path, name: str) -> None:
    """Scales of inputs and of the cache, value by value, around through all formats that store them."""
    source = oracle_copy(name, tmp_path)
    before = open_checkpoint(source)
    found = source
    for step, to in enumerate(CARRIED[name]):
        found = converted(found, tmp_path / f"{step}", to)
        after = open_checkpoint(found)
        scales = {
            n: before.read_auxiliary(n).tobytes()
            for n in before.auxiliary
            if n.endswith(("k_scale", "v_scale"))
        }  # type: ignore[attr-defined]
        assert scales == {n: after.read_auxiliary(n).tobytes() for n in scales}  # type: ignore[attr-defined]
        for tensor, info in before.tensors.items():
            ours, theirs = info.layer.input_quant, after.tensors[tensor].layer.input_quant
            assert (ours is None) == (theirs is None)
            if ours is not None and theirs is not None:
                assert (ours.codes, ours.granularity, ours.scale_dtype) == (
                    theirs.codes,
                    theirs.granularity,
                    theirs.scale_dtype,
                )
                for field in ("scale", "global_scale", "zero_point"):
                    if getattr(ours, field):
                        one, other = (
                            c.read_auxiliary(getattr(q, field)) for c, q in ((before, ours), (after, theirs))
                        )  # type: ignore[attr-defined]
                        assert one.tobytes() == other.tobytes()


def test_what_cannot_come_along_is_named(tmp_path: Path) -> None:
    source = oracle_copy("ct-fp8-static-kvfp8", tmp_path)
    with pytest.raises(
        FewbitError,
        match=r"_proj.weight .*GGUF cannot express inputs quantized as e4m3tensor static; --weights-only",
    ):
        converted(source, tmp_path / "x", "gguf")
    cached = oracle_copy("mo-nvfp4-kvnvfp4", tmp_path)
    with pytest.raises(
        FewbitError, match=r"k_scale is a scale of a NVFP4 cache, which quark cannot express; --weights-only"
    ):
        converted(cached, tmp_path / "x", "quark")
    rotated = oracle_copy("ct-w4a16-quip-hadamard", tmp_path)
    with pytest.raises(FewbitError, match=r"GPTQ cannot express pre_rotation and post_rotation$"):
        converted(rotated, tmp_path / "x", "gptq")
    scaled = oracle_copy("mo-int4-awq", tmp_path)
    with pytest.raises(FewbitError, match=r"down_proj.weight .*cannot express pre_scale$"):
        converted(scaled, tmp_path / "x", "gptq", weights_only=True)


def test_weights_only_leaves_out_inputs_and_cache(tmp_path: Path) -> None:
    from fewbit.convert.run import convert

    source = oracle_copy("mo-nvfp4-kvfp8", tmp_path)
    done = convert(source, tmp_path / "x", "modelopt", weights_only=True)
    assert done.left_out == ["inputs quantized as e2m1g16 dynamic", "4 scales of the cache"]
    assert declared(tmp_path / "x")["quant_algo"] == "W4A16_NVFP4"
    after = open_checkpoint(tmp_path / "x")
    assert after.auxiliary == {} and weights(tmp_path / "x") == weights(source)  # type: ignore[attr-defined]


def test_settings_that_all_modules_share(tmp_path: Path) -> None:
    """AWQ has one group size: rows with one scale are split, and the smallest group is taken for all."""
    source = oracle_copy("ct-mixed-precision", tmp_path)
    assert len({str(i.scheme) for i in open_checkpoint(source).tensors.values()}) > 2
    with pytest.raises(FewbitError, match="cannot be converted to awq without loss"):
        converted(source, tmp_path / "x", "awq", weights_only=True)
    channel = tiny_compressed(tmp_path / "m", replace(Scheme(I4, CHANNEL, F16)))
    found = converted(channel, tmp_path / "y", "awq")
    assert declared(found)["group_size"] == -1 and weights(found) == weights(channel)


def test_unsigned_codes_keep_their_zero_points(tmp_path: Path) -> None:
    source = tiny_compressed(tmp_path / "m", Scheme(U4, group(32), F16, zero_point=U4))
    found = open_checkpoint(converted(source, tmp_path / "x", "awq"))
    assert str(found.tensors["model.layers.0.mlp.up_proj.weight"].scheme) == "u4g32z"
