"""Tiny VPTQ folders for tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from fewbit.formats.folder.writer import DiskArray, as_disk, write_json, write_weights
from fewbit.formats.vptq.encode import config_of, encode, layer_of
from fewbit.schemes.arrays import Array
from fewbit.schemes.plain.scheme import BF16
from fewbit.schemes.reference import quantize
from fewbit.schemes.vector.scheme import Columns, vptq
from fewbit.spec.dtype import F16
from fewbit.spec.scheme import QuantTensor
from tests.formats.plain.fixture import write_tiny_files
from tests.formats.tiny import tiny_config, tiny_weights

ALL = Columns(8, 16, 2, 4, 8, 4, 6, True, True)
FORMS = {
    "main": Columns(8, 256),
    "rows that do not divide": Columns(6, 32, 1, 8),
    "residual": Columns(4, 4096, 1, 256),
    "fields of 28 bits": Columns(2, 1 << 14, 1, 1 << 14),
    "groups": Columns(8, 64, 4, 16),
    "outliers": Columns(8, 32, 1, 0, 8, 4, 7),
    "order": Columns(8, 32, ordered=True),
    "norm": Columns(8, 32, scaled=True),
    "all": ALL,
}
TOOL_SHAPE = (20, 32)  # of those that VPTQ's own code dequantized


def tiny_tensor(shape: tuple[int, int], form: Columns, seed: int = 0) -> QuantTensor:
    """Random parts."""
    rng = np.random.default_rng((seed, *shape))
    scheme = vptq(form, shape[1], codebook=F16, scale=F16)
    most = {"codes": form.centroids, "residual_codes": form.residual, "outlier_codes": form.outlier_centroids}
    parts: dict[str, Array] = {}
    for role, extents in scheme.part_shapes(*shape).items():
        if role in most:
            parts[role] = rng.integers(0, most[role], extents).astype(np.uint16)
        elif role == "column_order":
            parts[role] = rng.permutation(shape[1]).astype(np.int32)
        else:
            parts[role] = rng.standard_normal(extents).astype(np.float16)
    return QuantTensor(scheme, shape, parts)


def tiny_vptq(
    folder: Path, form: Columns = ALL, *, seed: int = 0, keys: dict[str, Any] | None = None, **changes: Any
) -> Path:
    """A random model whose projections are of `form`; `keys` are added to the quantization config."""
    folder.mkdir(parents=True, exist_ok=True)
    config = tiny_config(**changes)
    stored: dict[str, DiskArray] = {}
    layers: dict[str, dict[str, Any]] = {}
    for name, weight in tiny_weights(config, seed).items():
        if "proj" in name:
            tensor, module = tiny_tensor(weight.shape, form, seed), name.removesuffix(".weight")
            layers[module] = layer_of(tensor)
            stored |= {f"{module}.{leaf}": array for leaf, array in encode(tensor).items()}
        else:
            stored[name] = as_disk(quantize(weight, BF16))
    write_weights(folder, stored)
    write_tiny_files(folder, config)
    said = config_of(layers, **(keys or {}))
    write_json(folder / "config.json", {**config, "quantization_config": said})
    return folder
