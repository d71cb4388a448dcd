"""MLX, by mlx-lm's converter; what fewbit writes mlx-lm loads."""

from __future__ import annotations

from typing import Any

import pytest

from fewbit.formats.mlx.config import Settings
from tests.formats.mlx.fixture import tiny_mlx
from tests.producers.tool import Tool, Write, check

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def case(seed: int, hidden: int, inner: int, **quantize: Any) -> dict[str, Any]:
    return {"seed": seed, "hidden": hidden, "inner": inner, "quantize": quantize}


FORMS = {
    **{f"q{bits}-g{size}": (bits, size, "affine") for bits, size in ((2, 32), (3, 32), (4, 128), (5, 64), (6, 32), (8, 64))},
    "mxfp4": (4, 32, "mxfp4"),
    "mxfp8": (8, 32, "mxfp8"),
    "nvfp4": (4, 16, "nvfp4"),
}  # fmt: skip
WRITES = {
    name: case(seed, 128 * (1 + seed % 2), 384, q_bits=bits, q_group_size=size, q_mode=mode)
    for seed, (name, (bits, size, mode)) in enumerate(FORMS.items())
}


def written(settings: Settings, seed: int) -> Write:
    return lambda folder: tiny_mlx(folder, settings, seed=seed, hidden_size=128, intermediate_size=384)


READS = {name: (written(Settings(*form), seed), {}) for seed, (name, form) in enumerate(FORMS.items())}
TOOL = Tool("mlx", "with_mlx.py", WRITES, READS)


@pytest.mark.parametrize("name", WRITES)
def test_fewbit_reads_what_the_tool_writes(name: str, answers: Any) -> None:
    check(answers(TOOL), f"write-{name}")


@pytest.mark.parametrize("name", READS)
def test_the_tool_reads_what_fewbit_writes(name: str, answers: Any) -> None:
    check(answers(TOOL), f"read-{name}")
