"""`fewbit support`: the matrix and the explanation of one cell, from the table of the package."""

from __future__ import annotations

import json
from collections.abc import Callable
from subprocess import CompletedProcess

import pytest

from fewbit.platforms.known import KNOWN
from fewbit.registry.matrix import cells
from fewbit.registry.table import load_rows

Run = Callable[..., CompletedProcess[str]]


def test_the_matrix_has_every_cell_on_every_platform(fewbit_cli: Run) -> None:
    entries = json.loads(fewbit_cli("support", "--json").stdout)
    assert len(entries) == len(cells(load_rows())) * len(KNOWN)
    assert {entry["platform"] for entry in entries} == set(KNOWN)
    for entry in entries:
        assert (entry["state"] == "refused") == ("refusals" in entry)


def test_narrowed_by_scheme_and_platform(fewbit_cli: Run) -> None:
    entries = json.loads(
        fewbit_cli("support", "--scheme", "u4g32o", "--platform", "x86_avx2", "--json").stdout
    )
    assert [(e["op"], e["activations"], e["scale_dtype"]) for e in entries] == [
        ("linear", "auto", "bf16"),
        ("linear", "8", "bf16"),
        ("linear", "i8token", "bf16"),
        ("linear", "auto", "f16"),
        ("linear", "8", "f16"),
        ("embedding", "auto", "bf16"),
        ("embedding", "auto", "f16"),
        ("pack", "auto", "bf16"),
        ("pack", "auto", "f16"),
    ]
    assert entries[3]["choice"] == {
        "layout": "n32k32",
        "kernels": [{"m": [1, 1 << 30], "kernel": "linear_u4g32o_f32_n32k32_avx2"}],
    }


def test_one_cell_is_explained_row_by_row(fewbit_cli: Run) -> None:
    done = fewbit_cli("support", "--op", "linear", "--scheme", "u4g32o", "--platform", "x86_avx2", "--json")
    bf16, told = json.loads(done.stdout)
    assert (bf16["scale_dtype"], told["scale_dtype"]) == ("bf16", "f16")
    verdicts = {row["kernel"]: row["verdict"] for row in told["rows"]}
    assert verdicts["linear_u4g32o_f32_n32k32_avx2"] == "serves every M"
    assert verdicts["linear_u4g32o_f32_n32k32_scalar"] == "lower priority"
    assert verdicts["linear_u4g32o_f32_n32k32_avx512"] == "needs avx512"
    assert verdicts["linear_u4g32o_i8g32_n32k32_avx2"] == "activations i8g32, not asked for"
    assert verdicts["linear_u4g32o_f32_canonical_reference"] == "reference backend, on request only"
    assert verdicts["linear_u4g32o_bf16_n32k32_amx_emulated"] == "emulation, for tests"


def test_a_cell_outside_the_table_is_explained_by_its_refusal(fewbit_cli: Run) -> None:
    done = fewbit_cli("support", "--op", "linear", "--scheme", "i2g8", "--platform", "x86_amx", "--json")
    (told,) = json.loads(done.stdout)
    assert told["refusals"][0]["axis"] == "scheme"
    assert told["refusals"][0]["asked"] == "i2g8 for linear"
    assert told["refusals"][0]["offered"][0].startswith("i2g") and len(told["refusals"][0]["offered"]) == 8


def test_eight_bit_activations_of_a_scheme_without_them(fewbit_cli: Run) -> None:
    done = fewbit_cli(
        "support", "--op", "linear", "--scheme", "bf16", "--activations", "8", "--platform", "x86_amx"
    )
    assert done.stdout.startswith(
        "linear bf16 activations 8 on x86_amx: activations 8 for linear bf16 is not supported"
    )


@pytest.mark.parametrize("columns", ["80", "120"])
@pytest.mark.parametrize("arguments", [(), ("--op", "linear", "--scheme", "u4g32ot")])
def test_it_fits_the_terminal(fewbit_cli: Run, columns: str, arguments: tuple[str, ...]) -> None:
    done = fewbit_cli("support", *arguments, COLUMNS=columns)
    assert done.returncode == 0
    assert max(map(len, done.stdout.splitlines())) <= int(columns)
    names = [word for word in done.stdout.split() if word.startswith("linear_")]
    assert set(names) <= {row.name for row in load_rows()}, "a kernel's name was broken over two lines"


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("--op", "gemm"), "unknown op 'gemm'; type one of linear, embedding, pack, "),
        (("--scheme", "u4g32x"), "unknown scheme 'u4g32x'; did you mean u4g32z, u4g32o, u4g32c"),
        (("--platform", "x86"), "unknown platform 'x86'; type one of x86_64, x86_avx2, x86_avx512, x86_amx"),
    ],
)
def test_an_unknown_name_is_refused_with_the_known_ones(
    fewbit_cli: Run, arguments: tuple[str, ...], error: str
) -> None:
    done = fewbit_cli("support", *arguments)
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr.startswith(f"fewbit: {error}"), done.stderr


def test_every_platform_that_the_help_names_is_known(fewbit_cli: Run) -> None:
    """One table is the only source of choices: each value that is advertised resolves."""
    for command in ("support", "inspect"):
        text = " ".join(fewbit_cli(command, "--help").stdout.split())
        assert ", ".join(KNOWN) in text
    for name in KNOWN:
        assert fewbit_cli("support", "--op", "rms_norm", "--platform", name).returncode == 0
