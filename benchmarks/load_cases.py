"""Checkpoints to load: every format that stores 4 or 8 bits, in layers of a real size, filled with random codes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fewbit.formats.awq import encode as awq
from fewbit.formats.awq.config import Settings as AwqSettings
from fewbit.formats.bitsandbytes import encode as bitsandbytes
from fewbit.formats.compressed_tensors import encode as compressed
from fewbit.formats.folder.writer import DiskArray, as_disk, write_json, write_weights
from fewbit.formats.fp8 import encode as fp8
from fewbit.formats.gguf.types import BY_SCHEME, TYPES
from fewbit.formats.gptq import encode as gptq
from fewbit.formats.gptq.config import Settings as GptqSettings
from fewbit.formats.mlx import encode as mlx
from fewbit.formats.mlx.config import Settings as MlxSettings
from fewbit.formats.modelopt import encode as modelopt
from fewbit.formats.quark import encode as quark
from fewbit.schemes.plain.scheme import BF16, F32
from fewbit.spec import dtype
from fewbit.spec.dtype import DType
from fewbit.spec.granularity import CHANNEL, block, group
from fewbit.spec.scheme import QuantTensor, Scheme
from tests.formats.gguf.fixture import (
    RawTensor,
    disk_names,
    raw_tensor,
    tiny_metadata,
    tiny_tokenizer,
    write_gguf,
)
from tests.formats.plain.fixture import write_tiny_files
from tests.formats.tiny import tiny_config

SIZES = {
    "hidden_size": 4096, "intermediate_size": 14336, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128,
}  # fmt: skip
PROJECTIONS = {
    "self_attn.q_proj": (4096, 4096), "self_attn.k_proj": (1024, 4096), "self_attn.v_proj": (1024, 4096),
    "self_attn.o_proj": (4096, 4096), "mlp.gate_proj": (14336, 4096), "mlp.up_proj": (14336, 4096),
    "mlp.down_proj": (4096, 14336),
}  # fmt: skip
NORMS = ("input_layernorm", "post_attention_layernorm")
CHECKED = "model.layers.0.mlp.down_proj.weight"
CHECKED_ROWS = 64

Layer = Mapping[str, QuantTensor]


@dataclass(frozen=True, slots=True)
class Case:
    """`encode` gives the tensors of a module by leaf; None: a GGUF file. `key` holds `config` in config.json."""

    name: str
    scheme: Scheme
    encode: Callable[[QuantTensor], dict[str, DiskArray]] | None = None
    config: Mapping[str, object] | None = None
    key: str = "quantization_config"


def _affine(codes: str, k: int, *, zero: str = "", offset: str = "", scale: str = "f16") -> Scheme:
    shared = group(k) if k else CHANNEL
    return Scheme(
        dtype.dtype(codes), shared, scale=dtype.dtype(scale), zero_point=dtype.dtype(zero) if zero else None,
        offset=dtype.dtype(offset) if offset else None,
    )  # fmt: skip


def _gptq(name: str, settings: GptqSettings) -> Case:
    codes = f"{'i' if settings.sym else 'u'}{settings.bits}"
    scheme = _affine(codes, settings.group_size, zero="" if settings.sym else codes)
    return Case(name, scheme, lambda tensor: gptq.encode(tensor, settings), gptq.config_of(settings))


def _awq(name: str, settings: AwqSettings) -> Case:
    scheme = _affine("u4", settings.group_size, zero="u4")
    return Case(name, scheme, lambda tensor: awq.encode(tensor, settings), awq.config_of(settings))


def _compressed(name: str, scheme: Scheme) -> Case:
    return Case(name, scheme, compressed.encode, compressed.config_of(scheme))


def _mlx(name: str, settings: MlxSettings, scale: str = "f16") -> Case:
    scheme = mlx.scheme_of(settings, scale)
    return Case(
        name, scheme, lambda tensor: mlx.encode(tensor, settings), mlx.config_of(settings), "quantization"
    )


NVFP4 = Scheme(dtype.E2M1, group(16), dtype.E4M3, global_scale=dtype.F32)
MXFP4 = Scheme(dtype.E2M1, group(32), dtype.E8M0)
NF4 = Scheme(dtype.U4, group(64), dtype.F32, codebook=dtype.F32)
BLOCKS = Scheme(dtype.E4M3, block(128, 128), dtype.F32)
U4G128Z = _affine("u4", 128, zero="u4", scale="f32")

CASES = (
    *(Case(f"gguf {TYPES[i].name}", TYPES[i].scheme) for i in (2, 3, 6, 7, 8, 10, 11, 12, 13, 14, 20, 23, 39, 40)),
    Case("plain bf16", BF16, lambda tensor: {"weight": as_disk(tensor)}),
    _gptq("gptq 4 bits, group 32", GptqSettings(4, 32, True)),
    _gptq("gptq 4 bits, group 128", GptqSettings(4, 128, True)),
    _gptq("gptq 4 bits, zero points", GptqSettings(4, 128, False)),
    _gptq("gptq 8 bits, group 32", GptqSettings(8, 32, True)),
    _gptq("gptq marlin", GptqSettings(4, 128, True, marlin=True)),
    _awq("awq gemm", AwqSettings(128, True, "gemm")),
    _compressed("compressed-tensors W4A16, group 32", _affine("i4", 32)),
    _compressed("compressed-tensors W4A16, group 128", _affine("i4", 128, scale="bf16")),
    _compressed("compressed-tensors W8A16, group 32", _affine("i8", 32)),
    _compressed("compressed-tensors W8A8 int", _affine("i8", 0, scale="bf16")),
    _compressed("compressed-tensors W8A8 fp8", Scheme(dtype.E4M3, CHANNEL, dtype.BF16)),
    _compressed("compressed-tensors nvfp4", NVFP4),
    _mlx("mlx 4 bits, group 32", MlxSettings(4, 32)),
    _mlx("mlx 4 bits, group 64", MlxSettings(4, 64), "bf16"),
    _mlx("mlx mxfp4", MlxSettings(4, 32, "mxfp4")),
    Case("fp8 blocks", BLOCKS, fp8.encode, fp8.config_of(BLOCKS)),
    Case("modelopt nvfp4", NVFP4, modelopt.encode, modelopt.config_of(NVFP4)),
    Case("quark mxfp4", MXFP4, quark.encode, quark.config_of(MXFP4)),
    Case("quark uint4", U4G128Z, quark.encode, quark.config_of(U4G128Z)),
    Case("bitsandbytes nf4", NF4, bitsandbytes.encode, bitsandbytes.config_of("nf4")),
)  # fmt: skip


def random_tensor(scheme: Scheme, n: int, k: int, rng: np.random.Generator) -> QuantTensor:
    """Every code, scales of a usual size."""
    types = scheme.part_dtypes()
    parts = {role: _random(role, types[role], shape, rng) for role, shape in scheme.part_shapes(n, k).items()}
    if scheme.codebook:
        own = BY_SCHEME[scheme].codebook if scheme in BY_SCHEME else bitsandbytes.CODEBOOKS["nf4"]
        parts["codebook"] = np.array(own, np.float32)
    return QuantTensor(scheme, (n, k), parts)


def _random(role: str, element: DType, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    if not element.is_float:
        stored = np.int8 if element.kind == "signed" else np.uint8
        return rng.integers(element.lowest, element.highest + 1, shape, dtype=stored)
    codes = role == "codes"
    match element.name:
        case "bf16":  # magnitudes from 2^-9 to 1, both signs where they are weights
            signs = rng.integers(0, 1 + codes, shape, dtype=np.uint16) << np.uint16(15)
            return rng.integers(0x3B00, 0x3F80, shape, dtype=np.uint16) | signs
        case "e4m3":  # below the codes that are no numbers
            return rng.integers(0 if codes else 0x28, 0x7F if codes else 0x40, shape, dtype=np.uint8)
        case "e8m0":
            return rng.integers(115, 122, shape, dtype=np.uint8)
        case "e2m1":
            return rng.integers(0, 16, shape, dtype=np.uint8)
    if role == "global_scale":
        return np.full(shape, 0.25, np.float32)
    return rng.uniform(0.005, 0.02, shape).astype(f"f{element.bits // 8}")


def write(case: Case, folder: Path, layers: int, seed: int = 5) -> tuple[Path, QuantTensor]:
    """The checkpoint, whose layers are alike, and the first rows of CHECKED as they must come out."""
    rng = np.random.default_rng(seed)
    layer = {name: random_tensor(case.scheme, n, k, rng) for name, (n, k) in PROJECTIONS.items()}
    config: dict[str, Any] = tiny_config(**SIZES, num_hidden_layers=layers)
    ones = QuantTensor(F32, (SIZES["hidden_size"],), {"codes": np.ones(SIZES["hidden_size"], np.float32)})
    norms = {f"model.layers.{i}.{name}.weight": ones for i in range(layers) for name in NORMS}
    table = random_tensor(BF16, config["vocab_size"], SIZES["hidden_size"], rng)
    others = {**norms, "model.norm.weight": ones, "model.embed_tokens.weight": table, "lm_head.weight": table}
    writer = _write_gguf if case.encode is None else _write_folder
    return writer(case, folder, layers, config, layer, others), layer["mlp.down_proj"]


def _write_folder(
    case: Case, folder: Path, layers: int, config: dict[str, Any], layer: Layer, others: Layer
) -> Path:
    assert case.encode
    folder.mkdir()
    modules = {name: case.encode(tensor) for name, tensor in layer.items()}
    stored: dict[str, QuantTensor | DiskArray] = {
        f"model.layers.{i}.{name}.{leaf}": array
        for i in range(layers)
        for name, leaves in modules.items()
        for leaf, array in leaves.items()
    }
    write_weights(folder, {**stored, **others})
    write_tiny_files(folder, config)
    write_json(folder / "config.json", {**config, **({case.key: case.config} if case.config else {})})
    return folder


def _write_gguf(
    case: Case, folder: Path, layers: int, config: dict[str, Any], layer: Layer, others: Layer
) -> Path:
    folder.mkdir()
    names = disk_names("llama", layers)
    raw = {name: raw_tensor(tensor) for name, tensor in layer.items()}
    tensors: dict[str, QuantTensor | RawTensor] = {
        names[f"model.layers.{i}.{name}.weight"]: tensor
        for i in range(layers)
        for name, tensor in raw.items()
    }
    tensors |= {names[name]: tensor for name, tensor in others.items()}
    return write_gguf(folder / "model.gguf", {**tiny_metadata("llama", config), **tiny_tokenizer()}, tensors)
