"""Ascend's msModelSlim."""

from __future__ import annotations

from typing import Any

import pytest

from tests.producers.tool import Tool, check

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def case(seed: int, hidden: int, inner: int, **settings: Any) -> dict[str, Any]:
    return {"seed": seed, "hidden": hidden, "inner": inner, "settings": {"mm_tensor": False, **settings}}


WRITES = {
    "w8a8": case(1, 192, 320, w_bit=8, a_bit=8, act_method=1, pr=1.0, w_sym=True),
    "w8a8-dynamic": case(2, 128, 192, w_bit=8, a_bit=8, act_method=1, pr=1.0, w_sym=True, is_dynamic=True),
    "w8a16": case(3, 128, 256, w_bit=8, a_bit=16, w_sym=False),
    "w8a16-sym": case(4, 192, 128, w_bit=8, a_bit=16, w_sym=True),
    "w4a16-g64": case(5, 128, 192, w_bit=4, a_bit=16, w_sym=False, is_lowbit=True, open_outlier=False, group_size=64),
    "w4a16-g32": case(6, 192, 256, w_bit=4, a_bit=16, w_sym=False, is_lowbit=True, open_outlier=False, group_size=32),
}  # fmt: skip
TOOL = Tool("msmodelslim", "with_msmodelslim.py", WRITES)


@pytest.mark.parametrize("name", WRITES)
def test_fewbit_reads_what_the_tool_writes(name: str, answers: Any) -> None:
    check(answers(TOOL), f"write-{name}")
