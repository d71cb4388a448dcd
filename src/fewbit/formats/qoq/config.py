"""QoQ's configuration, from config.json or a file beside it."""

from __future__ import annotations

from dataclasses import dataclass

from fewbit.formats.folder.config import Reader
from fewbit.formats.folder.files import Declaration, FolderFiles
from fewbit.formats.folder.keys import Key

METHOD = "qoq"
GROUP = 128
KEYS: dict[str, Key] = {
    "quant_method": Key("string", required=True, only=(METHOD,)),
    "wbits": Key("count", required=True, only=(4,)),
    "group_size": Key("whole", required=True, only=(-1, GROUP)),
}


@dataclass(frozen=True, slots=True)
class Settings:
    """`grouped`: in two levels, by row and by groups of 128 columns; else by row alone."""

    where: str
    grouped: bool


def find_declaration(files: FolderFiles) -> Declaration | None:
    keys = ("quantization_config", "quant_config.json", "quantize_config.json")
    found = next((files.declarations[key] for key in keys if key in files.declarations), None)
    return found if found is not None and found.method == METHOD else None


def read_settings(files: FolderFiles) -> Settings:
    declaration = find_declaration(files)
    assert declaration is not None
    reader = Reader(declaration.where, declaration.values)
    return Settings(reader.where, reader.all(KEYS, (), "the format qoq")["group_size"] == GROUP)
