"""Tiny folders of w8a8_int8, w8a8_fp8 and blockwise_int8 for tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fewbit.formats.folder.writer import DiskArray, as_disk, write_json, write_weights
from fewbit.formats.w8a8.config import BLOCKWISE
from fewbit.schemes.plain.scheme import BF16
from fewbit.schemes.reference import quantize
from fewbit.spec.dtype import E4M3, F32, I8
from fewbit.spec.granularity import CHANNEL, Granularity
from fewbit.spec.scheme import Scheme
from tests.formats.plain.fixture import write_tiny_files
from tests.formats.tiny import tiny_config, tiny_weights


def scheme_of(method: str, block: tuple[int, int]) -> Scheme:
    granularity = Granularity("block", *block) if method == BLOCKWISE else CHANNEL
    return Scheme(E4M3 if method == "w8a8_fp8" else I8, granularity, scale=F32)


def tiny_w8a8(
    folder: Path,
    method: str = "w8a8_int8",
    *,
    seed: int = 0,
    block: tuple[int, int] = (32, 32),
    keys: dict[str, Any] | None = None,
    **changes: Any,
) -> Path:
    """A random model whose projections are quantized."""
    folder.mkdir(parents=True, exist_ok=True)
    config, scheme = tiny_config(**changes), scheme_of(method, block)
    stored: dict[str, DiskArray] = {}
    for name, weight in tiny_weights(config, seed).items():
        if "proj" in name and weight.ndim == 2:
            parts = quantize(weight, scheme).parts
            stored[name] = DiskArray("F8_E4M3" if scheme.codes == E4M3 else "I8", parts["codes"])
            stored[f"{name}_scale{'_inv' if method == BLOCKWISE else ''}"] = DiskArray("F32", parts["scale"])
        else:
            stored[name] = as_disk(quantize(weight, BF16))
    write_weights(folder, stored)
    write_tiny_files(folder, config)
    said = {"quant_method": method, "ignore": ["lm_head"]} | (
        {"weight_block_size": list(block)} if method == BLOCKWISE else {}
    )
    write_json(folder / "config.json", {**config, "quantization_config": {**said, **(keys or {})}})
    return folder
