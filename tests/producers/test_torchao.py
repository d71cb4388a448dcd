"""torchao, loaded and saved by transformers as safetensors. Its `dequantize` gives bfloat16."""

from __future__ import annotations

from typing import Any

import pytest

from fewbit.spec.dtype import BF16, E4M3, F32, I8, dtype
from fewbit.spec.granularity import CHANNEL, group
from fewbit.spec.scheme import Scheme
from tests.formats.torchao.fixture import tiny_torchao
from tests.producers.tool import Tool, Write, check

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def case(seed: int, hidden: int, inner: int, config: str, **settings: Any) -> dict[str, Any]:
    return {"seed": seed, "hidden": hidden, "inner": inner, "config": config, "settings": settings}


def intx(
    seed: int, hidden: int, inner: int, bits: int, size: int, mapping: str = "SYMMETRIC"
) -> dict[str, Any]:
    granularity = ["PerGroup", size] if size else ["PerAxis", 0]
    said = {"weight_dtype": f"int{bits}", "granularity": granularity, "mapping_type": mapping}
    return case(seed, hidden, inner, "IntxWeightOnlyConfig", **said)


WRITES = {
    "int8": case(1, 192, 128, "Int8WeightOnlyConfig", version=2),
    "int8-dynamic": case(2, 128, 320, "Int8DynamicActivationInt8WeightConfig", version=2),
    "float8": case(3, 64, 192, "Float8WeightOnlyConfig"),
    **{f"int{bits}-g{size}": intx(bits + 2, 128, 192, bits, size) for bits, size in ((2, 32), (3, 64), (4, 64), (6, 32))},
    "int4-channel": intx(9, 192, 64, 4, 0),
    "int4-g32-asym": intx(10, 128, 256, 4, 32, "ASYMMETRIC"),
    "int8-g16-asym": intx(11, 64, 160, 8, 16, "ASYMMETRIC"),
}  # fmt: skip
SCHEMES = {
    "int8": Scheme(I8, CHANNEL, scale=BF16),
    "float8": Scheme(E4M3, CHANNEL, scale=F32),
    **{f"int{bits}-g32": Scheme(dtype(f"i{bits}"), group(32), scale=BF16) for bits in (2, 3, 4, 5, 8)},
}


def written(scheme: Scheme, seed: int) -> Write:
    return lambda folder: tiny_torchao(folder, scheme, seed=seed, hidden_size=128, intermediate_size=192)


READS = {name: (written(scheme, seed), {}) for seed, (name, scheme) in enumerate(SCHEMES.items())}
TOOL = Tool("torchao", "with_torchao.py", WRITES, READS)


@pytest.mark.parametrize("name", WRITES)
def test_fewbit_reads_what_the_tool_writes(name: str, answers: Any) -> None:
    check(answers(TOOL), f"write-{name}", "bf16")


@pytest.mark.parametrize("name", READS)
def test_the_tool_reads_what_fewbit_writes(name: str, answers: Any) -> None:
    check(answers(TOOL), f"read-{name}", "bf16")
