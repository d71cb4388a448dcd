"""HQQ's configuration: one setting for all modules, or one for each kind of module by the end of its name."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from fewbit.formats.folder.config import Reader
from fewbit.formats.folder.files import FolderFiles
from fewbit.formats.folder.keys import Key

METHOD = "hqq"
BITS = (1, 1.58, 2, 3, 4, 5, 6, 8)
KEYS: dict[str, Key] = {
    "quant_method": Key("string", required=True, only=(METHOD,)),
    "quant_config": Key("object", required=True),
    "skip_modules": Key("strings", default=[]),
}
PARAMS = "weight_quant_params"
PARTS: dict[str, Key] = {PARAMS: Key("object", required=True)}
# Current writers ignore the wish to quantize scales; a file of an old one says so in its tensors, where it is refused.
HARMLESS_PARTS = frozenset({"scale_quant_params", "zero_quant_params", "offload_meta"})
WEIGHT: dict[str, Key] = {
    "nbits": Key("number", required=True, only=BITS),
    "group_size": Key("count"),
    "axis": Key("whole", default=1, only=(0, 1)),
    "channel_wise": Key("bool", default=True),
    "view_as_float": Key("bool", default=False),
}
HARMLESS_WEIGHT = frozenset({"optimize", "round_zero"})


@dataclass(frozen=True, slots=True)
class Settings:
    """How a module is stored. `group_size` None: all of K (axis 1) or of N (axis 0); `axis` 1: groups along K, 0: down N."""

    nbits: float
    group_size: int | None = 64
    axis: int = 1
    channel_wise: bool = True
    view_as_float: bool = False


@dataclass(frozen=True, slots=True)
class HqqConfig:
    """`all`: of every module, None where `tagged` names each kind, such as "self_attn.q_proj"."""

    where: str
    all: Settings | None
    tagged: dict[str, Settings] = field(default_factory=dict)
    skipped: tuple[str, ...] = ()

    def skips(self, module: str) -> str:
        """The entry of skip_modules that is a part of the module's name, "" for none."""
        return next((entry for entry in self.skipped if entry and entry in module), "")

    def settings_of(self, module: str) -> Settings | None:
        tag = "." + ".".join(part for part in module.split(".") if not part.isdecimal())
        return self.all or next((s for name, s in self.tagged.items() if tag.endswith(f".{name}")), None)


def read_config(files: FolderFiles) -> HqqConfig:
    declaration = files.declarations["quantization_config"]
    reader = Reader(declaration.where, declaration.values)
    values = reader.all(KEYS, (), "the format hqq")
    said: dict[str, Any] = values["quant_config"]
    inside = f"{reader.where}: quant_config"
    everywhere = _settings(inside, said) if PARAMS in said or not said else None
    tagged = {} if everywhere else {tag: _settings(f"{inside} {tag!r}", own) for tag, own in said.items()}
    return HqqConfig(reader.where, everywhere, tagged, tuple(values["skip_modules"]))


def _settings(where: str, said: Any) -> Settings:
    outer = Reader(where, said if isinstance(said, dict) else {})
    if not isinstance(said, dict):
        outer.fail(f"is {repr(said)[:80]}, expected an object with {PARAMS}")
    params = outer.all(PARTS, HARMLESS_PARTS, "the format hqq")[PARAMS]
    return Settings(**Reader(f"{where}: {PARAMS}", params).all(WEIGHT, HARMLESS_WEIGHT, "the format hqq"))
