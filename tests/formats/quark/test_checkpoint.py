"""Quark folders: what is written is read, to the bit, for every element type and granularity."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fewbit.formats import open_checkpoint
from fewbit.formats.files import CheckedFile
from fewbit.formats.folder.resolve import Module, Resolved
from fewbit.formats.folder.safetensors import read_header
from fewbit.formats.folder.writer import safetensors_bytes
from fewbit.formats.quark.config import LayerSpec, Settings
from fewbit.formats.quark.encode import config_of, encode, spec_of
from fewbit.formats.quark.resolve import QuarkResolver
from fewbit.formats.quark.spec import read_spec
from fewbit.schemes.affine.scheme import U4G32O
from fewbit.schemes.floats.table import values
from fewbit.schemes.reference import dequantize
from fewbit.spec.dtype import BF16, E2M1, E2M3, E3M2, E4M3, E8M0, F32, I4, I8, U4
from fewbit.spec.granularity import CHANNEL, TENSOR, block, group
from fewbit.spec.refusal import CheckpointError
from fewbit.spec.scheme import QuantTensor, Scheme
from tests.formats.altered import beside, put
from tests.formats.quark.fixture import tiny_quark, tiny_tensor
from tests.formats.tiny import tiny_config, tiny_weights

FORMS = [
    Scheme(E4M3, TENSOR, F32), Scheme(E4M3, CHANNEL, BF16), Scheme(E4M3, group(32), E8M0), Scheme(I8, TENSOR, F32),
    Scheme(I8, CHANNEL, BF16), Scheme(I4, group(32), BF16), Scheme(U4, group(64), F32, zero_point=U4),
    Scheme(E2M1, group(32), E8M0), Scheme(E2M3, group(32), E8M0), Scheme(E3M2, group(32), E8M0),
    Scheme(E2M1, group(16), E4M3, global_scale=F32), Scheme(I4, CHANNEL, F32, global_scale=F32),
    Scheme(I8, group(32), E8M0),  # the last is MXINT8
]  # fmt: skip
DOWN = "model.layers.0.mlp.down_proj"


@pytest.mark.parametrize("reordered", [True, False])
@pytest.mark.parametrize("scheme", FORMS, ids=lambda s: f"{s}-{s.scale}")
def test_what_was_written_is_read(tmp_path: Path, scheme: Scheme, reordered: bool) -> None:
    checkpoint = open_checkpoint(tiny_quark(tmp_path / "m", scheme, reordered=reordered, seed=3))
    assert checkpoint.format == "quark"
    for name, weight in tiny_weights(tiny_config(), 3).items():
        found = checkpoint.read(name)
        if "proj" not in name:
            assert found.scheme.is_plain
            continue
        expected = tiny_tensor(weight, scheme)
        assert found.scheme == scheme == checkpoint.tensors[name].scheme
        for role, part in expected.parts.items():
            assert found.parts[role].dtype == part.dtype and np.array_equal(found.parts[role], part), role
        piece = checkpoint.read(name, 5, 29)
        assert np.array_equal(piece.parts["codes"], expected.parts["codes"][5:29])


def read(tmp_path: Path, tensor: QuantTensor) -> QuantTensor:
    path = tmp_path / "m.safetensors"
    path.write_bytes(safetensors_bytes(encode(tensor)))
    layer = LayerSpec(read_spec("a test", spec_of(tensor.scheme)), None)
    claims = QuarkResolver(Settings("a test", layer)).resolve(Module("m", read_header(CheckedFile(path))))
    claim = next(c for c in claims if isinstance(c, Resolved))
    n = tensor.shape[0]
    return QuantTensor(
        claim.scheme, claim.shape, {role: part.read(0, n) for role, part in claim.parts.items()}
    )


def test_every_uint4_code_with_every_zero_point(tmp_path: Path) -> None:
    codes = np.tile(np.arange(16, dtype=np.uint8), (16, 2))
    zeros = np.stack([np.arange(16), np.arange(16)[::-1]], axis=1).astype(np.uint8)
    scheme = Scheme(U4, group(16), F32, zero_point=U4)
    found = read(
        tmp_path,
        QuantTensor(
            scheme, (16, 32), {"codes": codes, "scale": np.ones((16, 2), np.float32), "zero_point": zeros}
        ),
    )
    assert np.array_equal(dequantize(found), codes.astype(np.float32) - np.repeat(zeros, 16, axis=1))


@pytest.mark.parametrize("codes", [E2M1, E2M3, E3M2, E4M3], ids=str)
def test_every_code_with_every_power(tmp_path: Path, codes: object) -> None:
    table = values(str(codes))
    k = max(32, len(table))
    every = np.tile(np.resize(np.arange(len(table)), k).astype(np.uint8), (256, 1))
    scale = np.tile(np.arange(256, dtype=np.uint8).reshape(-1, 1), (1, k // 32))
    tensor = QuantTensor(Scheme(codes, group(32), E8M0), (256, k), {"codes": every, "scale": scale})  # type: ignore[arg-type]
    with np.errstate(over="ignore"):
        expected = table[every] * values("e8m0")[scale[:, :1]]
        assert np.array_equal(dequantize(read(tmp_path, tensor)), expected, equal_nan=True)


def test_every_code_of_mxint8_with_every_power(tmp_path: Path) -> None:
    """A code is a whole number: where another writer counts it in 64ths, its powers are 6 lower."""
    codes = np.tile(np.arange(-128, 128, dtype=np.int8), (255, 1))
    scale = np.tile(np.arange(255, dtype=np.uint8).reshape(-1, 1), (1, 8))
    found = read(
        tmp_path, QuantTensor(Scheme(I8, group(32), E8M0), (255, 256), {"codes": codes, "scale": scale})
    )
    with np.errstate(over="ignore"):
        expected = codes.astype(np.float32) * values("e8m0")[scale[:, :1]]
    assert np.array_equal(found.parts["codes"], codes) and np.array_equal(dequantize(found), expected)


def test_zero_points_of_two_levels_are_zero(tmp_path: Path) -> None:
    folder = tiny_quark(tmp_path / "m", Scheme(I4, CHANNEL, F32, global_scale=F32))
    rows = {name: info.shape[0] for name, info in open_checkpoint(folder).tensors.items() if "proj" in name}
    for name, n in rows.items():
        put(name.replace(".weight", ".weight_zero_point_2"), "I32", np.zeros(n // 8, np.int32))(folder)
    assert str(open_checkpoint(folder).read(f"{DOWN}.weight").scheme) == "i4channels"
    put(f"{DOWN}.weight_zero_point_2", "I32", np.full(8, 1 << 28, np.int32))(folder)
    with pytest.raises(CheckpointError, match="has a zero point other than 0"):
        open_checkpoint(folder).read(f"{DOWN}.weight")


def test_every_code_of_two_levels(tmp_path: Path) -> None:
    codes = np.tile(np.arange(-8, 8, dtype=np.int8), (16, 2))
    scale = np.linspace(0.5, 2, 16, dtype=np.float32).reshape(-1, 1)
    parts = {"codes": codes, "scale": scale, "global_scale": np.full(1, 0.25, np.float32)}
    found = read(tmp_path, QuantTensor(Scheme(I4, CHANNEL, F32, global_scale=F32), (16, 32), parts))
    assert np.array_equal(dequantize(found), codes * (scale * np.float32(0.25)))


def test_zero_points_of_int8(tmp_path: Path) -> None:
    scheme = Scheme(I8, CHANNEL, F32, zero_point=I8)
    codes = np.tile(np.arange(-128, 128, dtype=np.int8), (256, 1))
    parts = {
        "codes": codes,
        "scale": np.ones((256, 1), np.float32),
        "zero_point": np.arange(-128, 128, dtype=np.int8).reshape(-1, 1),
    }
    found = dequantize(read(tmp_path, QuantTensor(scheme, (256, 256), parts)))
    assert np.array_equal(found, codes.astype(np.float32) - parts["zero_point"])


def test_specs_by_name_and_type(tmp_path: Path) -> None:
    fp8, other = {"weight": spec_of(Scheme(E4M3, TENSOR, F32))}, {"weight": spec_of(Scheme(I8, TENSOR, F32))}
    folder = tiny_quark(
        tmp_path / "m", Scheme(E4M3, TENSOR, F32),
        keys={"global_quant_config": None, "layer_type_quant_config": {"<class 'torch.nn.modules.linear.Linear'>": other},
              "layer_quant_config": {"*_proj": fp8}, "exclude": ["*embed*"]},
    )  # fmt: skip
    checkpoint = open_checkpoint(folder)
    assert checkpoint._resolution.tensors[f"{DOWN}.weight"].rule == "layer_quant_config '*_proj'"  # type: ignore[attr-defined]
    assert checkpoint.unquantized["lm_head"] == "it is stored as a plain float"  # type: ignore[attr-defined]
    assert checkpoint.unquantized["model.embed_tokens"] == "the entry '*embed*' of exclude"  # type: ignore[attr-defined]


def test_inputs_and_the_scales_of_the_cache(tmp_path: Path) -> None:
    scheme = Scheme(I8, TENSOR, F32)
    layer = {"weight": spec_of(scheme), "input_tensors": spec_of(scheme)}
    folder = tiny_quark(tmp_path / "m", scheme, keys={"global_quant_config": layer})
    beside(folder, "input_scale", "F32", np.full((), 0.25, np.float32))
    beside(folder, "input_zero_point", "I8", np.full((), -3, np.int8))
    put("model.layers.0.self_attn.v_proj.output_scale", "F32", np.full((), 0.125, np.float32))(folder)
    checkpoint = open_checkpoint(folder)
    inputs = checkpoint.tensors[f"{DOWN}.weight"].layer.input_quant
    assert inputs and inputs.is_static and checkpoint.read_auxiliary(inputs.zero_point) == [-3]  # type: ignore[attr-defined]
    assert checkpoint.read_auxiliary("model.layers.0.self_attn.v_scale") == [0.125]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "scheme",
    [U4G32O, Scheme(E4M3, block(128, 128), F32), Scheme(I4, CHANNEL, F32), Scheme(E2M1, group(32), F32)],
    ids=str,
)
def test_what_quark_cannot_say(scheme: Scheme) -> None:
    with pytest.raises(ValueError, match=f"Quark cannot express the scheme {scheme}"):
        config_of(scheme)
