"""Finds and loads libfewbit.so, the kernel library with a plain C interface. Needs ctypes alone, no numpy.

library_path.py says where it is looked for: FEWBIT_LIBRARY, beside this file, the checkout's build folder.
"""

from __future__ import annotations

import ctypes
from ctypes import POINTER, c_char_p, c_int32, c_int64, c_void_p
from functools import cache
from pathlib import Path

from fewbit.kernels.cpu import abi
from fewbit.library_path import LibraryError, find_library, library_paths

FUNCTIONS: dict[str, tuple[object, list[object]]] = {
    "fb_find": (POINTER(abi.Kernel), [c_char_p]),
    "fb_row_name": (c_char_p, [c_int32]),
    "fb_pool_create": (c_void_p, [c_int32, POINTER(c_int32)]),
    "fb_pool_destroy": (None, [c_void_p]),
    "fb_pool_threads": (c_int32, [c_void_p]),
    "fb_run": (c_int32, [c_void_p, POINTER(abi.Step), c_int64]),
    "fb_version": (c_char_p, []),
    "fb_cpu_features": (c_int32, [c_char_p, c_int32]),
    "fb_struct_layout": (c_int32, [c_char_p, c_char_p, c_int32]),
    "fb_alloc": (c_void_p, [c_int64]),
    "fb_free": (None, [c_void_p]),
}


@cache
def load() -> ctypes.CDLL:
    """The library with its functions typed; LibraryError says what to run when it is not there."""
    path = find_library()
    if path is None:
        looked = " and ".join(str(p) for p in library_paths())
        raise LibraryError(
            f"the kernel library is missing (looked at {looked}); build it with `make setup`, or name it in FEWBIT_LIBRARY"
        )
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        raise LibraryError(
            f"the kernel library {path} cannot be loaded ({error}); build it again with `make setup`"
        ) from None
    for name, (result, arguments) in FUNCTIONS.items():
        function = getattr(library, name, None)
        if function is None:
            raise LibraryError(
                f"{path} has no function {name}, so it is of another version; build it again with `make setup`"
            )
        function.restype, function.argtypes = result, arguments
    _check_abi(library, path)
    return library


def _check_abi(library: ctypes.CDLL, path: Path) -> None:
    """A library of another ABI would read our structs wrongly, so the layouts are compared once at load."""
    for struct_name, struct in structs().items():
        theirs, ours = struct_layout(library, struct_name), abi.layout(struct)
        if theirs != ours:
            raise LibraryError(
                f"{path} lays out {struct_name} as [{theirs}], this package as [{ours}]: they are of different versions; "
                "build the library again with `make setup`"
            )


def structs() -> dict[str, type[ctypes.Structure]]:
    """Every mirrored struct by its C name."""
    fixed = {"fb_worker": abi.Worker, "fb_kernel": abi.Kernel, "fb_step": abi.Step}
    return fixed | {f"fb_{op}_args": struct for op, struct in abi.STRUCTS.items()}


def struct_layout(library: ctypes.CDLL, struct_name: str) -> str:
    """fb_struct_layout as text; "" for a struct the library does not know."""
    text = ctypes.create_string_buffer(2048)
    library.fb_struct_layout(struct_name.encode(), text, len(text))
    return text.value.decode()


def cpu_features() -> frozenset[str]:
    """What this machine and its kernel grant, the AMX permission included."""
    text = ctypes.create_string_buffer(1024)
    load().fb_cpu_features(text, len(text))
    return frozenset(filter(None, text.value.decode().split(",")))


def version() -> str:
    return str(load().fb_version().decode())


def row_names() -> list[str]:
    """Names of the kernels compiled into the library."""
    names: list[str] = []
    while (name := load().fb_row_name(len(names))) is not None:
        names.append(name.decode())
    return names
