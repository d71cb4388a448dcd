"""A checkpoint's names and those of the text model in it: what the model's family says of prefixes, towers and other spellings.

A family gives `Names`; the folder renames canonical tensors by it, and rules of a format may name a module in any spelling.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

WRAPPED = ".linear"  # a module inside the module that rules may or may not name: `q_proj.linear`


@dataclass(frozen=True, slots=True)
class Names:
    """`prefixes`: (in the file, canonical), of the text model. `segments`: (in the file, canonical) parts of a name between
    dots. `towers`: (prefix, component) of all that is not the text model; a prefix without a last dot is a whole name.
    `around`: prefixes that a tower's name may have or lack. `wrapper`: the model type of the class around the text model.
    """

    prefixes: tuple[tuple[str, str], ...] = ()
    segments: tuple[tuple[str, str], ...] = ()
    towers: tuple[tuple[str, str], ...] = ()
    around: tuple[str, ...] = ()
    wrapper: str = ""

    def component(self, name: str) -> str:
        """`vision tower`; "" for the text model."""
        bare = self._bare(name)
        for prefix, component in self.towers:
            if bare.startswith(prefix) if prefix.endswith(".") else bare == prefix:
                return component
        return ""

    def canonical(self, name: str) -> str:
        """Of a tensor or module; a tower keeps the file's own names."""
        if self.component(name):
            return name
        return _replace(self._without_prefix(name), dict(self.segments))

    def spellings(self, module: str) -> tuple[str, ...]:
        """What else a rule may call the module: canonical, behind another prefix, with some other segments, `.linear`."""
        if self.component(module):
            bare = self._bare(module)
            names = [bare, *(f"{prefix}{bare}" for prefix in self.around)]
        else:
            stem = self._without_prefix(module)
            back = tuple((theirs, ours) for ours, theirs in self.segments)
            swaps = [self.segments, back, *((pair,) for pair in (*self.segments, *back))]
            names = [
                _replace(stem, dict(self.segments)),
                stem,
                *(_replace(stem, dict(swap)) for swap in swaps),
            ]
            names += [
                ours + name[len(theirs) :]
                for name in dict.fromkeys(names)
                for ours, theirs in self.prefixes
                if name.startswith(theirs)
            ]
        every = [module, *names]
        every += [name.removesuffix(WRAPPED) if name.endswith(WRAPPED) else name + WRAPPED for name in every]
        return tuple(name for name in dict.fromkeys(every) if name != module)

    def _without_prefix(self, name: str) -> str:
        for ours, canonical in self.prefixes:
            if name.startswith(ours):
                return canonical + name[len(ours) :]
        return name

    def _bare(self, name: str) -> str:
        return next((name[len(p) :] for p in self.around if name.startswith(p)), name)


AS_THEY_ARE = Names()


@dataclass(frozen=True, slots=True)
class TextModel:
    """The config of the text model, flat, and where in the file it stands (`text_config`, "" for the whole)."""

    config: dict[str, Any]
    where: str = ""
    names: Names = AS_THEY_ARE


FindText = Callable[[Mapping[str, Any], Collection[str]], TextModel]
"""From config.json and the names of all tensors."""


def whole(config: Mapping[str, Any], tensors: Collection[str]) -> TextModel:
    """Nothing is known of wrappers: the config is the text model's."""
    return TextModel(dict(config))


def _replace(name: str, segments: Mapping[str, str]) -> str:
    return ".".join(segments.get(part, part) for part in name.split(".")) if segments else name
