"""transformers: plain safetensors of every float type, sharded or not, and FP8 by blocks.

Of a partial last block it takes another size than the configuration says, so all blocks here are whole.
"""

from __future__ import annotations

from typing import Any

import pytest

from fewbit.spec.dtype import E4M3, F32
from fewbit.spec.granularity import block
from fewbit.spec.scheme import Scheme
from tests.formats.fp8.fixture import tiny_fp8
from tests.formats.plain.fixture import tiny_folder
from tests.producers.tool import Tool, Write, check

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

SIZES = {"32x32": [32, 32], "64x128": [64, 128], "128x128": [128, 128]}
WRITES = {
    name: {"seed": seed, "hidden": 256, "inner": 384, "block": size}
    for seed, (name, size) in enumerate(SIZES.items())
}
PLAIN = {"plain-f32": ("f32", 1), "plain-f16": ("f16", 3), "plain-bf16": ("bf16", 2)}


def fp8_written(size: list[int], seed: int) -> Write:
    scheme = Scheme(E4M3, block(*size), F32)
    return lambda folder: tiny_fp8(
        folder, scheme, seed=seed, hidden_size=256, intermediate_size=384, head_dim=64
    )


def plain_written(dtype: str, shards: int) -> Write:
    return lambda folder: tiny_folder(folder, dtype, seed=shards, shards=shards)


READS: dict[str, tuple[Write, dict[str, Any]]] = {
    **{
        name: (fp8_written(size, seed), {"plain": False, "block": size, "dtype": "f32"})
        for seed, (name, size) in enumerate(SIZES.items())
    },
    **{name: (plain_written(*form), {"plain": True, "dtype": form[0]}) for name, form in PLAIN.items()},
}
TOOL = Tool("transformers", "with_transformers.py", WRITES, READS)


@pytest.mark.parametrize("name", WRITES)
def test_fewbit_reads_what_the_tool_writes(name: str, answers: Any) -> None:
    check(answers(TOOL), f"write-{name}")


@pytest.mark.parametrize("name", READS)
def test_the_tool_reads_what_fewbit_writes(name: str, answers: Any) -> None:
    check(answers(TOOL), f"read-{name}", plain=name in PLAIN)
