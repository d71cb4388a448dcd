"""Which format a folder is in: its declarations decide, and its tensors where it declares nothing."""

from __future__ import annotations

from importlib import import_module
from typing import Protocol, cast

from fewbit.formats.folder.files import FolderFiles
from fewbit.formats.folder.resolve import Resolver
from fewbit.formats.quantization import check_format
from fewbit.formats.registry import FORMATS
from fewbit.spec.refusal import CheckpointError


class Format(Protocol):
    """What a module `fewbit.formats.<name>` of a folder format gives."""

    def declares(self, files: FolderFiles) -> bool:
        """Do the declarations (or, without any, the tensors) say that this is the format? Looks, checks nothing."""
        ...

    def resolver(self, files: FolderFiles) -> Resolver:
        """Reads and checks the config."""
        ...


def find_format(files: FolderFiles, asked: str = "") -> tuple[str, Format]:
    """The one format that the folder declares; `asked` (--quantization) must be it."""
    candidates = {name: _load(name) for name, info in FORMATS.items() if info.folder and name != "plain"}
    found = [name for name, module in candidates.items() if module.declares(files)]
    if len(found) > 1:
        raise CheckpointError(
            f"{files.path}: declares the formats {' and '.join(found)} at once, expected one; remove what is wrong"
        )
    if not found and files.declarations:
        declaration = next(iter(files.declarations.values()))
        method = declaration.values.get("quant_method", "")
        if not isinstance(method, str):
            raise CheckpointError(
                f"{declaration.where}: key 'quant_method' is {str(method)[:80]}, expected the name of a format"
            )
        raise CheckpointError(
            f"{declaration.where}: is quantized with the format {declaration.method or 'without a name'!r}, which is not "
            f"supported yet (supported: {', '.join(candidates)}); give a plain (BF16, F16, F32) checkpoint or a GGUF file"
        )
    name = found[0] if found else "plain"
    if asked:
        check_format(files.path, name, asked)
    return name, candidates[name] if found else _load("plain")


def _load(name: str) -> Format:
    return cast(Format, import_module(FORMATS[name].module))
