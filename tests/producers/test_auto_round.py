"""AutoRound in its own packings; the product with the identity loses the sign of zeros.

On a CPU it reads nothing asymmetric back, and its exports for GPTQ and AWQ are other tools' to read.
"""

from __future__ import annotations

from typing import Any

import pytest

from fewbit.formats.auto_round.config import FLOATS, Settings
from fewbit.formats.auto_round.encode import activations_of
from tests.formats.auto_round.fixture import tiny_auto_round
from tests.producers.tool import Tool, Write, check

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


def case(seed: int, hidden: int, inner: int, scheme: str, **settings: Any) -> dict[str, Any]:
    return {"seed": seed, "hidden": hidden, "inner": inner, "scheme": scheme, "settings": settings}


PER_LAYER = {"layer_config": {"down_proj": {"bits": 8, "group_size": 32}, "k_proj": {"bits": 2}}}
WRITES = {
    "w4-g32": case(1, 128, 192, "W4A16", group_size=32),
    "w2-g64": case(2, 192, 320, "W2A16", group_size=64),
    "w3-g32": case(3, 128, 256, "W3A16", group_size=32),
    "w8-g64": case(4, 128, 192, "W8A16", group_size=64),
    "per-layer": case(7, 128, 192, "W4A16", group_size=64, **PER_LAYER),
    "mxfp4": case(8, 128, 192, "MXFP4"),
    "mxfp8": case(9, 192, 128, "MXFP8"),
}
FORMS = {
    **{f"w{bits}-g32": Settings(bits, 32) for bits in (2, 3, 4, 8)},
    **{f"mxfp{bits}": Settings(bits, 32, data_type="mx_fp", packing=FLOATS) for bits in (4, 8)},
}


def written(settings: Settings, seed: int) -> Write:
    keys = activations_of(settings)
    return lambda folder: tiny_auto_round(
        folder, settings, seed=seed, keys=keys, hidden_size=128, intermediate_size=192
    )


READS: dict[str, tuple[Write, dict[str, Any]]] = {
    name: (written(form, seed), {}) for seed, (name, form) in enumerate(FORMS.items())
}
TOOL = Tool("auto_round", "with_auto_round.py", WRITES, READS)


def rounding(name: str) -> str:
    return "bf16" if name.startswith("mx") else "f16"


@pytest.mark.parametrize("name", WRITES)
def test_fewbit_reads_what_the_tool_writes(name: str, answers: Any) -> None:
    check(answers(TOOL), f"write-{name}", rounding(name), zero_signs=False)


@pytest.mark.parametrize("name", READS)
def test_the_tool_reads_what_fewbit_writes(name: str, answers: Any) -> None:
    check(answers(TOOL), f"read-{name}", rounding(name), zero_signs=False)
