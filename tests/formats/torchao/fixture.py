"""Tiny torchao folders for tests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from fewbit.formats.folder.writer import DiskArray, as_disk, safetensors_bytes, write_json
from fewbit.formats.torchao.encode import config_of, encode
from fewbit.schemes.plain.scheme import BF16
from fewbit.schemes.reference import quantize
from fewbit.spec.dtype import BF16 as BF16_TYPE
from fewbit.spec.dtype import I4
from fewbit.spec.granularity import group
from fewbit.spec.scheme import Scheme
from tests.formats.plain.fixture import write_tiny_files
from tests.formats.tiny import tiny_config, tiny_weights

INT4 = Scheme(I4, group(32), scale=BF16_TYPE)


def tiny_torchao(
    folder: Path, scheme: Scheme = INT4, *, seed: int = 0, keys: dict[str, Any] | None = None, **changes: Any
) -> Path:
    """A random model whose projections are of the scheme."""
    folder.mkdir(parents=True, exist_ok=True)
    config = tiny_config(**changes)
    stored: dict[str, DiskArray] = {}
    metadata = {"format": "pt", "tensor_names": json.dumps(list(tiny_weights(config, seed)))}
    for name, weight in tiny_weights(config, seed).items():
        if "proj" in name and weight.ndim == 2:
            leaves, metadata[name] = encode(quantize(weight, scheme))
            stored |= {f"{name.removesuffix('weight')}{leaf}": array for leaf, array in leaves.items()}
        else:
            stored[name], metadata[name] = as_disk(quantize(weight, BF16)), '{"_type": "Tensor"}'
    (folder / "model.safetensors").write_bytes(safetensors_bytes(stored, metadata))
    write_tiny_files(folder, config)
    write_json(folder / "config.json", {**config, "quantization_config": config_of(scheme, **(keys or {}))})
    return folder
