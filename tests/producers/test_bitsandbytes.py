"""bitsandbytes, loaded and saved by transformers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.formats.bitsandbytes.fixture import tiny_bitsandbytes
from tests.oracles.table import BNB_INT8, Close
from tests.producers.tool import Tool, Write, check

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def four_bits(seed: int, hidden: int, inner: int, kind: str, **settings: Any) -> dict[str, Any]:
    said = {"load_in_4bit": True, "bnb_4bit_quant_type": kind, **settings}
    return {"seed": seed, "hidden": hidden, "inner": inner, "dtype": "bf16", "settings": said}


WRITES: dict[str, dict[str, Any]] = {
    "nf4": four_bits(1, 128, 192, "nf4"),
    "nf4-double": four_bits(2, 192, 256, "nf4", bnb_4bit_use_double_quant=True),
    "fp4": four_bits(3, 64, 320, "fp4"),
    "fp4-double": four_bits(4, 256, 192, "fp4", bnb_4bit_use_double_quant=True),
    "nf4-f16": four_bits(5, 128, 128, "nf4") | {"dtype": "f16"},
    "int8": {"seed": 6, "hidden": 192, "inner": 320, "dtype": "f16", "settings": {"load_in_8bit": True}},
}
FORMS: dict[str, tuple[str, bool]] = {
    "nf4": ("nf4", False),
    "nf4-double": ("nf4", True),
    "fp4": ("fp4", False),
    "fp4-double": ("fp4", True),
    "int8": ("int8", False),
}


def written(kind: str, double: bool, seed: int) -> Write:
    def write(folder: Path) -> Path:
        return tiny_bitsandbytes(
            folder, kind, seed=seed, double=double, hidden_size=128, intermediate_size=192
        )

    return write


READS = {
    name: (written(*form, seed), {"dtype": "f16" if form[0] == "int8" else "bf16"})
    for seed, (name, form) in enumerate(FORMS.items())
}
TOOL = Tool("bitsandbytes", "with_bitsandbytes.py", WRITES, READS)


def rounding(name: str) -> str | Close:
    if name == "int8":
        return BNB_INT8
    return "f16" if name.endswith("f16") else "bf16"  # dequantize_4bit gives the dtype of the quant_state


@pytest.mark.parametrize("name", WRITES)
def test_fewbit_reads_what_the_tool_writes(name: str, answers: Any) -> None:
    # the map that the file holds has +0 where the tool's own table of FP4 has -0
    check(answers(TOOL), f"write-{name}", rounding(name), zero_signs="fp4" not in name)


@pytest.mark.parametrize("name", READS)
def test_the_tool_reads_what_fewbit_writes(name: str, answers: Any) -> None:
    check(answers(TOOL), f"read-{name}", rounding(name))
