"""Pins the base install: exact versions, and the hash and size of every wheel that pip may take for it.

usage: python tools/lock.py      (in an environment that holds the versions to pin; downloads their wheels once)

Writes requirements/base.txt, which pip checks hashes against, and requirements/base_wheels.csv, whose sizes a test
sums. A package with compiled code has one wheel for each Python version.
"""

from __future__ import annotations

import csv
import hashlib
import importlib.metadata
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name, parse_wheel_filename

ROOT = Path(__file__).resolve().parents[1]
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
PLATFORMS = ("manylinux_2_28_x86_64", "manylinux_2_27_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64",
             "manylinux_2_12_x86_64", "manylinux2010_x86_64", "manylinux_2_5_x86_64", "manylinux1_x86_64")  # fmt: skip


def base_closure(pyproject: Path = ROOT / "pyproject.toml") -> dict[str, str]:
    """Name and installed version of every package that the base install brings, by what the packages declare."""
    todo = [Requirement(r) for r in tomllib.loads(pyproject.read_text())["project"]["dependencies"]]
    found: dict[str, str] = {}
    while todo:
        name = canonicalize_name(todo.pop().name)
        if name in found:
            continue
        distribution = importlib.metadata.distribution(name)
        found[name] = distribution.version
        needs = [Requirement(r) for r in distribution.requires or []]
        todo += [r for r in needs if r.marker is None or r.marker.evaluate({"extra": ""})]
    return dict(sorted(found.items()))


def download(pins: dict[str, str], folder: Path) -> None:
    for python in PYTHONS:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
        command += ["--implementation", "cp", "--python-version", python, "--dest", str(folder)]
        command += [argument for platform in PLATFORMS for argument in ("--platform", platform)]
        subprocess.run([*command, *(f"{name}=={version}" for name, version in pins.items())], check=True)


def main() -> int:
    pins = base_closure()
    with tempfile.TemporaryDirectory() as folder:
        download(pins, Path(folder))
        wheels = [
            (
                str(parse_wheel_filename(w.name)[0]),
                w.name,
                w.stat().st_size,
                hashlib.sha256(w.read_bytes()).hexdigest(),
            )
            for w in sorted(Path(folder).glob("*.whl"))
        ]
    with (ROOT / "requirements/base_wheels.csv").open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("package", "wheel", "bytes", "sha256"))
        writer.writerows(sorted(wheels))
    lines = ["# The base install, exactly; written by tools/lock.py"]
    for name, version in pins.items():
        hashes = sorted(sha256 for package, _, _, sha256 in wheels if package == name)
        lines.append(" \\\n    ".join([f"{name}=={version}", *(f"--hash=sha256:{h}" for h in hashes)]))
    (ROOT / "requirements/base.txt").write_text("\n".join(lines) + "\n")
    print(f"{len(pins)} packages, {len(wheels)} wheels")
    return 0


if __name__ == "__main__":
    sys.exit(main())
