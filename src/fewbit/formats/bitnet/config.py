"""BitNet's configuration: which layer class runs the weights decides what their scale does."""

from __future__ import annotations

import re
from dataclasses import dataclass

from fewbit.formats.folder.config import Reader
from fewbit.formats.folder.files import FolderFiles
from fewbit.formats.folder.keys import Key

METHOD = "bitnet"
KEYS: dict[str, Key] = {
    "quant_method": Key("string", required=True, only=(METHOD,)),
    "linear_class": Key("string", default="bitlinear", only=("bitlinear", "autobitlinear")),
    "quantization_mode": Key("string", default="offline", only=("offline", "online")),
    "use_rms_norm": Key("bool", default=False, only=(False,)),
    "modules_to_not_convert": Key("strings"),
}
HARMLESS = frozenset({"rms_norm_eps"})  # of the norm that use_rms_norm asks for


@dataclass(frozen=True, slots=True)
class Settings:
    """`divides`: weight_scale divides. `online`: weights are stored as plain floats, and become ternary when they are used.
    `skipped`: None: the output head alone."""

    where: str = ""
    divides: bool = True
    online: bool = False
    skipped: tuple[str, ...] | None = None

    def rule_of(self, module: str) -> str:
        """What leaves the module plain, "" for nothing."""
        if self.skipped is None:
            return "modules_to_not_convert, absent, which means the head" if module == "lm_head" else ""
        found = (e for e in self.skipped if e and (f"{module}.".startswith(f"{e}.") or module.endswith(e)))
        entry = next(found, "")
        return f"the entry {entry!r} of modules_to_not_convert" if entry else ""


def read_settings(files: FolderFiles) -> Settings:
    declaration = files.declarations["quantization_config"]
    reader = Reader(declaration.where, declaration.values)
    values = reader.all(KEYS, HARMLESS, "the format bitnet")
    skipped = values["modules_to_not_convert"]
    for entry in skipped or ():
        if not re.fullmatch(r"[\w.-]*", entry):
            reader.fail(
                f"key 'modules_to_not_convert' has the pattern {entry[:80]!r}, expected names of modules"
            )
    auto = values["linear_class"] == "autobitlinear"
    online = values["quantization_mode"] == "online"
    if online and not auto:
        reader.fail(
            "has quantization_mode 'online' with linear_class 'bitlinear', which runs packed weights only; they contradict each "
            "other"
        )
    return Settings(reader.where, not auto, online, None if skipped is None else tuple(skipped))
