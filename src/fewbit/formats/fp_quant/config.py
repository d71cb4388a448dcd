"""FP-Quant's configuration. How gradients and activations are rounded changes nothing that is stored."""

from __future__ import annotations

from dataclasses import dataclass

from fewbit.formats.folder.config import Reader
from fewbit.formats.folder.files import FolderFiles
from fewbit.formats.folder.keys import Key

METHOD = "fp_quant"
SIZES = {"mxfp4": (32, 64, 128), "nvfp4": (16, 32, 64, 128)}
KEYS: dict[str, Key] = {
    "quant_method": Key("string", required=True, only=(METHOD,)),
    "forward_dtype": Key("string", default="nvfp4", only=("mxfp4", "nvfp4")),
    "forward_method": Key("string", default="abs_max", only=("abs_max", "quest")),
    "backward_dtype": Key("string", default="bf16", only=("bf16", "mxfp8", "mxfp4")),
    "store_master_weights": Key("bool", default=False, only=(False,)),
    "hadamard_group_size": Key("count"),
    "pseudoquantization": Key("bool", default=False),
    "transform_init": Key("string", default="hadamard", only=("hadamard", "identity", "gsr")),
    "modules_to_not_convert": Key("strings", default=["lm_head"]),
}


@dataclass(frozen=True, slots=True)
class Settings:
    """`element`: mxfp4 or nvfp4. `rotated`: activations in a run. `plain`: weights are stored as the floats that they round to."""

    where: str = ""
    element: str = "mxfp4"
    rotated: int = 32
    plain: bool = False
    skipped: tuple[str, ...] = ("lm_head",)

    @property
    def group(self) -> int:
        """Columns that share a scale."""
        return 32 if self.element == "mxfp4" else 16

    def rule_of(self, module: str) -> str:
        """The entry that the module's name ends with, "" for none."""
        return next((entry for entry in self.skipped if entry and module.endswith(entry)), "")


def read_settings(files: FolderFiles) -> Settings:
    declaration = files.declarations["quantization_config"]
    reader = Reader(declaration.where, declaration.values)
    values = reader.all(KEYS, (), "the format fp_quant")
    element, size = values["forward_dtype"], values["hadamard_group_size"]
    size = SIZES[element][0] if size is None else size
    if size not in SIZES[element]:
        reader.fail(
            f"key 'hadamard_group_size' is {size}, which is not supported with {element} (supported: "
            f"{', '.join(map(str, SIZES[element]))})"
        )
    if element == "nvfp4" and values["forward_method"] != "abs_max":
        reader.fail("has forward_dtype 'nvfp4' with forward_method 'quest', which contradict each other")
    skipped = tuple(values["modules_to_not_convert"])
    return Settings(reader.where, element, size, values["pseudoquantization"], skipped)
