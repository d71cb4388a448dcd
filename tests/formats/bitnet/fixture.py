"""Tiny BitNet folders for tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from fewbit.formats.bitnet.encode import config_of, encode
from fewbit.schemes.arrays import Array
from fewbit.schemes.floats.table import narrow
from fewbit.spec.dtype import BF16, I2
from fewbit.spec.granularity import TENSOR
from fewbit.spec.scheme import QuantTensor, Scheme
from tests.formats.stored import write_stored
from tests.formats.tiny import tiny_config, tiny_weights


def tiny_bitnet(folder: Path, *, seed: int = 0, keys: dict[str, Any] | None = None, **changes: Any) -> Path:
    """A random model of packed ternary projections; `keys` are added to the quantization config."""
    config = tiny_config(**changes)
    return write_stored(
        folder, config, config_of(**(keys or {})), tiny_weights(config, seed), lambda _, w: encode(ternary(w))
    )


def ternary(weight: Array) -> QuantTensor:
    """Weights over their mean magnitude, rounded."""
    scale = np.abs(weight).mean(keepdims=True).reshape(1)
    codes = np.clip(np.rint(weight / scale), -1, 1).astype(np.int8)
    parts = {"codes": codes, "scale": narrow(scale, BF16)}
    return QuantTensor(Scheme(I2, TENSOR, scale=BF16), weight.shape, parts)
