"""What the configuration says of each module: how it is stored, or what leaves it plain."""

from __future__ import annotations

from dataclasses import dataclass, field
from fnmatch import fnmatchcase


@dataclass(frozen=True, slots=True)
class Layer:
    """How one module is stored. `group_size` 0: what the algorithm always has, or what the scale's shape says."""

    algorithm: str
    group_size: int = 0


@dataclass(frozen=True, slots=True)
class Settings:
    """`all`: of every quantized module, None where `layers` names each."""

    where: str
    all: Layer | None
    layers: dict[str, Layer] = field(default_factory=dict)
    excluded: tuple[str, ...] = ()

    def rule_of(self, module: str) -> str:
        """The entry that leaves the module plain: a glob over its name or a part of it, or what holds it; "" for none."""
        parts = module.split(".")
        for entry in self.excluded:
            inside = entry and f".{entry}." in f".{module}."
            if inside or fnmatchcase(module, entry) or any(fnmatchcase(part, entry) for part in parts):
                return entry
        return ""

    def layer_of(self, module: str) -> Layer | None:
        """By its own name, then by the nearest module that holds it."""
        name = module
        while self.all is None and name:
            if name in self.layers:
                return self.layers[name]
            name = name.rpartition(".")[0]
        return self.all
