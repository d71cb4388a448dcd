"""AutoAWQ's packing of both its orders."""

from __future__ import annotations

from typing import Any

import pytest

from tests.producers.tool import Tool, check

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def case(seed: int, hidden: int, inner: int, version: str, group_size: int) -> dict[str, Any]:
    return {"seed": seed, "hidden": hidden, "inner": inner, "version": version, "group_size": group_size}


WRITES = {
    "gemm-g32": case(1, 192, 320, "gemm", 32),
    "gemm-g64": case(2, 128, 192, "gemm", 64),
    "gemm-g128": case(3, 256, 384, "gemm", 128),
    "gemv-g64": case(4, 192, 256, "gemv", 64),
    "gemv-g128": case(5, 128, 640, "gemv", 128),
}
TOOL = Tool("autoawq", "with_autoawq.py", WRITES)


@pytest.mark.parametrize("name", WRITES)
def test_fewbit_reads_what_the_tool_writes(name: str, answers: Any) -> None:
    check(answers(TOOL), f"write-{name}", "f16")
