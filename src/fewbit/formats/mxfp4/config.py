"""The configuration of MXFP4 folders: only what is left plain; the tensors' names say the rest."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase

from fewbit.formats.folder.config import Reader
from fewbit.formats.folder.files import FolderFiles
from fewbit.formats.folder.keys import Key

KEYS: dict[str, Key] = {
    "quant_method": Key("string", required=True, only=("mxfp4",)),
    "modules_to_not_convert": Key("strings", default=[]),
}
HARMLESS = frozenset({"dequantize", "use_kernels"})


@dataclass(frozen=True, slots=True)
class Settings:
    """`skipped`: globs over the names of modules, or of what holds them."""

    skipped: tuple[str, ...] = ()

    def rule_of(self, module: str) -> str:
        """The entry that leaves the module plain, "" for none."""
        return next((e for e in self.skipped if fnmatchcase(module, e) or fnmatchcase(module, f"{e}.*")), "")


def read_settings(files: FolderFiles) -> Settings:
    declaration = files.declarations["quantization_config"]
    values = Reader(declaration.where, declaration.values).all(KEYS, HARMLESS, "the format mxfp4")
    return Settings(tuple(values["modules_to_not_convert"]))
