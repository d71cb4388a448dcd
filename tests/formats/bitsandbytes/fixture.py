"""Tiny bitsandbytes folders for tests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from fewbit.formats.bitsandbytes.decode import INT8_STEP
from fewbit.formats.bitsandbytes.encode import CODEBOOKS, INT8, config_of, encode
from fewbit.formats.bitsandbytes.resolve import STATE
from fewbit.formats.folder.writer import DiskArray, as_disk, write_json, write_weights
from fewbit.schemes.arrays import Array
from fewbit.schemes.plain.scheme import BF16
from fewbit.schemes.reference import quantize
from fewbit.spec.dtype import F32, U4
from fewbit.spec.granularity import group
from fewbit.spec.scheme import QuantTensor, Scheme
from tests.formats.plain.fixture import write_tiny_files
from tests.formats.tiny import tiny_config, tiny_weights

NESTED_MAP: Array = np.linspace(-1, 1, 256, dtype=np.float32)


def tiny_bitsandbytes(
    folder: Path,
    quant_type: str = "nf4",
    *,
    seed: int = 0,
    double: bool = False,
    keys: dict[str, Any] | None = None,
    **changes: Any,
) -> Path:
    """A random model whose projections are nf4, fp4 or int8; `double`: their scales are quantized too."""
    folder.mkdir(parents=True, exist_ok=True)
    config = tiny_config(**changes)
    stored: dict[str, DiskArray] = {}
    for name, weight in tiny_weights(config, seed).items():
        if "proj" in name and weight.ndim == 2:
            leaves = encode(tiny_tensor(weight, quant_type))
            if double:
                leaves = nest(leaves, f"{STATE}{quant_type}")
            stored |= {f"{name.removesuffix('weight')}{leaf}": array for leaf, array in leaves.items()}
        else:
            stored[name] = as_disk(quantize(weight, BF16))
    write_weights(folder, stored)
    write_tiny_files(folder, config)
    quantization = config_of(quant_type, double, **(keys or {}))
    write_json(folder / "config.json", {**config, "quantization_config": quantization})
    return folder


def tiny_tensor(weight: Array, quant_type: str, blocksize: int = 32) -> QuantTensor:
    """Rounded to nearest, each block by its largest magnitude."""
    if quant_type == "int8":
        largest = np.abs(weight).max(axis=1, keepdims=True).astype(np.float32)
        scale = largest * INT8_STEP
        codes = np.clip(np.rint(weight / scale), -127, 127).astype(np.int8)
        return QuantTensor(INT8, weight.shape, {"codes": codes, "scale": scale})
    codebook = CODEBOOKS[quant_type]
    blocks = weight.reshape(weight.shape[0], -1, blocksize)
    scale = np.abs(blocks).max(axis=2)
    codes = np.abs((blocks / scale[..., None])[..., None] - codebook).argmin(axis=-1).astype(np.uint8)
    scheme = Scheme(U4, group(blocksize), scale=F32, codebook=F32)
    parts = {"codes": codes.reshape(weight.shape), "scale": scale, "codebook": codebook}
    return QuantTensor(scheme, weight.shape, parts)


def nest(leaves: dict[str, DiskArray], state_leaf: str, blocksize: int = 256) -> dict[str, DiskArray]:
    """The same weight with its scales quantized: an offset taken off, then blocks of a map of 256."""
    absmax = leaves["weight.absmax"].array
    offset = float(absmax.mean())
    rest = absmax - np.float32(offset)
    outer = np.array(
        [np.abs(rest[i : i + blocksize]).max() for i in range(0, len(rest), blocksize)], np.float32
    )
    ratio = rest / np.repeat(outer, blocksize)[: len(rest)]
    codes = np.abs(ratio[:, None] - NESTED_MAP).argmin(axis=1).astype(np.uint8)
    state = json.loads(leaves[state_leaf].array.tobytes())
    state |= {"nested_blocksize": blocksize, "nested_dtype": "float32", "nested_offset": offset}
    return leaves | {
        "weight.absmax": DiskArray("U8", codes),
        "weight.nested_absmax": DiskArray("F32", outer),
        "weight.nested_quant_map": DiskArray("F32", NESTED_MAP),
        state_leaf: DiskArray("U8", np.frombuffer(json.dumps(state).encode(), np.uint8)),
    }
