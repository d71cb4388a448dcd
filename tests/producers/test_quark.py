"""AMD Quark."""

from __future__ import annotations

from typing import Any

import pytest

from tests.producers.tool import Tool, check

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


def case(
    seed: int, hidden: int, inner: int, scheme: str, export: dict[str, Any] | None = None, **settings: Any
) -> dict[str, Any]:
    sizes = {"seed": seed, "hidden": hidden, "inner": inner}
    return {**sizes, "scheme": scheme, "export": export or {}, "settings": settings}


WRITES = {
    "fp8": case(1, 192, 320, "fp8"),
    "fp8-by-rows": case(2, 128, 192, "ptpc_fp8"),
    "mxfp4": case(3, 192, 320, "mxfp4"),
    "mxfp6-e2m3": case(4, 128, 192, "mxfp6_e2m3"),
    "mxfp6-e3m2": case(5, 64, 192, "mxfp6_e3m2"),
    "nvfp4": case(6, 192, 160, "nvfp4"),
    "int4-g128": case(7, 128, 384, "int4_wo_128"),
    "int4-in-order": case(8, 256, 128, "int4_wo_128", {"pack_method": "order"}),
    "uint4-g32": case(9, 192, 320, "uint4_wo_32"),
    "int8": case(10, 128, 192, "int8"),
    "layers": case(11, 128, 192, "fp8", layer_config={"*down_proj": "mxfp4", "*k_proj": "int4_wo_128"}),
}
TOOL = Tool("quark", "with_quark.py", WRITES)


@pytest.mark.parametrize("name", WRITES)
def test_fewbit_reads_what_the_tool_writes(name: str, answers: Any) -> None:
    check(answers(TOOL), f"write-{name}")
