"""`fewbit support --formats`: every format with its schemes, how each was verified, and where no kernel runs it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from fewbit.formats.evidence import HOWS, Evidence, evidence_text, read_evidence
from fewbit.formats.quantization import names
from fewbit.formats.registry import FORMATS
from fewbit.platforms.known import KNOWN

Run = Callable[..., CompletedProcess[str]]


def test_every_format_has_evidence_of_something() -> None:
    """tools/gen_formats.py --check, of the lint, holds the table to the checkpoints."""
    found = read_evidence()
    assert {evidence.format for evidence in found} == FORMATS.keys()
    assert {evidence.how for evidence in found} == set(HOWS)
    assert all((evidence.how == "round trip") == (evidence.checkpoints == 0) for evidence in found)
    assert Evidence("gguf", "u4g32o", "f16", "bit-equal", 1) in found


def test_what_is_written_is_read(tmp_path: Path) -> None:
    (tmp_path / "e.csv").write_text(evidence_text(read_evidence()))
    assert read_evidence(tmp_path / "e.csv") == read_evidence()


def test_a_platform_marks_what_it_has_no_kernel_for(fewbit_cli: Run) -> None:
    told = json.loads(fewbit_cli("support", "--formats", "--platform", "x86_avx2", "--json").stdout)
    assert told["quantization"] == list(names())
    lines = {(line["format"], line["scheme"]): line for line in told["formats"]}
    served = lines["gguf", "u4g32o"]
    assert (served["how"], served["checkpoints"]) == ("bit-equal", 1)
    assert served["platforms"]["x86_avx2"]["kernels"] == "avx2" and list(served["platforms"]) == ["x86_avx2"]
    assert lines["gguf", "iq1_m"]["platforms"]["x86_avx2"] == {"state": "refused", "kernels": None}


@pytest.mark.parametrize("columns", ["80", "120"])
@pytest.mark.parametrize("arguments", [(), ("--platform", "x86_amx")])
def test_it_fits_the_terminal(fewbit_cli: Run, columns: str, arguments: tuple[str, ...]) -> None:
    done = fewbit_cli("support", "--formats", *arguments, COLUMNS=columns)
    assert done.returncode == 0, done.stderr
    assert max(map(len, done.stdout.splitlines())) <= int(columns)
    assert all(word in done.stdout for word in (*FORMATS, *HOWS, *(arguments or [p[4:] for p in KNOWN])[1:]))


def test_it_goes_with_no_cell(fewbit_cli: Run) -> None:
    done = fewbit_cli("support", "--formats", "--scheme", "i4g32")
    assert done.returncode == 1 and "--formats goes with --platform and --json alone" in done.stderr
