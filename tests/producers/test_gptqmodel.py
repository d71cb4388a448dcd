"""GPT-QModel: GPTQ in all widths and versions, and AWQ. Its torch kernels dequantize in float16."""

from __future__ import annotations

from typing import Any

import pytest

from fewbit.formats.awq.config import Settings as AwqSettings
from fewbit.formats.gptq.config import Settings
from tests.formats.awq.fixture import tiny_awq
from tests.formats.gptq.fixture import tiny_gptq
from tests.producers.tool import Tool, Write, check

pytestmark = [pytest.mark.slow, pytest.mark.timeout(2400)]


def case(seed: int, hidden: int, inner: int, backend: str = "TORCH", **settings: Any) -> dict[str, Any]:
    said = {"desc_act": False, **settings}
    return {"seed": seed, "hidden": hidden, "inner": inner, "backend": backend, "settings": said}


RULES = {r"+:.*\.down_proj$": {"bits": 8, "group_size": 32}, r"-:.*\.k_proj$": {}}
WRITES = {
    "w4-g32-descact": case(1, 128, 192, bits=4, group_size=32, sym=True, desc_act=True),
    "w4-g64-asym": case(2, 192, 320, bits=4, group_size=64, sym=False),
    "w4-g32-asym-v2": case(3, 128, 256, bits=4, group_size=32, sym=False, format="gptq_v2"),
    "w2-g64-asym": case(4, 128, 192, bits=2, group_size=64, sym=False),
    "w3-g32-asym": case(5, 192, 256, bits=3, group_size=32, sym=False),
    "w8-g32": case(6, 128, 320, bits=8, group_size=32, sym=True),
    "w4-channel": case(7, 128, 192, bits=4, group_size=-1, sym=True, act_group_aware=False),
    "rules": case(8, 128, 256, bits=4, group_size=64, sym=True, dynamic=RULES),
    "planar": case(9, 128, 192, bits=3, group_size=32, sym=False, format="gptq_p"),
    "awq-g64": case(10, 128, 192, "TORCH_AWQ", bits=4, group_size=64, sym=False, method="awq", format="gemm"),
}


def written(settings: Settings, seed: int) -> Write:
    return lambda folder: tiny_gptq(folder, settings, seed=seed, hidden_size=128, intermediate_size=192)


def awq_written(settings: AwqSettings, seed: int) -> Write:
    return lambda folder: tiny_awq(folder, settings, seed=seed, hidden_size=128, intermediate_size=192)


FORMS = {
    **{f"w{bits}-g32-{'sym' if sym else 'asym'}": Settings(bits, 32, sym) for bits in (2, 3, 4, 8) for sym in (True, False)},
    "w4-g64-descact": Settings(4, 64, True, desc_act=True),
    "w4-channel": Settings(4, -1, False),
    "w4-g32-v2": Settings(4, 32, False, version=2),
}  # fmt: skip
READS: dict[str, tuple[Write, dict[str, Any]]] = {
    **{name: (written(form, seed), {"backend": "TORCH"}) for seed, (name, form) in enumerate(FORMS.items())},
    "awq-g32": (awq_written(AwqSettings(32, True), 20), {"backend": "TORCH_AWQ"}),
}
TOOL = Tool("gptqmodel", "with_gptqmodel.py", WRITES, READS)


@pytest.mark.parametrize("name", WRITES)
def test_fewbit_reads_what_the_tool_writes(name: str, answers: Any) -> None:
    check(answers(TOOL), f"write-{name}", "f16")


@pytest.mark.parametrize("name", READS)
def test_the_tool_reads_what_fewbit_writes(name: str, answers: Any) -> None:
    check(answers(TOOL), f"read-{name}", "f16")
