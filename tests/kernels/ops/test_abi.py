"""The ctypes mirrors against the library's own account of its structs."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest

from fewbit.kernels.cpu import abi, library
from fewbit.kernels.ops import CONTRACTS


@pytest.mark.parametrize("name", sorted(library.structs()))
def test_layout_is_the_library_s(name: str) -> None:
    assert abi.layout(library.structs()[name]) == library.struct_layout(library.load(), name) != ""


@pytest.mark.parametrize("op", sorted(CONTRACTS))
def test_every_field_comes_from_the_contract(op: str) -> None:
    """So that lowering needs no code of its own for any op."""
    contract = CONTRACTS[op]
    names = {arg.name for arg in contract.args}
    symbols = {extent for arg in contract.args for extent in arg.extents if extent.isidentifier()}
    for field, *_ in abi.STRUCTS[op]._fields_:
        known = field in names | symbols | {"workspace", "reserved"} or field.removesuffix("_stride") in names
        assert known, f"{op}.{field}"


def test_a_missing_library_says_what_to_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "find_library", lambda: None)
    library.load.cache_clear()
    with pytest.raises(library.LibraryError, match="make setup"):
        library.load()
    library.load.cache_clear()


def test_a_library_with_another_layout_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would read our structs wrongly."""
    fields = [*abi.STRUCTS["rope"]._fields_, ("more", ctypes.c_int64)]
    monkeypatch.setitem(abi.STRUCTS, "rope", type("rope", (ctypes.Structure,), {"_fields_": fields}))
    with pytest.raises(library.LibraryError, match=r"lays out fb_rope_args as .* build the library again"):
        library._check_abi(library.load(), Path("other.so"))
