"""The base install: what it consists of, and that all its wheels together stay small."""

import csv
import re
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tools.lock import PYTHONS, base_closure

LIMIT_BYTES = 80_000_000


def locked(root: Path) -> dict[str, str]:
    return dict(
        re.findall(r"^([a-z0-9-]+)==(\S+)", (root / "requirements/base.txt").read_text(), re.MULTILINE)
    )


def wheels(root: Path) -> list[dict[str, str]]:
    with (root / "requirements/base_wheels.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def fits(wheel: str, python: str) -> bool:
    tag = wheel.split("-")[2]
    return tag == "cp" + python.replace(".", "") or "abi3" in wheel or tag.endswith("py3")


def test_the_lock_is_the_whole_closure_and_what_is_installed(root):
    assert locked(root) == base_closure()


def test_every_locked_wheel_has_its_hash_in_the_requirements(root):
    text = (root / "requirements/base.txt").read_text()
    assert sorted(re.findall(r"sha256:([0-9a-f]{64})", text)) == sorted(w["sha256"] for w in wheels(root))


@pytest.mark.parametrize("python", PYTHONS)
def test_all_wheels_of_the_base_install_stay_under_80_mb(root, built_wheel, python):
    chosen = [w for w in wheels(root) if fits(w["wheel"], python)]
    assert sorted(w["package"] for w in chosen) == sorted(locked(root)), "one wheel of each package"
    total = sum(int(w["bytes"]) for w in chosen) + built_wheel.stat().st_size
    assert 20_000_000 < total < LIMIT_BYTES


def test_torch_and_transformers_are_extras(built_wheel):
    with zipfile.ZipFile(built_wheel) as archive:
        (name,) = (n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
        text = archive.read(name).decode()
    needs = [Requirement(r) for r in re.findall(r"^Requires-Dist: (.*)$", text, re.MULTILINE)]
    base = {r.name for r in needs if r.marker is None or r.marker.evaluate({"extra": ""})}
    assert "numpy" in base
    assert not base & {"torch", "transformers", "safetensors", "gguf", "jinja2"}
    assert "torch" in {r.name for r in needs if r.marker and r.marker.evaluate({"extra": "cuda"})}
