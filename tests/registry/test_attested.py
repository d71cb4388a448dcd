"""Records of runs, and the state that they give a cell."""

from __future__ import annotations

from pathlib import Path

from fewbit.registry.attested import Attestation, Record, read_attestation, write_records
from fewbit.registry.matrix import matrix
from fewbit.registry.select import select
from fewbit.spec.cell import Cell, Choice
from tests.registry.example_rows import ROWS, platform

AVX512, AMX = "linear_u4g32o_f32_n32k32_avx512", "linear_u4g32o_bf16_n32k32_amx"


def record(row: str) -> Record:
    return Record(row, 12, "m=3 n=33 k=64", 1.25e-7, 4e-7, "2026-01-02", "Xeon", "amx", "0.1.0+abc")


def state(attestation: Attestation) -> str:
    choice = select(Cell("linear", "u4g32o"), platform("amx"), ROWS)
    assert isinstance(choice, Choice)
    return attestation.state_of(choice, "x86_amx", ROWS)


def test_a_cell_is_in_the_state_of_its_least_proven_row() -> None:
    here = {AVX512: record(AVX512), AMX: record(AMX)}
    assert state(Attestation({}, frozenset())) == "declared"
    assert state(Attestation({}, frozenset({AVX512, AMX}))) == "compiled"
    assert state(Attestation({"x86_amx": {AVX512: record(AVX512)}}, frozenset({AVX512, AMX}))) == "compiled"
    assert state(Attestation({"x86_amx": here}, frozenset())) == "attested"
    assert (
        state(Attestation({"x86_avx512": here}, frozenset())) == "declared"
    )  # it ran, but not on that platform


def test_an_emulation_that_ran_anywhere_makes_a_row_emulated() -> None:
    emulation = f"{AMX}_emulated"
    records = {"x86_amx": {AVX512: record(AVX512)}, "x86_avx2": {emulation: record(emulation)}}
    assert state(Attestation(records, frozenset({AVX512, AMX}))) == "emulated"


def test_bits_that_ran_on_another_instruction_set_make_a_row_emulated() -> None:
    """Rows of a bitwise class are one algorithm; those that promise a tolerance only are not."""
    scalar = AVX512.replace("avx512", "scalar")
    attestation = Attestation({"x86_64": {scalar: record(scalar)}}, frozenset())
    rows = {row.name: row for row in ROWS}
    assert attestation.state(rows[AVX512], "x86_avx512", ROWS) == "emulated"
    assert attestation.state(rows[AVX512.replace("u4g32o", "i4g32")], "x86_avx512", ROWS) == "declared"
    assert attestation.state(rows[AMX], "x86_amx", ROWS) == "declared"


def test_records_round_trip(tmp_path: Path) -> None:
    write_records(tmp_path / "x86_amx.csv", [record(AMX), record(AVX512)])
    (tmp_path / "compiled.csv").write_text(f"row\n{AMX}\n")
    found = read_attestation(tmp_path)
    assert found.records == {"x86_amx": {AMX: record(AMX), AVX512: record(AVX512)}}
    assert found.compiled == {AMX}
    assert (tmp_path / "x86_amx.csv").read_text().splitlines()[0] == (
        "row,cases,worst_case,max_error,tolerance,date,cpu,features,build"
    )


def test_no_folder_attests_nothing(tmp_path: Path) -> None:
    assert read_attestation(tmp_path / "nothing") == Attestation({}, frozenset())


def test_a_refused_cell_is_refused_whatever_ran() -> None:
    entries = matrix(ROWS, [platform("scalar")], Attestation({}, frozenset()))
    refused = [e for e in entries if e.cell.scheme == "u4g32ot" and e.cell.op == "linear"]
    assert refused and {e.state for e in refused} == {"refused"}


def test_every_record_of_the_checkout_is_of_a_declared_row(root: Path) -> None:
    from fewbit.platforms.known import KNOWN
    from fewbit.registry.table import load_rows

    found = read_attestation(root / "docs" / "attested")
    rows = {row.name: row for row in load_rows()}
    assert found.records.keys() <= KNOWN.keys()
    for name, records in found.records.items():
        for row, line in records.items():
            assert row in rows, f"docs/attested/{name}.csv attests {row}, which is not declared any more"
            assert rows[row].requires <= KNOWN[name].provides
            assert line.cases > 0 and line.max_error <= line.tolerance
    assert found.compiled <= rows.keys()
