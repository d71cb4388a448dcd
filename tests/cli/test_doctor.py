"""`fewbit doctor`: the machine as it is, and what is wrong with it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from fewbit.library_path import find_library

Run = Callable[..., CompletedProcess[str]]


def test_the_machine(fewbit_cli: Run) -> None:
    done = fewbit_cli("doctor", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    usable = sorted(os.sched_getaffinity(0))
    assert sorted(cpu for core in found["cores"] for cpu in core["cpus"]) == usable
    assert 1 <= found["threads"]["threads"] <= len(usable)
    assert found["library"]["path"] == str(find_library())
    assert found["library"]["compiled"]["scalar"] > 0
    assert found["library"]["missing"] == [] and found["problems"] == []
    assert found["memory"]["available_bytes"] <= found["memory"]["total_bytes"]


def test_masked_features_are_said_to_be_masked(fewbit_cli: Run) -> None:
    found = json.loads(fewbit_cli("doctor", "--json", FEWBIT_FEATURES="-avx2,-avx512,-amx").stdout)
    assert (found["platform"], found["features"]) == ("x86_64", [])
    assert "avx2" in found["masked"]


def test_an_override_that_cannot_be_granted_is_a_problem_and_status_1(fewbit_cli: Run) -> None:
    done = fewbit_cli("doctor", FEWBIT_CPUS="4000")
    assert done.returncode == 1
    assert done.stdout.count("problem") == 1
    assert done.stderr.startswith("fewbit: FEWBIT_CPUS names 4000, which this process may not use")


def test_a_library_that_cannot_be_loaded_hides_nothing_else(fewbit_cli: Run, tmp_path: Path) -> None:
    broken = tmp_path / "libfewbit.so"
    broken.write_text("not a library")
    done = fewbit_cli("doctor", FEWBIT_LIBRARY=str(broken))
    assert done.returncode == 1
    assert "processor" in done.stdout and "memory" in done.stdout
    assert f"the kernel library {broken} cannot be used" in done.stderr


@pytest.mark.parametrize("columns", ["80", "120"])
def test_it_fits_the_terminal(fewbit_cli: Run, columns: str) -> None:
    done = fewbit_cli("doctor", COLUMNS=columns)
    assert max(map(len, done.stdout.splitlines())) <= int(columns)


def test_measured_roofs(fewbit_cli: Run) -> None:
    found = json.loads(fewbit_cli("doctor", "--measure", "--json").stdout)
    roofs = {roof["name"]: roof for roof in found["roofs"]}
    features = set(found["features"])
    expected = {"memory read", "f32 multiply-add", "barrier"}
    expected |= {"int8 multiply-add"} if "avx2" in features else set()
    expected |= (
        {f"amx {kind}{l1}" for kind in ("bf16", "int8") for l1 in ("", " from L1")}
        if "amx_tile" in features
        else set()
    )
    assert expected == roofs.keys()
    assert 0.5 < roofs["memory read"]["value"] < 10_000  # GB/s
    assert 0.5 < roofs["f32 multiply-add"]["value"] < 1_000_000  # GFLOP/s
    if "avx2" in features:  # twice as many products a cycle, at least in part
        assert roofs["int8 multiply-add"]["value"] > roofs["f32 multiply-add"]["value"]
    assert 0 < roofs["barrier"]["value"] < 100_000  # µs
