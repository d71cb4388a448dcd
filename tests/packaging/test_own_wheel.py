"""fewbit's own wheel: one for every Python, complete, and its library at home on any machine with the baseline glibc."""

import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

LIBRARY = "fewbit/kernels/cpu/libfewbit.so"
BASELINE_GLIBC = (2, 34)


@pytest.fixture(scope="module")
def unpacked(built_wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    with zipfile.ZipFile(built_wheel) as archive:
        archive.extractall(folder)
    return folder


def dynamic(library: Path, option: str) -> str:
    return subprocess.run(
        ["readelf", "-W", option, library], capture_output=True, text=True, check=True
    ).stdout


def test_the_tag_fits_every_python_on_linux(built_wheel):
    assert built_wheel.name.endswith("-py3-none-linux_x86_64.whl")


def test_every_source_is_in_it_and_no_cpp(root, unpacked):
    source = root / "src"
    wanted = {
        p.relative_to(source).as_posix() for p in source.rglob("*") if p.is_file() and p.suffix != ".pyc"
    }
    wanted = {name for name in wanted if not name.endswith((".cpp", ".h", ".so"))} | {LIBRARY}
    wanted |= {f"fewbit/registry/attested/{p.name}" for p in (root / "docs/attested").glob("*.csv")}
    found = {p.relative_to(unpacked).as_posix() for p in (unpacked / "fewbit").rglob("*") if p.is_file()}
    assert found == wanted


def test_nothing_lies_beside_the_package(unpacked):
    """No tests, and none of their checkpoints."""
    version = next(unpacked.glob("*.dist-info")).name
    assert {p.name for p in unpacked.iterdir()} == {"fewbit", version}


def test_the_library_needs_libc_and_its_parts_alone(unpacked):
    needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic(unpacked / LIBRARY, "--dynamic")))
    assert "libc.so.6" in needed
    assert needed <= {"libc.so.6", "libm.so.6", "libpthread.so.0", "ld-linux-x86-64.so.2"}


def test_the_library_asks_for_no_newer_glibc_than_the_baseline(unpacked):
    versions = re.findall(r"GLIBC_(\d+)\.(\d+)", dynamic(unpacked / LIBRARY, "--version-info"))
    assert max((int(a), int(b)) for a, b in versions) <= BASELINE_GLIBC


def test_the_library_exports_its_interface_and_nothing_else(unpacked):
    names = re.findall(r"GLOBAL\s+DEFAULT\s+\d+ (\w+)", dynamic(unpacked / LIBRARY, "--dyn-syms"))
    assert {"fb_find", "fb_run", "fb_version", "fb_cpu_features"} <= set(names)
    assert [name for name in names if not name.startswith("fb_")] == []


def test_the_unpacked_wheel_runs(unpacked):
    """From its folder alone, without site packages, where the checkout may be installed in place: it finds its library beside itself, at the package's version."""
    code = "from fewbit.kernels.cpu import library; import fewbit; print(fewbit.__version__, library.version(), fewbit.__file__)"
    done = subprocess.run(
        [sys.executable, "-S", "-c", code],
        capture_output=True,
        text=True,
        cwd=unpacked,
        env={"PYTHONPATH": str(unpacked)},
    )
    assert done.returncode == 0, done.stderr
    package, library, path = done.stdout.split()
    assert package == library
    assert Path(path).is_relative_to(unpacked)
