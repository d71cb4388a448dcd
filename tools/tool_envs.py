"""Environments of the tools that write checkpoints, each with its own requirements, for the tests in tests/producers.

usage: python tools/tool_envs.py [NAME ...]        all of requirements/tools/ unless some are named

.venv/tools/NAME sees the packages of .venv (torch above all, which is large) behind its own, so it holds only what the tool
adds or wants in another version. A finished one is made again when its requirements change.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
REQUIREMENTS = ROOT / "requirements" / "tools"


def main() -> None:
    names = sys.argv[1:] or sorted(path.stem for path in REQUIREMENTS.glob("*.txt"))
    for name in names:
        make(name, Path(sys.prefix) / "tools" / name)


def make(name: str, folder: Path) -> None:
    wanted = (REQUIREMENTS / f"{name}.txt").read_text()
    stamp = folder / "installed.txt"
    if stamp.exists() and stamp.read_text() == wanted:
        return
    print(f"installing {name}", flush=True)
    if folder.exists():
        shutil.rmtree(folder)
    venv.create(folder, with_pip=True)
    for package in ("purelib", "platlib"):
        paths = {"base": str(folder), "platbase": str(folder)}
        behind = f"import site; site.addsitedir({sysconfig.get_path(package)!r})\n"
        (Path(sysconfig.get_path(package, vars=paths)) / "behind.pth").write_text(behind)
    pip = [
        folder / "bin" / "python",
        "-m",
        "pip",
        "--disable-pip-version-check",
        "--no-input",
        "-qq",
        "install",
    ]
    (folder / "requirements.txt").write_text(wanted)
    build = [line.split("#")[0].strip() for line in wanted.splitlines() if line.endswith("# to build")]
    if build:  # a source distribution is built with what is here, so that it finds torch
        subprocess.run([*pip, "--no-deps", *build], check=True)
    command = [*pip, "--no-deps", "--no-build-isolation", "-r", str(folder / "requirements.txt")]
    subprocess.run(command, check=True)
    stamp.write_text(wanted)


if __name__ == "__main__":
    main()
