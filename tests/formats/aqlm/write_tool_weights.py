"""Writes tests/data/aqlm_weights.npz: what AQLM's own code makes of the tensors of the fixture, in f32.

Run as `python -m tests.formats.aqlm.write_tool_weights` where aqlm 1.1.7 and torch 2.13.0 are installed.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from aqlm.utils import _dequantize_weight, unpack_int_data

from fewbit.formats.aqlm.encode import encode
from fewbit.schemes.arrays import Array
from tests.formats.aqlm.fixture import TOOL_SHAPE, TOOL_SIZES, tiny_tensor

TARGET = Path(__file__).resolve().parents[2] / "data" / "aqlm_weights.npz"


def main() -> None:
    weights: dict[str, Array] = {}
    for settings in TOOL_SIZES:
        tensor = tiny_tensor(TOOL_SHAPE, settings, 5)
        leaves = {name: torch.from_numpy(held.array) for name, held in encode(tensor).items()}
        codes = unpack_int_data(leaves["codes"], settings.bits)
        weight = _dequantize_weight(codes, leaves["codebooks"].float(), leaves["scales"].float())
        weights[tensor.scheme.name] = weight.numpy()
    np.savez_compressed(TARGET, **weights)


if __name__ == "__main__":
    main()
