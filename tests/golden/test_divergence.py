"""KL from FP32 over 2,000 tokens of real text, at the default and with 8-bit activations beside. Minutes of numpy: FP32 is the
reference backend's.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

TOKENS = 2008  # the first of each window of 512 is not scored


@pytest.mark.demo
@pytest.mark.slow
@pytest.mark.timeout(2400)
def test_divergence_over_2000_tokens(fewbit_cli: Any, root: Path, tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("".join((root / name).read_text() for name in ("ARCHITECTURE.md", "CONTRIBUTING.md")))
    done = fewbit_cli(
        "eval", "demo", "--text", text, "--tokens", str(TOKENS), "--activations", "auto", "8", "--json",
        timeout=2300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    auto, eight = json.loads(done.stdout)["results"]
    for found in (auto, eight):
        print({name: float(f"{value:.4g}") for name, value in found.items() if name != "activations"})
    assert auto["tokens"] == eight["tokens"] >= 2000
    assert auto["kl_mean"] < 5e-4
    assert auto["dlogp_mean"] < 0.015 and auto["dlogp_max"] < 0.15
    assert auto["perplexity"] == pytest.approx(auto["reference_perplexity"], rel=5e-4)
    assert auto["kl_mean"] < eight["kl_mean"] < 0.02  # the gate tells 8 bits from 16
