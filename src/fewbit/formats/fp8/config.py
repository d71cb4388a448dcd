"""The configuration of FP8 folders, every key declared."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fewbit.formats.folder.config import Reader
from fewbit.formats.folder.files import FolderFiles
from fewbit.formats.folder.keys import Key

METHODS = ("fp8", "mxfp8")
_EXPERTS = Key("string", only=("fp8", "fp4"))
KEYS: dict[str, Key] = {
    "quant_method": Key("string", required=True, only=METHODS),
    "fmt": Key("string", default="e4m3", only=("e4m3", "float8_e4m3fn")),
    "activation_scheme": Key("string", default="dynamic", only=("dynamic", "static")),
    "weight_block_size": Key("any"),
    "scale_fmt": Key("string", only=("ue8m0", "float")),
    "modules_to_not_convert": Key("strings", default=[]),
    "ignored_layers": Key("strings", default=[]),
    "expert_dtype": _EXPERTS,
}
HARMLESS = frozenset({"dequantize"})


@dataclass(frozen=True, slots=True)
class Settings:
    """`block`: rows and columns that share a scale, None: a whole row or tensor does. (1, 32) with e8m0 scales is MXFP8.
    `experts`: "fp4" where the experts of a mixture are stored so (DeepSeek-V4), "fp8", or "" where nothing says it."""

    where: str
    block: tuple[int, int] | None = (128, 128)
    static: bool = False
    skipped: tuple[str, ...] = ()
    experts: str = ""

    def rule_of(self, module: str) -> str:
        """The entry that leaves the module unquantized: its name, or that of a module that holds it; "" for none."""
        return next((entry for entry in self.skipped if is_within(module, entry)), "")


def is_within(module: str, entry: str) -> bool:
    return bool(entry) and f".{entry}." in f".{module}."


def read_settings(files: FolderFiles) -> Settings:
    declaration = files.declarations["quantization_config"]
    reader = Reader(declaration.where, declaration.values)
    values = reader.all(KEYS, HARMLESS, "the format fp8")
    size = _block(reader, values["weight_block_size"])
    if values["quant_method"] == "mxfp8":
        if size not in (None, (1, 32)):
            reader.fail(
                f"key 'weight_block_size' is {list(size)}, expected [1, 32] with quant_method 'mxfp8'"
            )
        size = (1, 32)
    skipped = (*values["modules_to_not_convert"], *values["ignored_layers"])
    static = values["activation_scheme"] == "static"
    return Settings(declaration.where, size, static, skipped, _experts(reader, files, values["expert_dtype"]))


def _experts(reader: Reader, files: FolderFiles, said: str | None) -> str:
    """DeepSeek-V4 says it beside the quantization config, its successor within."""
    beside: str | None = Reader(str(files.config_path), files.config).get("expert_dtype", _EXPERTS)
    if None not in (said, beside) and said != beside:
        reader.fail(
            f"key 'expert_dtype' is {said!r}, but {files.config_path} says {beside!r}; expected the same"
        )
    return said or beside or ""


def _block(reader: Reader, value: Any) -> tuple[int, int] | None:
    if value is None:
        return None
    if (
        not isinstance(value, list)
        or len(value) != 2
        or not all(type(v) is int and 0 < v < 1 << 20 for v in value)
    ):
        reader.fail(
            f"key 'weight_block_size' is {repr(value)[:80]}, expected two numbers of rows and columns"
        )
    return value[0], value[1]
