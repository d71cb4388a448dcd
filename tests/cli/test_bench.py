"""`fewbit bench linear`: a tiny run through every door, and what it refuses."""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from fewbit.bench import plot
from fewbit.kernels.selector import Selector
from fewbit.layers.method import choose_matrix
from fewbit.platforms.x86.detect import detect
from fewbit.schemes import SCHEMES
from fewbit.spec.refusal import FewbitError

Run = Callable[..., CompletedProcess[str]]
SMALL = ("--shapes", "smollm2-135m/o,96x64", "--rounds", "2", "--rotate-bytes", "2000000", "--threads", "2")


def test_a_small_run(fewbit_cli: Run, tmp_path: Path) -> None:
    path = tmp_path / "linear.csv"
    done = fewbit_cli("bench", "linear", "--schemes", "q4_0,nf4", "--m", "1,40", *SMALL, "--csv", path)
    assert done.returncode == 0, done.stderr
    lines = list(csv.DictReader(path.open()))
    assert [(line["asked"], line["n"], line["m"]) for line in lines] == [
        (scheme, n, m) for scheme in ("q4_0", "nf4") for n in ("576", "96") for m in ("1", "40")
    ]
    selector = Selector(detect())
    choice, _ = choose_matrix("", SCHEMES["i4g32"], 576, 576, selector, "auto")
    assert [line["kernel"] for line in lines[:2]] == [choice.row_for(1).name, choice.row_for(40).name]
    assert all(line["kernel"] in done.stdout for line in lines)
    for line in lines:
        assert line["answer"] == "checked" and line["rounds"] == "2" and line["threads"] == "2"
        seconds = float(line["median_us"]) * 1e-6
        assert float(line["gb_per_s"]) == pytest.approx(
            int(line["weight_bytes"]) / seconds / 1e9, rel=0.01, abs=0.01
        )
        operations = 2 * int(line["m"]) * int(line["n"]) * int(line["k"])
        assert float(line["tflop_per_s"]) == pytest.approx(operations / seconds / 1e12, rel=0.01, abs=1e-4)
        assert line["platform"] == detect().name and line["library"] != "none"
    assert lines[0]["step_ratio"] == "1.000"


def test_what_no_kernel_serves_is_said_beside_the_rest(fewbit_cli: Run) -> None:
    done = fewbit_cli(
        "bench", "linear", "--schemes", "q4_k,bf16", "--shapes", "64x96", "--m", "1", *SMALL[2:]
    )
    assert done.returncode == 0, done.stderr
    assert (
        "linear_bf16_" in done.stdout
        and "q4_k 64x96: " in done.stdout
        and "linear_u4g32ot" not in done.stdout
    )


def test_eight_bit_activations_where_they_are_had_and_a_note_where_not(fewbit_cli: Run) -> None:
    command = ("bench", "linear", "--schemes", "q8_0,nf4", "--m", "1", "--activations", "8", *SMALL)
    done = fewbit_cli(*command)
    assert done.returncode == 0, done.stderr
    assert "linear_i8g32_i8g32_" in done.stdout
    assert "u4g64c keeps 16-bit activations" in done.stdout


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--schemes", "q9"], "'q9' is no scheme"),
        (["--shapes", "gpt-5"], "'gpt-5' is no model known here"),
        (["--m", "1,0"], "--m '1,0' is no list of row counts"),
        (["--rounds", "0"], "--rounds 0"),
        (["--threads", "0"], "--threads 0 is not possible"),
        (["--schemes", "q4_0", "--shapes", "64x33"], "q4_0 64x33"),
        (["--csv", "/nonexistent/x.csv"], "/nonexistent/x.csv lies in no folder that exists"),
        (["--schemes", "bf16", "--rotate-bytes", "900000000000000"], "name fewer --schemes"),
    ],
)
def test_refusals(fewbit_cli: Run, args: list[str], said: str) -> None:
    done = fewbit_cli("bench", "linear", *args)
    assert done.returncode == 1 and not done.stdout
    assert said in done.stderr and done.stderr.splitlines()[-1].startswith("fewbit: ")


def test_a_plot_without_matplotlib_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(
        FewbitError, match=r"--plot needs matplotlib, which is not installed; `pip install 'fewbit\[plot\]'`"
    ):
        plot.require()
