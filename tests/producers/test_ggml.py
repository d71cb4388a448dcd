"""ggml, by its quantizer and its decoder of every type; gguf-py writes the file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fewbit.formats.gguf.permute import disk_rows
from fewbit.formats.gguf.types import BY_SCHEME, TYPES, GgufType
from fewbit.schemes import SCHEMES
from tests.formats.gguf.fixture import tiny_gguf
from tests.producers.tool import Tool, Write, check

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

LEFT_OUT = (
    "F32",
    "F16",
    "BF16",
    "Q8_1",
)  # plain, and a type of activations that ggml neither quantizes to nor decodes


def case(kind: GgufType) -> dict[str, Any]:
    """Rows are whole blocks, which ggml takes for granted."""
    step = max(kind.block, 64)
    hidden = step * (1 + kind.id % 2 if step > 64 else 1 + kind.id % 3)
    return {"seed": kind.id, "hidden": hidden, "inner": 2 * step, "kind": kind.name}


WRITES = {kind.name: case(kind) for kind in TYPES.values() if kind.name not in LEFT_OUT}


def written(scheme: str, seed: int) -> Write:
    def write(folder: Path) -> Path:
        folder.mkdir()
        return tiny_gguf(
            folder / "model.gguf", scheme, seed=seed, hidden_size=256, intermediate_size=512, head_dim=64
        )

    return write


READS = {
    BY_SCHEME[scheme].name: (written(name, seed), {})
    for seed, (name, scheme) in enumerate(SCHEMES.items())
    if scheme in BY_SCHEME and BY_SCHEME[scheme].name not in LEFT_OUT
}
TOOL = Tool("ggml", "with_ggml.py", WRITES, READS)


def canonical(checkpoint: Any, weights: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The file has its own names, and rows of q and k in an order of their own."""
    found = {}
    for name, info in checkpoint.tensors.items():
        if info.disk_name in weights:
            value = weights[info.disk_name]
            if "q_proj" in name or "k_proj" in name:
                value = value[disk_rows(0, len(value), checkpoint.config["head_dim"])]
            found[name] = value
    assert len(found) == len(weights)
    return found


def zero_signs(name: str) -> bool:
    return name != "MXFP4"  # ggml reads the code of -0 as +0


@pytest.mark.parametrize("name", WRITES)
def test_fewbit_reads_what_the_tool_writes(name: str, answers: Any) -> None:
    check(answers(TOOL), f"write-{name}", zero_signs=zero_signs(name), canonical=canonical)


@pytest.mark.parametrize("name", READS)
def test_the_tool_reads_what_fewbit_writes(name: str, answers: Any) -> None:
    check(answers(TOOL), f"read-{name}", zero_signs=zero_signs(name), canonical=canonical)
