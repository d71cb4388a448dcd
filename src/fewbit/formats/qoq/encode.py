"""Canonical tensors as QServe stores them: the exact inverse of `resolve`."""

from __future__ import annotations

import numpy as np

from fewbit.formats.folder.writer import DiskArray
from fewbit.formats.qoq.config import GROUP, METHOD
from fewbit.formats.qoq.decode import TILE, tile, to_runs
from fewbit.formats.qoq.resolve import BY_ROW, by_groups
from fewbit.spec.scheme import QuantTensor


def encode(tensor: QuantTensor) -> dict[str, DiskArray]:
    """ValueError when QoQ cannot say what the tensor holds."""
    (n, k), parts = tensor.shape, tensor.parts
    grouped = tensor.scheme != BY_ROW
    if grouped and tensor.scheme != by_groups(k):
        raise ValueError(f"QoQ cannot express the scheme {tensor.scheme}")
    if n % TILE or k % (GROUP if grouped else TILE):
        raise ValueError(f"QoQ stores tiles of {TILE} x {TILE} codes, which {n} x {k} does not fill")
    leaves = {"qweight": DiskArray("I8", tile(parts["codes"]))}
    if not grouped:
        scale, zeros = parts["scale"].reshape(n), -parts["offset"].reshape(n)
        return leaves | {"s1_scales": DiskArray("F16", scale), "s1_szeros": DiskArray("F16", zeros)}
    if not np.array_equal(parts["super_offset"], -parts["super_scale"]):
        raise ValueError("QoQ has one scale a row for codes and zero points; here they differ")
    return leaves | {
        "s1_scales": DiskArray("F16", parts["super_scale"].reshape(n)),
        "s2_scales": DiskArray("I8", to_runs(parts["scale"])),
        "s2_zeros": DiskArray("I8", to_runs(parts["offset"])),
    }


def config_of(grouped: bool, **more: object) -> dict[str, object]:
    return {"quant_method": METHOD, "wbits": 4, "group_size": GROUP if grouped else -1, **more}
