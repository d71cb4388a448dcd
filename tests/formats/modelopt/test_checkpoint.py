"""ModelOpt folders: what is written is read, to the bit, for every algorithm."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from fewbit.formats import open_checkpoint
from fewbit.formats.files import CheckedFile
from fewbit.formats.folder.resolve import Module, Resolved
from fewbit.formats.folder.safetensors import read_header
from fewbit.formats.folder.writer import safetensors_bytes
from fewbit.formats.modelopt.encode import config_of, encode
from fewbit.formats.modelopt.resolve import ModelOptResolver
from fewbit.formats.modelopt.settings import Layer, Settings
from fewbit.schemes.affine.scheme import U4G32O
from fewbit.schemes.floats.table import values
from fewbit.schemes.reference import dequantize, quantize
from fewbit.spec.dtype import BF16, E2M1, E4M3, E8M0, F16, F32, I4, I8
from fewbit.spec.granularity import CHANNEL, TENSOR, block, group
from fewbit.spec.scheme import QuantTensor, Scheme
from tests.formats.altered import beside, put, rename
from tests.formats.modelopt.fixture import NVFP4, tiny_modelopt
from tests.formats.tiny import tiny_config, tiny_weights

FORMS = [
    NVFP4, Scheme(E2M1, group(32), E4M3, global_scale=BF16), Scheme(E2M1, group(32), E8M0), Scheme(E4M3, group(32), E8M0),
    Scheme(E4M3, TENSOR, F32), Scheme(E4M3, CHANNEL, F32), Scheme(E4M3, block(128, 128), F32), Scheme(I4, group(32), F32),
    Scheme(I4, group(64), F16), Scheme(I8, CHANNEL, F32),
]  # fmt: skip
DOWN = "model.layers.0.mlp.down_proj"


@pytest.mark.parametrize("scheme", FORMS, ids=lambda s: f"{s}-{s.scale}")
def test_what_was_written_is_read(tmp_path: Path, scheme: Scheme) -> None:
    checkpoint = open_checkpoint(tiny_modelopt(tmp_path / "m", scheme, seed=3))
    assert checkpoint.format == "modelopt"
    for name, weight in tiny_weights(tiny_config(), 3).items():
        found = checkpoint.read(name)
        if "proj" not in name:
            assert found.scheme.is_plain
            continue
        expected = quantize(weight, scheme)
        assert found.scheme == scheme == checkpoint.tensors[name].scheme
        for role, part in expected.parts.items():
            assert found.parts[role].dtype == part.dtype and np.array_equal(found.parts[role], part), role
        for start, stop in ((5, 29), (4, 5), (7, 8)) if scheme.block_n == 1 else ():
            assert np.array_equal(
                checkpoint.read(name, start, stop).parts["codes"], expected.parts["codes"][start:stop]
            )


def read(tmp_path: Path, tensor: QuantTensor, algorithm: str) -> QuantTensor:
    path = tmp_path / "m.safetensors"
    path.write_bytes(safetensors_bytes(encode(tensor)))
    resolver = ModelOptResolver(Settings("a test", Layer(algorithm)))
    claims = resolver.resolve(Module("m", read_header(CheckedFile(path))))
    claim = next(c for c in claims if isinstance(c, Resolved))
    n = tensor.shape[0]
    return QuantTensor(
        claim.scheme, claim.shape, {role: part.read(0, n) for role, part in claim.parts.items()}
    )


def test_every_fp4_code_with_every_scale(tmp_path: Path) -> None:
    codes = np.tile(np.arange(16, dtype=np.uint8), (256, 1))
    scale = np.arange(256, dtype=np.uint8).reshape(-1, 1)
    parts = {"codes": codes, "scale": scale, "global_scale": np.array([1e-3], np.float32)}
    found = dequantize(read(tmp_path, QuantTensor(NVFP4, (256, 16), parts), "NVFP4"))
    expected = values("e2m1")[codes] * (values("e4m3")[scale] * np.float32(1e-3))
    assert np.array_equal(found, expected, equal_nan=True)


def test_every_pair_of_int4_codes_in_a_byte(tmp_path: Path) -> None:
    low, high = np.meshgrid(np.arange(-8, 8, dtype=np.int8), np.arange(-8, 8, dtype=np.int8))
    codes = np.stack([low.ravel(), high.ravel()])
    scheme = Scheme(I4, group(256), F32)
    tensor = QuantTensor(scheme, (2, 256), {"codes": codes, "scale": np.array([[2.0], [-0.25]], np.float32)})
    found = read(tmp_path, tensor, "W4A16_AWQ")
    assert np.array_equal(found.parts["codes"], codes)
    assert np.array_equal(dequantize(found), codes * np.array([[2.0], [-0.25]], np.float32))


def test_scales_beside_the_weights(tmp_path: Path) -> None:
    folder = tiny_modelopt(tmp_path / "m", Scheme(I4, group(32), F32), keys={"quant_algo": "W4A8_AWQ"})
    for layer in (0, 1):
        put(f"model.layers.{layer}.mlp.down_proj.pre_quant_scale", "BF16", np.full(128, 0x4000, np.uint16))(
            folder
        )
    beside(folder, "input_scale", "F32", np.full((), 0.25, np.float32))
    beside(folder, "weight_scale_2", "F32", np.full((), 0.5, np.float32))
    put("model.layers.0.self_attn.k_proj.k_scale", "F32", np.full((), 0.125, np.float32))(folder)
    checkpoint = open_checkpoint(folder)
    layer = checkpoint.tensors[f"{DOWN}.weight"].layer
    assert layer.input_quant and str(layer.input_quant) == "e4m3tensor static"
    assert list(layer.demands()) == [("pre_scale", f"{DOWN}.pre_quant_scale")]
    assert (checkpoint.read_auxiliary(layer.pre_scale) == np.full(128, 2)).all()  # type: ignore[attr-defined]
    assert checkpoint.read_auxiliary("model.layers.0.self_attn.k_scale") == [0.125]  # type: ignore[attr-defined]
    assert "FP8 kernels" in checkpoint.explained[f"{DOWN}.weight_scale_2"]  # type: ignore[attr-defined]


def test_layers_of_their_own(tmp_path: Path) -> None:
    """Each layer by its name or that of what holds it; the scale of MXFP8 has two names."""
    folder = tiny_modelopt(tmp_path / "m", Scheme(E4M3, group(32), E8M0))
    layers = {
        f"model.layers.{i}.{part}": {"quant_algo": "MXFP8", "group_size": 32}
        for i in (0, 1)
        for part in ("mlp", "self_attn")
    }
    config = json.loads((folder / "config.json").read_text())
    side = {"quant_algo": "MIXED_PRECISION", "kv_cache_quant_algo": None, "quantized_layers": layers}
    del config["quantization_config"]
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "hf_quant_config.json").write_text(
        json.dumps({"producer": {"name": "modelopt"}, "quantization": side})
    )
    rename(f"{DOWN}.weight_scale", f"{DOWN}.weight_scale_inv")(folder)
    checkpoint = open_checkpoint(folder)
    assert checkpoint.format == "modelopt" and checkpoint.tensors[f"{DOWN}.weight"].scheme.name == "e4m3g32"
    assert checkpoint.unquantized["lm_head"] == "it is stored as a plain float"  # type: ignore[attr-defined]


def test_excluded_by_a_glob(tmp_path: Path) -> None:
    checkpoint = open_checkpoint(tiny_modelopt(tmp_path / "m", keys={"ignore": ["lm_*", "*embed*"]}))
    assert checkpoint.unquantized == {  # type: ignore[attr-defined]
        "lm_head": "the entry 'lm_*' of ignore or exclude_modules",
        "model.embed_tokens": "the entry '*embed*' of ignore or exclude_modules",
    }


@pytest.mark.parametrize(
    "scheme",
    [U4G32O, Scheme(E4M3, group(32), F32), Scheme(I4, CHANNEL, F32), Scheme(E2M1, group(16), E8M0)],
    ids=str,
)
def test_what_modelopt_cannot_say(scheme: Scheme) -> None:
    with pytest.raises(ValueError, match=f"ModelOpt cannot express the scheme {scheme}"):
        config_of(scheme)
