"""What config.json says: the method, the modules left out, and the block where scales belong to blocks."""

from __future__ import annotations

from dataclasses import dataclass

from fewbit.formats.folder.config import Reader
from fewbit.formats.folder.files import FolderFiles
from fewbit.formats.folder.keys import Key

METHODS = ("w8a8_int8", "w8a8_fp8", "blockwise_int8")
BLOCKWISE = "blockwise_int8"
_SKIPS = ("ignore", "ignored_layers", "modules_to_not_convert")
KEYS: dict[str, Key] = {
    "quant_method": Key("string", required=True, only=METHODS),
    "activation_scheme": Key("string", default="dynamic", only=("dynamic",)),
    "weight_block_size": Key("any"),
    **dict.fromkeys(_SKIPS, Key("strings", default=())),
}


@dataclass(frozen=True, slots=True)
class W8A8Config:
    where: str
    method: str
    block: tuple[int, int] | None
    skipped: tuple[str, ...]

    def skips(self, module: str) -> str:
        """The listed name that is the module's, or some components of it; "" for none."""
        return next((name for name in self.skipped if f".{name}." in f".{module}."), "")


def read_settings(files: FolderFiles) -> W8A8Config:
    declaration = files.declarations["quantization_config"]
    reader = Reader(declaration.where, declaration.values)
    values = reader.all(KEYS, (), f"the format {declaration.method}")
    block = values["weight_block_size"]
    good = (
        isinstance(block, list) and len(block) == 2 and all(type(b) is int and 0 < b < 1 << 31 for b in block)
    )
    if values["quant_method"] == BLOCKWISE and not good:
        reader.fail(f"key 'weight_block_size' is {str(block)[:80]}, expected two whole numbers from 1")
    if values["quant_method"] != BLOCKWISE and block is not None:
        reader.fail(f"has the key 'weight_block_size', but {values['quant_method']} has a scale for each row")
    skipped = tuple(name for key in _SKIPS for name in values[key] if name)
    return W8A8Config(reader.where, values["quant_method"], (block[0], block[1]) if good else None, skipped)
