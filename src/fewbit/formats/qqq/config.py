"""QQQ's configuration, from config.json or quantize_config.json, every key declared."""

from __future__ import annotations

from dataclasses import dataclass

from fewbit.formats.folder.config import Reader
from fewbit.formats.folder.files import Declaration, FolderFiles
from fewbit.formats.folder.keys import Key
from fewbit.formats.gptq.config import HARMLESS

METHOD = "qqq"
_NAME = Key("string", only=(METHOD,))
KEYS: dict[str, Key] = {
    "quant_method": _NAME,
    "method": _NAME,
    "format": _NAME,
    "checkpoint_format": _NAME,
    "bits": Key("count", default=4, only=(4,)),
    "wbits": Key("count", default=4, only=(4,)),
    "group_size": Key("whole", required=True, only=(128,)),
    "sym": Key("bool", default=True, only=(True,)),
    "desc_act": Key("bool", default=False, only=(False,)),
    "lm_head": Key("bool", default=False),
    "pack_dtype": Key("string", default="int32", only=("int32",)),
}


@dataclass(frozen=True, slots=True)
class QqqConfig:
    where: str
    group_size: int
    lm_head: bool


def find_declaration(files: FolderFiles) -> Declaration | None:
    """config.json's own wins over the side file."""
    for key in ("quantization_config", "quantize_config.json"):
        found = files.declarations.get(key)
        if found is not None:
            return found if found.method == METHOD else None
    return None


def read_settings(files: FolderFiles) -> QqqConfig:
    declaration = find_declaration(files)
    assert declaration is not None
    reader = Reader(declaration.where, declaration.values)
    values = reader.all(KEYS, HARMLESS, "the format qqq")
    twin = files.declarations.get("quantize_config.json")
    if twin is not None and twin.values.get("group_size", values["group_size"]) != values["group_size"]:
        reader.fail(
            f"key 'group_size' is {values['group_size']}, but {twin.where} says {str(twin.values['group_size'])[:80]}; "
            "expected the same in both"
        )
    return QqqConfig(declaration.where, values["group_size"], values["lm_head"])
