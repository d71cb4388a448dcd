"""GPTQ to AWQ to compressed-tensors and back ends with the source's bytes, through the command."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from fewbit.formats import open_checkpoint
from fewbit.formats.gptq.config import Settings
from tests.convert.folders import converted, declared, oracle_copy, stored_tensors, weights
from tests.formats.gptq.fixture import tiny_gptq

Cli = Callable[..., subprocess.CompletedProcess[str]]
CYCLE = ("awq", "compressed-tensors", "auto_round", "gptq")


@pytest.mark.parametrize("sym", [True, False])
def test_the_cycle_ends_with_the_same_bytes(tmp_path: Path, fewbit_cli: Cli, sym: bool) -> None:
    source = tiny_gptq(tmp_path / "start", Settings(4, 32, sym, version=1))
    before = stored_tensors(source)
    for step, to in enumerate(("awq", "compressed-tensors", "gptq")):
        place = tmp_path / f"{step}"
        ran = fewbit_cli("convert", source, place, "--to", to)
        assert ran.returncode == 0, ran.stderr
        assert "bit-equal" in ran.stdout and str(place) in ran.stdout
        assert stored_tensors(place).keys() != before.keys() or to == "gptq"
        source = place
    assert stored_tensors(source) == before
    for name in ("tokenizer.json", "tokenizer_config.json", "generation_config.json"):
        assert (source / name).read_bytes() == (tmp_path / "start" / name).read_bytes()
    configs = [json.loads((f / "config.json").read_text()) for f in (source, tmp_path / "start")]
    assert configs[0] == configs[1]
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".")] == []


@pytest.mark.parametrize(
    ("name", "first"),
    [("gptq-w4-g128-sym", 0), ("gptq-w4-g32-asym", 0), ("gptq-moe-w4-g64", 0), ("gptq-lmhead", 1)],
)
def test_the_cycle_on_stored_checkpoints(tmp_path: Path, name: str, first: int) -> None:
    """AWQ, the first step, has no 8 bits, which the head of the last one has."""
    source = oracle_copy(name, tmp_path)
    before, numbers = stored_tensors(source), weights(source)
    for step, to in enumerate(CYCLE[first:]):
        source = converted(source, tmp_path / f"{step}", to)
        assert weights(source) == numbers
    assert stored_tensors(source) == before


@pytest.mark.parametrize("bits", [2, 3, 4, 8])
@pytest.mark.parametrize("sym", [True, False])
@pytest.mark.parametrize("size", [-1, 32])
def test_every_width_of_gptq(tmp_path: Path, bits: int, sym: bool, size: int) -> None:
    source = tiny_gptq(tmp_path / "start", Settings(bits, size, sym, version=2))
    back = source
    for step, to in enumerate(("compressed-tensors", "auto_round", "gptq_v2")):
        back = converted(back, tmp_path / f"{step}", to)
    assert stored_tensors(back) == stored_tensors(source)
    assert declared(back)["checkpoint_format"] == "gptq_v2"


def test_activation_order(tmp_path: Path) -> None:
    source = tiny_gptq(tmp_path / "start", Settings(4, 32, False, True, 1))
    back = converted(converted(source, tmp_path / "a", "compressed-tensors"), tmp_path / "b", "gptq")
    assert stored_tensors(back) == stored_tensors(source)


def test_each_module_keeps_its_own_settings(tmp_path: Path) -> None:
    """Widths by module and plain modules, through formats that say so in three ways."""
    source = oracle_copy("gptq-dynamic-mixed", tmp_path)
    numbers = weights(source)
    for step, to in enumerate(("auto_round", "compressed-tensors", "gptq")):
        source = converted(source, tmp_path / f"{step}", to)
        assert weights(source) == numbers
    checkpoint = open_checkpoint(source)
    assert len({str(info.scheme) for info in checkpoint.tensors.values()}) > 2
    assert declared(source)["dynamic"]
