"""MLX's `quantization` of config.json: three settings for all modules, and overrides keyed by the module's name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fewbit.formats.folder.config import Reader
from fewbit.formats.folder.files import Declaration, FolderFiles
from fewbit.formats.folder.keys import Key

BITS = (2, 3, 4, 5, 6, 8)
GROUP_SIZES = (16, 32, 64, 128)
DEFAULTS: dict[str, tuple[int, int]] = {
    "affine": (64, 4),
    "mxfp4": (32, 4),
    "nvfp4": (16, 4),
    "mxfp8": (32, 8),
}
"""Mode to (group_size, bits). The small floats have no others."""

_MODE = Key("string", default="affine", only=tuple(DEFAULTS))
KEYS: dict[str, Key] = {
    "group_size": Key("count", required=True, only=GROUP_SIZES),
    "bits": Key("count", required=True, only=BITS),
    "mode": _MODE,
}
OVERRIDES: dict[str, Key] = {
    "group_size": Key("count", only=GROUP_SIZES),
    "bits": Key("count", only=BITS),
    "mode": _MODE,
}


@dataclass(frozen=True, slots=True)
class Settings:
    bits: int
    group_size: int
    mode: str = "affine"

    def __str__(self) -> str:
        return f"mode {self.mode}, bits {self.bits}, group_size {self.group_size}"


@dataclass(frozen=True, slots=True)
class MlxConfig:
    """`overrides`: module to its own settings; None: it is not quantized."""

    where: str
    settings: Settings
    overrides: dict[str, Settings | None]


def find_declaration(files: FolderFiles) -> Declaration | None:
    """`quantization`, or its copy `quantization_config` alone; neither names a method."""
    for key in ("quantization", "quantization_config"):
        found = files.declarations.get(key)
        if found is not None:
            ours = "quant_method" not in found.values and {"group_size", "bits"} & found.values.keys()
            return found if ours else None
    return None


def read_settings(files: FolderFiles) -> MlxConfig:
    declaration = find_declaration(files)
    assert declaration is not None
    reader = Reader(declaration.where, declaration.values)
    _check_copy(reader, declaration, files)
    own = Reader(reader.where, {k: v for k, v in reader.values.items() if not isinstance(v, dict | bool)})
    for key in KEYS.keys() - own.values.keys():
        if isinstance(reader.values.get(key), dict | bool):
            reader.fail(
                f"key {key!r} is {str(reader.values[key])[:80]}, expected no object and no truth value"
            )
    settings = _settings(own, own.all(KEYS, (), "the format mlx"))
    modules = {name.rpartition(".")[0] for name in files.tensors}
    overrides: dict[str, Settings | None] = {}
    for name, value in reader.values.items():
        if not isinstance(value, dict | bool):
            continue
        if name not in modules:
            reader.fail(
                f"key {name!r} is neither a known key nor a module of the checkpoint; it may change the numbers"
            )
        overrides[name] = _override(Reader(f"{reader.where}: module {name!r}", {}), value, settings)
    return MlxConfig(reader.where, settings, overrides)


def _override(reader: Reader, value: Any, settings: Settings) -> Settings | None:
    """What an override leaves out is the default of its mode, not the setting of the others: so MLX reads it."""
    if isinstance(value, bool):
        return settings if value else None
    own = Reader(reader.where, value)
    values = own.all(OVERRIDES, (), "a module in the format mlx")
    group_size, bits = DEFAULTS[values["mode"]]
    return _settings(
        own,
        {
            "mode": values["mode"],
            "group_size": values["group_size"] or group_size,
            "bits": values["bits"] or bits,
        },
    )


def _settings(reader: Reader, values: dict[str, Any]) -> Settings:
    settings = Settings(values["bits"], values["group_size"], values["mode"])
    group_size, bits = DEFAULTS[settings.mode]
    if settings.mode == "affine" and settings.group_size == 16:
        reader.fail(
            "key 'group_size' is 16, which is not supported for the mode affine (supported: 32, 64, 128)"
        )
    if settings.mode != "affine" and (settings.group_size, settings.bits) != (group_size, bits):
        reader.fail(
            f"has group_size {settings.group_size} and bits {settings.bits}, expected {group_size} and {bits}, since the mode "
            f"is {settings.mode!r}"
        )
    return settings


def _check_copy(reader: Reader, declaration: Declaration, files: FolderFiles) -> None:
    """`quantization_config` repeats `quantization` for readers that look for the one key only."""
    copy = files.declarations.get("quantization_config", declaration)
    if copy.values != declaration.values:
        keys = copy.values.keys() | declaration.values.keys()
        key = min(k for k in keys if copy.values.get(k, ...) != declaration.values.get(k, ...))
        reader.fail(f"key {key!r} differs from that of {copy.where}; expected the same in both")
