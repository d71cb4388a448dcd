"""A checkpoint's names and those of the text model in it: what the model's family says of prefixes, towers and other spellings.

A family gives `Names`; the folder renames canonical tensors by it, and rules of a format may name a module in any spelling.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
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
        if not self.towers:
            return ""
        bare = self._bare(name)
        for prefix, component in self.towers:
            if bare.startswith(prefix) if prefix.endswith(".") else bare == prefix:
                return component
        return ""

    def canonical(self, name: str) -> str:
        """Of a tensor or module; a tower keeps the file's own names."""
        if self.component(name) or not (self.prefixes or self.segments):
            return name
        return _replace(self._without_prefix(name), dict(self.segments))

    def spellings(self, module: str) -> tuple[str, ...]:
        """What else a rule may call the module: canonical, behind another prefix, with some other segments; a tower's module
        also with or without the module inside it."""
        if self.component(module):
            bare = self._bare(module)
            every = [module, bare, *(f"{prefix}{bare}" for prefix in self.around)]
            every += [n.removesuffix(WRAPPED) if n.endswith(WRAPPED) else n + WRAPPED for n in every]
        elif self.prefixes or self.segments:
            stem = self._without_prefix(module)
            every = [
                *dict.fromkeys((_replace(stem, dict(self.segments)), stem, *_swapped(stem, self.segments)))
            ]
            every += [f"{o}{n[len(t) :]}" for n in every for o, t in self.prefixes if n.startswith(t)]
        else:
            return ()
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


def _swapped(name: str, segments: tuple[tuple[str, str], ...]) -> Iterator[str]:
    """With all segments or one of them in the other spelling, either way."""
    parts = set(name.split("."))
    back = tuple((theirs, ours) for ours, theirs in segments)
    yield _replace(name, dict(back))
    for pair in (*segments, *back):
        if pair[0] in parts:
            yield _replace(name, dict((pair,)))
