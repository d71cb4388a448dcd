"""What is granted, what is masked, and why the rest is not there."""

from __future__ import annotations

import itertools
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from fewbit.library_path import find_library
from fewbit.platforms.known import KNOWN, PlatformError, known_platform, nearest_known
from fewbit.platforms.x86.detect import AMX_DENIED, NO_LIBRARY, NOT_SAVED, judge, read_cpuinfo_flags
from fewbit.platforms.x86.mask import apply_mask
from fewbit.spec.features import FEATURES, ISAS, name_features

AMX = ISAS["amx"].requires
AVX2 = ISAS["avx2"].requires


def test_amx_that_the_system_refuses_is_avx512_with_a_reason() -> None:
    """CPUID shows the tiles, the permission call fails: use AVX-512 and say why."""
    granted = frozenset(f for f in AMX if not f.startswith("amx"))
    found = judge(AMX, granted, frozenset(), "Xeon", "lib", asked=True)
    assert found.platform.name == "x86_avx512"
    assert found.platform.provides == granted
    assert found.denied == {"amx_tile": AMX_DENIED, "amx_int8": AMX_DENIED, "amx_bf16": AMX_DENIED}


def test_without_a_library_amx_is_left_out_with_a_reason() -> None:
    granted = frozenset(f for f in AMX if not f.startswith("amx"))
    found = judge(AMX, granted, frozenset(), "Xeon", "/proc/cpuinfo", asked=False)
    assert found.denied["amx_tile"] == NO_LIBRARY


def test_registers_that_the_system_does_not_save() -> None:
    found = judge(ISAS["avx512"].requires, AVX2, frozenset(), "", "lib", asked=True)
    assert found.platform.name == "x86_avx2"
    assert found.denied["avx512f"] == NOT_SAVED


def test_masking_amx_gives_the_lesser_platform() -> None:
    found = judge(AMX, AMX, frozenset({"-amx"}), "", "lib", asked=True)
    assert found.platform.name == "x86_avx512"
    assert found.masked == {"amx_tile", "amx_int8", "amx_bf16"}
    assert found.denied == {}


@pytest.mark.parametrize(
    ("items", "left"),
    [
        ({"-avx512_bf16"}, AMX - {"avx512_bf16"}),
        ({"-avx512"}, AVX2 | {"amx_tile", "amx_int8", "amx_bf16"}),
        ({"-avx2", "-avx512", "-amx"}, frozenset()),
        ({"amx"}, AMX),
        ({"avx2", "-amx"}, AMX - {"amx_tile", "amx_int8", "amx_bf16"}),
    ],
)
def test_masks(items: set[str], left: frozenset[str]) -> None:
    assert apply_mask(AMX, items) == left


def test_an_unknown_feature_is_an_error_that_names_the_known_ones() -> None:
    with pytest.raises(PlatformError) as error:
        apply_mask(AMX, {"-avx10"})
    assert str(error.value) == (
        "FEWBIT_FEATURES names an unknown feature 'avx10'; known: avx2, avx512, amx, fma, f16c, bmi2, avx512f, avx512bw, "
        "avx512vl, avx512dq, avx512vbmi, avx512_vnni, avx512_bf16, avx512_fp16, amx_tile, amx_int8, amx_bf16"
    )


def test_insisting_on_what_the_machine_lacks_is_an_error() -> None:
    with pytest.raises(PlatformError) as error:
        apply_mask(ISAS["avx512_vnni"].requires, {"amx"})
    assert str(error.value) == (
        "FEWBIT_FEATURES asks for amx, but this machine does not provide avx512_bf16, amx_tile, amx_int8, amx_bf16; "
        "see `fewbit doctor`, or leave amx out"
    )


def test_masks_reach_this_machines_detection() -> None:
    code = "from fewbit.platforms.x86.detect import detect; p = detect(); print(p.name, sorted(p.provides))"
    environ = os.environ | {"PYTHONPATH": "src", "FEWBIT_FEATURES": "-avx2,-avx512,-amx"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environ)
    assert done.stdout == "x86_64 []\n", done.stderr


def test_known_platforms_are_a_ladder() -> None:
    ladder = list(KNOWN.values())
    assert [p.name for p in ladder] == ["x86_64", "x86_avx2", "x86_avx512", "x86_amx"]
    for lesser, greater in itertools.pairwise(ladder):
        assert lesser.provides < greater.provides
        assert nearest_known(greater.provides - {next(iter(greater.provides - lesser.provides))}) is lesser
    with pytest.raises(
        PlatformError, match="unknown platform 'arm'; type one of x86_64, x86_avx2, x86_avx512, x86_amx"
    ):
        known_platform("arm")


def test_feature_sets_are_named_by_their_instruction_set() -> None:
    assert name_features(frozenset()) == "none"
    assert name_features(AVX2) == "avx2"
    assert name_features(AVX2 | {"avx512f"}) == "avx2+avx512f"
    assert name_features(ISAS["avx512_vnni"].requires | {"avx512_bf16"}) == "avx512_vnni+avx512_bf16"


def test_cpuinfo_flags(tmp_path: Path) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text(
        "processor : 0\nflags\t\t: fpu avx2 fma avx512vbmi amx_tile\nprocessor : 1\nflags : sse\n"
    )
    assert read_cpuinfo_flags(cpuinfo) == {"avx2", "fma", "avx512vbmi", "amx_tile"}
    assert read_cpuinfo_flags(tmp_path / "missing") == frozenset()


def test_the_library_grants_no_more_than_linux_shows() -> None:
    from fewbit.platforms.x86.detect import CPUINFO, ask_library

    library = find_library()
    assert library, "build the library first"
    granted = ask_library(library)
    assert granted <= read_cpuinfo_flags(CPUINFO)
    assert {f for f in read_cpuinfo_flags(CPUINFO) if not f.startswith("amx")} <= granted


def test_instruction_sets_agree_with_the_build(root: Path) -> None:
    """cmake/isa.cmake says which flags a stem is compiled with, spec/features.py what its rows require."""
    text = (root / "cmake" / "isa.cmake").read_text()
    variables = dict(re.findall(r"set\((CPUINFO_\w+) ([^)]*)\)", text))

    def expand(value: str) -> frozenset[str]:
        return frozenset().union(
            *(
                expand(variables[w[2:-1]]) if w.startswith("$") else {w}
                for w in value.replace('"', "").split()
            )
        )

    built = {name.removeprefix("CPUINFO_"): expand(value) for name, value in variables.items()}
    assert built == {name: isa.requires for name, isa in ISAS.items() if name != "reference"}
    assert frozenset().union(*built.values()) <= set(FEATURES)
