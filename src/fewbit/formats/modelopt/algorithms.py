"""What each `quant_algo` stores: the element type of the weights, what shares a scale, and what its activations are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Weights = Literal["fp8", "nvfp4", "mxfp8", "mxfp4", "int4", "int8"]
Inputs = Literal["", "fp8", "fp8 token", "nvfp4", "mxfp8", "int8"]


@dataclass(frozen=True, slots=True)
class Algorithm:
    """`group`: how many columns share a scale, 0: as the tensor's shape says. `tile`: rows and columns of a block.
    `smoothed`: every layer's activations have a scale of their own columns, folded into nothing."""

    weights: Weights
    inputs: Inputs = ""
    group: int = 0
    tile: tuple[int, int] | None = None
    by_row: bool = False
    smoothed: bool = False


ALGORITHMS: dict[str, Algorithm] = {
    "FP8": Algorithm("fp8", "fp8"),
    "FP8_PER_CHANNEL_PER_TOKEN": Algorithm("fp8", "fp8 token", by_row=True),
    "FP8_PB_WO": Algorithm("fp8", tile=(128, 128)),
    "MXFP8": Algorithm("mxfp8", "mxfp8", 32),
    "NVFP4": Algorithm("nvfp4", "nvfp4", 16),
    "NVFP4_AWQ": Algorithm("nvfp4", "nvfp4", 16),
    "W4A16_NVFP4": Algorithm("nvfp4", "", 16),
    "W4A8_NVFP4_FP8": Algorithm("nvfp4", "fp8", 32),
    "W4A8_MXFP4_FP8": Algorithm("mxfp4", "fp8", 32),
    "W4A16_AWQ": Algorithm("int4"),
    "W4A8_AWQ": Algorithm("int4", "fp8"),
    "W8A8_SQ_PER_CHANNEL": Algorithm("int8", "int8", by_row=True, smoothed=True),
    "W8A16": Algorithm("int8", by_row=True),
}
