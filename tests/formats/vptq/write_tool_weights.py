"""Writes tests/data/vptq_weights.npz: what VPTQ's own code makes of the tensors of the fixture, in f32.

Run as `python -m tests.formats.vptq.write_tool_weights` where vptq 0.0.5, sentence-transformers and torch 2.13.0 are installed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from vptq.ops.quant_gemm import dequant

from fewbit.formats.vptq.encode import encode, layer_of
from fewbit.schemes.arrays import Array
from fewbit.schemes.vector.scheme import Columns
from tests.formats.vptq.fixture import FORMS, TOOL_SHAPE, tiny_tensor

TARGET = Path(__file__).resolve().parents[2] / "data" / "vptq_weights.npz"


def theirs(form: Columns) -> Array:
    tensor = tiny_tensor(TOOL_SHAPE, form, 5)
    layer, leaves = layer_of(tensor), encode(tensor)
    held: dict[str, Any] = {name: torch.from_numpy(leaf.array.copy()) for name, leaf in leaves.items()}

    def book(leaf: str, groups: int, rows: int) -> Any:
        return held[leaf].float().view(groups, -1, rows) if leaf in held else None

    rows, groups, n = layer["vector_lens"], layer["group_num"], TOOL_SHAPE[0]
    outliers = "outlier_indices" in held
    weight = dequant(
        indices=held["indices"], centroids=book("centroids.weight", groups, rows[1]),
        outlier_indices=held.get("outlier_indices"), outlier_centroids=book("outlier_centroids.weight", 1, rows[0]),
        res_indices=None, res_centroids=book("res_centroids.weight", groups, rows[1]), perm=held.get("perm"),
        weight_scale=held["weight_scale"].float() if "weight_scale" in held else None,
        weight_bias=held["weight_bias"].float() if "weight_bias" in held else None, is_indice_packed=True,
        enable_outlier=outliers, enable_residual="res_centroids.weight" in held, enable_perm="perm" in held,
        enable_norm="weight_scale" in held, num_centroids=layer["num_centroids"][1],
        num_outlier_centroids=layer["num_centroids"][0], num_res_centroids=layer["num_res_centroids"][1],
        padding=-n % rows[1], outlier_padding=-n % rows[0] if outliers else 0, num_codebooks=groups,
        group_size=layer["group_size"], outlier_size=layer["outlier_size"], vector_len=rows[1], outlier_vector_len=rows[0],
    )  # fmt: skip
    found: Array = weight.numpy()
    return found


def main() -> None:
    np.savez_compressed(TARGET, **{name: theirs(form) for name, form in FORMS.items()})


if __name__ == "__main__":
    main()
