"""The table's own rules, and that reading it stays free of array packages and libraries."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from fewbit.registry import table
from fewbit.registry.declare import GROUP32, PLAIN, TWO_LEVEL, family
from fewbit.registry.table import check_rows, load_rows
from fewbit.spec.cell import M_MAX, Constraint
from tests.registry.example_rows import ROWS


def test_the_table_of_the_package_keeps_its_rules() -> None:
    rows = load_rows()
    check_rows(rows)
    assert {row.backend for row in rows} <= {"cpu", "reference"}
    assert len({row.name for row in rows}) == len(rows)


def test_every_kernel_folder_declares_rows() -> None:
    """A folder with C++ for an instruction set is a kernel, so it has rows, and a row for that file."""
    rows = load_rows()
    for folder in sorted((table.KERNELS / "cpu").iterdir()):
        stems = {path.stem for path in folder.glob("*.cpp")} & set(table.check_name.__globals__["ISAS"])
        if folder.name in ("core", "probe") or not stems:
            continue
        assert (folder / "kernel.py").exists(), f"{folder} has {stems} but no kernel.py"
        declared = {
            isa for row in rows for isa in stems if row.name.endswith((f"_{isa}", f"_{isa}_emulated"))
        }
        assert stems <= declared, f"{folder}: no row for {stems - declared}"


def test_reading_the_table_imports_the_standard_library_only() -> None:
    code = """
        import sys
        from fewbit.registry.table import load_rows
        from fewbit.registry.select import select
        from fewbit.spec.cell import Cell, Platform
        load_rows()
        select(Cell("linear", "u4g32o"), Platform("x86_64", frozenset()))
        top = {name.partition(".")[0] for name in sys.modules if not name.startswith("_rows_")}
        print(sorted(top - sys.stdlib_module_names - {"__main__", "fewbit"}))
        print("ctypes" in sys.modules, "fewbit.kernels" in sys.modules)
        print(any("libfewbit" in line for line in open("/proc/self/maps")))
    """
    command = [
        sys.executable,
        "-S",
        "-c",
        textwrap.dedent(code),
    ]  # -S: no site packages, whatever they import
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"PYTHONPATH": "src"})
    assert done.stdout == "[]\nFalse False\nFalse\n", done.stderr


def test_the_example_in_the_documentation_is_a_valid_kernel_file(tmp_path: Path) -> None:
    assert table.__doc__
    example = textwrap.dedent("\n".join(re.findall(r"^    .*|^$", table.__doc__, re.MULTILINE)))
    folder = tmp_path / "cpu" / "linear"
    folder.mkdir(parents=True)
    (folder / "kernel.py").write_text(example)
    names = [row.name for row in load_rows(tmp_path)]
    assert "linear_u4g32o_f32_n32k32_avx2" in names and "linear_u4g32o_bf16_n32k32_amx_emulated" in names
    assert len(names) == 3 * (len(GROUP32) + len(PLAIN) + len(TWO_LEVEL)) + 2 * len(GROUP32)


def test_a_kernel_file_without_rows_is_an_error_that_names_it(tmp_path: Path) -> None:
    folder = tmp_path / "cpu" / "empty"
    folder.mkdir(parents=True)
    (folder / "kernel.py").write_text("ROWS = []\n")
    with pytest.raises(
        ValueError, match=r"empty/kernel.py must define ROWS as a tuple of KernelRow, found list"
    ):
        load_rows(tmp_path)


def test_a_duplicate_is_an_error() -> None:
    with pytest.raises(ValueError, match="row rms_norm_f32_avx2 is declared twice"):
        check_rows((*ROWS, *family("rms_norm", isas=("avx2",), activation="f32", priority=3)))


LINEAR = {"isas": ("avx2",), "schemes": {"i4g32": ("f16",)}, "activation": "f32", "layout": "n16k64"}


@pytest.mark.parametrize(
    "fields",
    [{}, {"activation": "bf16"}, {"m_range": (7, 7)}, {"constraints": (Constraint("n", multiple=64),)}],
)
def test_an_ambiguity_is_an_error(fields: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="both serve linear i4g32 with priority 10"):
        check_rows((*ROWS, *family("linear", **(LINEAR | fields))))


@pytest.mark.parametrize(
    "fields",
    [
        {"priority": 11},
        {"activation": "i8g32"},
        {"schemes": {"i4g32": ("bf16",)}},
        {"schemes": {"i4g64": ("f16",)}},
        {"isas": ("avx512_vnni",)},
    ],
)
def test_rows_that_never_compete_may_share_a_priority(fields: dict[str, Any]) -> None:
    check_rows((*ROWS, *family("linear", **(LINEAR | fields))))


def test_intervals_and_bounds_that_exclude_each_other_do_not_compete() -> None:
    base: dict[str, Any] = {"isas": ("avx2",), "schemes": {"i3g64": ("f16",)}, "activation": "f32"}
    low = family("linear", layout="n32k64", m_range=(1, 8), **base)
    high = family("linear", layout="n16k64", m_range=(9, M_MAX), **base)
    check_rows((*low, *high))
    small = family("attention", layout="paged16", constraints=(Constraint("head_dim", most=128),), **base)
    large = family("attention", layout="paged32", constraints=(Constraint("head_dim", least=129),), **base)
    check_rows((*small, *large))


def test_an_emulated_row_must_exist() -> None:
    with pytest.raises(ValueError, match="emulates rms_norm_f32_amx, which is not declared"):
        check_rows(family("rms_norm", isas=("scalar",), activation="f32", emulates="amx"))


def test_an_empty_interval_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"m_range \(4, 2\); expected 1 <= low <= high"):
        check_rows(family("rms_norm", isas=("scalar",), activation="f32", m_range=(4, 2)))
