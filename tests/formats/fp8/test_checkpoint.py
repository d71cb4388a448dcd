"""FP8 folders: what is written is read, to the bit, for every granularity and kind of scale."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fewbit.formats import open_checkpoint
from fewbit.formats.files import CheckedFile
from fewbit.formats.folder.resolve import Module, Resolved
from fewbit.formats.folder.safetensors import read_header
from fewbit.formats.folder.writer import safetensors_bytes
from fewbit.formats.fp8.config import Settings
from fewbit.formats.fp8.encode import config_of, encode
from fewbit.formats.fp8.resolve import Fp8Resolver
from fewbit.schemes.affine.scheme import U4G32O
from fewbit.schemes.floats.table import values
from fewbit.schemes.reference import dequantize, quantize
from fewbit.spec.dtype import BF16, E4M3, E4M3FNUZ, E8M0, F32
from fewbit.spec.granularity import CHANNEL, TENSOR, block, group
from fewbit.spec.scheme import QuantTensor, Scheme
from tests.formats.altered import put, rename
from tests.formats.fp8.fixture import BLOCKS, tiny_fp8
from tests.formats.tiny import tiny_config, tiny_weights

FORMS = [
    BLOCKS, Scheme(E4M3, block(48, 48), E8M0), Scheme(E4M3, block(128, 128), F32), Scheme(E4M3, block(32, 64), BF16),
    Scheme(E4M3, TENSOR, F32), Scheme(E4M3, CHANNEL, F32), Scheme(E4M3FNUZ, TENSOR, BF16), Scheme(E4M3, group(32), E8M0),
]  # fmt: skip


@pytest.mark.parametrize("scheme", FORMS, ids=lambda s: f"{s}-{s.scale}")
def test_what_was_written_is_read(tmp_path: Path, scheme: Scheme) -> None:
    checkpoint = open_checkpoint(tiny_fp8(tmp_path / "m", scheme, seed=3))
    assert checkpoint.format == "fp8"
    for name, weight in tiny_weights(tiny_config(), 3).items():
        found = checkpoint.read(name)
        if "proj" not in name:
            assert found.scheme.is_plain
            continue
        expected = quantize(weight, scheme)
        assert found.scheme == scheme == checkpoint.tensors[name].scheme
        for role, part in expected.parts.items():
            assert found.parts[role].dtype == part.dtype and np.array_equal(found.parts[role], part), role
        start = scheme.block_n
        if start < weight.shape[0]:
            piece = dequantize(checkpoint.read(name, start, weight.shape[0] - 1))
            assert np.array_equal(piece, dequantize(expected)[start:-1])


@pytest.mark.parametrize("codes", [E4M3, E4M3FNUZ], ids=str)
def test_every_code_with_extreme_scales(tmp_path: Path, codes: object) -> None:
    scheme = Scheme(codes, block(1, 256), F32)  # type: ignore[arg-type]
    scale = np.array([1, 1e-38, 2.0**100, -0.5, 0, 1e-45], np.float32).reshape(-1, 1)
    tensor = QuantTensor(
        scheme, (6, 256), {"codes": np.tile(np.arange(256, dtype=np.uint8), (6, 1)), "scale": scale}
    )
    path = tmp_path / "m.safetensors"
    path.write_bytes(
        safetensors_bytes(encode(QuantTensor(Scheme(codes, block(1, 256), F32), (6, 256), tensor.parts)))
    )  # type: ignore[arg-type]
    resolver = Fp8Resolver(Settings("a test", (2, 256)))
    with pytest.raises(Exception, match="one scale for each block of 2 x 256"):
        list(resolver.resolve(Module("m", read_header(CheckedFile(path)))))
    claims = Fp8Resolver(Settings("a test", None)).resolve(Module("m", read_header(CheckedFile(path))))
    claim = next(c for c in claims if isinstance(c, Resolved))
    read = QuantTensor(claim.scheme, (6, 256), {role: part.read(0, 6) for role, part in claim.parts.items()})
    assert np.array_equal(dequantize(read), values(str(codes)) * scale, equal_nan=True)


def test_a_module_that_is_skipped_is_plain_by_that_rule(tmp_path: Path) -> None:
    folder = tiny_fp8(tmp_path / "m", keys={"modules_to_not_convert": ["lm_head", "embed_tokens"]})
    checkpoint = open_checkpoint(folder)
    assert checkpoint.unquantized["lm_head"] == "the entry 'lm_head' of modules_to_not_convert"
    assert (
        checkpoint.unquantized["model.embed_tokens"] == "the entry 'embed_tokens' of modules_to_not_convert"
    )


def test_static_inputs_and_the_scales_of_the_cache(tmp_path: Path) -> None:
    folder = tiny_fp8(tmp_path / "m", Scheme(E4M3, TENSOR, F32), keys={"activation_scheme": "static"})
    for layer in range(2):
        at = f"model.layers.{layer}."
        for module in ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj", "mlp.gate_proj",
                       "mlp.up_proj", "mlp.down_proj"):  # fmt: skip
            put(f"{at}{module}.input_scale", "F32", np.full((), 0.25, np.float32))(folder)
        put(f"{at}self_attn.k_proj.k_scale", "F32", np.full(1, 0.5, np.float32))(folder)
        put(f"{at}self_attn.v_scale", "F32", np.full((), 0.125, np.float32))(folder)
    rename("model.layers.0.mlp.down_proj.weight_scale_inv", "model.layers.0.mlp.down_proj.weight_scale")(
        folder
    )
    checkpoint = open_checkpoint(folder)
    inputs = checkpoint.tensors["model.layers.0.mlp.down_proj.weight"].layer.input_quant
    assert inputs and inputs.is_static and checkpoint.read_auxiliary(inputs.scale) == [0.25]  # type: ignore[attr-defined]
    assert checkpoint.read_auxiliary("model.layers.1.self_attn.k_scale") == [0.5]  # type: ignore[attr-defined]
    assert checkpoint.read_auxiliary("model.layers.1.self_attn.v_scale") == [0.125]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "scheme", [U4G32O, Scheme(E4M3, group(32), F32), Scheme(E4M3, group(64), E8M0)], ids=str
)
def test_what_fp8_cannot_say(scheme: Scheme) -> None:
    with pytest.raises(ValueError, match=f"an FP8 folder cannot express the scheme {scheme}"):
        config_of(scheme)
