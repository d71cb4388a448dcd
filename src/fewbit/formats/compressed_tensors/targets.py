"""Which modules a list of targets names: by exact name, by `re:` and a pattern, or by class, the name being stronger."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from fewbit.formats.folder.resolve import Module
from fewbit.spec.refusal import CheckpointError

MAX_PATTERN = 1000
EMBEDDINGS = ("embed_tokens",)


@dataclass(frozen=True, slots=True)
class Target:
    text: str
    pattern: re.Pattern[str] | None

    def named(self, module: str) -> int:
        """3 its exact name, 2 a pattern that its name begins with."""
        if self.pattern is not None:
            return 2 if self.pattern.match(module) else 0
        return 3 if self.text == module else 0

    def strength(self, module: str) -> int:
        """3 its exact name, 2 a pattern that its name begins with, 1 its class, 0 not this module."""
        if self.pattern is not None or self.text == module:
            return self.named(module)
        return int(self.text == ("Embedding" if module.rpartition(".")[2] in EMBEDDINGS else "Linear"))


def parse_targets(texts: Iterable[str], where: str) -> tuple[Target, ...]:
    return tuple(_parse(text, where) for text in texts)


def strongest(targets: Iterable[Target], module: Module) -> tuple[int, str]:
    """Strength and text of the target that names the module best; (0, "") when none does. Its other spellings count where
    they are named, not by their class."""
    found, spellings = (0, ""), module.spellings
    for target in targets:
        strength = max([target.strength(module.name), *(target.named(name) for name in spellings)])
        if strength > found[0]:
            found = strength, target.text
    return found


def _parse(text: str, where: str) -> Target:
    if not text.startswith("re:"):
        return Target(text, None)
    if len(text) > MAX_PATTERN:
        raise CheckpointError(
            f"{where}: a pattern has {len(text)} characters, expected at most {MAX_PATTERN}"
        )
    try:
        return Target(text, re.compile(text[3:]))
    except (re.error, OverflowError, RecursionError) as error:
        raise CheckpointError(f"{where}: pattern {text!r} is no regular expression ({error})") from None
