"""What config.json says of a bitsandbytes folder. How a 4-bit weight is stored, its own quant_state says."""

from __future__ import annotations

from dataclasses import dataclass

from fewbit.formats.folder.config import Reader
from fewbit.formats.folder.files import FolderFiles
from fewbit.formats.folder.keys import Key

METHOD = "bitsandbytes"
KEYS: dict[str, Key] = {
    "quant_method": Key("string", required=True, only=(METHOD,)),
    "load_in_4bit": Key("bool", default=False),
    "load_in_8bit": Key("bool", default=False),
    "_load_in_4bit": Key("bool"),
    "_load_in_8bit": Key("bool"),
    "bnb_4bit_quant_type": Key("string", default="fp4", only=("nf4", "fp4")),
    "bnb_4bit_use_double_quant": Key("bool", default=False),
    "bnb_4bit_quant_storage": Key("string", default="uint8", only=("uint8",)),
    "llm_int8_has_fp16_weight": Key("bool", default=False, only=(False,)),
    "llm_int8_skip_modules": Key("strings"),
}
# In what type, and with which outliers apart, activations are multiplied: nothing here changes what the weights mean.
HARMLESS = frozenset({"bnb_4bit_compute_dtype", "llm_int8_threshold", "llm_int8_enable_fp32_cpu_offload"})


@dataclass(frozen=True, slots=True)
class BitsAndBytesConfig:
    where: str
    bits: int
    quant_type: str
    double: bool
    skipped: tuple[str, ...]

    def skips(self, module: str) -> str:
        """The name of `llm_int8_skip_modules` that is the module's, or some components of it; "" for none."""
        return next((name for name in self.skipped if f".{name}." in f".{module}."), "")


def read_settings(files: FolderFiles) -> BitsAndBytesConfig:
    declaration = files.declarations["quantization_config"]
    reader = Reader(declaration.where, declaration.values)
    values = reader.all(KEYS, HARMLESS, f"the format {METHOD}")
    for key in ("load_in_4bit", "load_in_8bit"):
        if values[f"_{key}"] not in (None, values[key]):
            reader.fail(
                f"key {key!r} is {values[key]} and '_{key}' is {values[f'_{key}']}, which contradict each other"
            )
    if values["load_in_4bit"] == values["load_in_8bit"]:
        reader.fail(
            f"keys 'load_in_4bit' and 'load_in_8bit' are both {values['load_in_4bit']}, expected one of them to be true"
        )
    return BitsAndBytesConfig(
        reader.where,
        4 if values["load_in_4bit"] else 8,
        values["bnb_4bit_quant_type"],
        values["bnb_4bit_use_double_quant"],
        tuple(name for name in values["llm_int8_skip_modules"] or () if name),
    )
