"""Which files of a repository are the model: weights in safetensors with their JSON, or one GGUF. Never code, never pickles."""

from __future__ import annotations

import glob
import re
from collections.abc import Iterable
from dataclasses import dataclass

from fewbit.formats.sniff import PICKLE_SUFFIXES, SAFE_ALTERNATIVE
from fewbit.source.errors import SourceError
from fewbit.source.name import HubName

SIDE_NAMES = ("tokenizer.model", "vocab.txt", "merges.txt", "chat_template.txt")
SIDE_SUFFIXES = (".json", ".jinja")
INDEX = ".safetensors.index.json"
SHOWN = 12  # choices that an error lists

_PART = re.compile(r"(?P<stem>.+)-(?P<part>\d{5})-of-(?P<count>\d{5})\.gguf", re.DOTALL)
_NO_MODEL = re.compile(r"(^|/)(mmproj|imatrix)", re.IGNORECASE)  # a vision tower's file, calibration data
_TYPE = re.compile(
    r"(?:^|[-._/])((?:UD-)?(?:I?Q\d\w*|T?Q\d\w*|B?F16|F32|(?:MX|NV)FP4\w*))(?=$|[-./])", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Choice:
    """`files`: what to have. `opened`: the one file to open, "" for the folder of all."""

    files: tuple[str, ...]
    opened: str = ""

    @property
    def patterns(self) -> list[str]:
        """They match these files alone."""
        return [glob.escape(name) for name in self.files]


def choose(hub: HubName, names: Iterable[str]) -> Choice:
    """`names`: all paths in the repository."""
    names = sorted(names)
    ggufs = _ggufs(names)
    weights = [n for n in names if n.endswith(".safetensors") and "/" not in n]
    if hub.file:
        return _gguf(
            hub, {stem: parts for stem, parts in ggufs.items() if _is_meant(hub.file, stem, parts)}, ggufs
        )
    if weights:
        return Choice((*(n for n in names if _is_side(n)), *_needed(weights, names)))
    if ggufs:
        return _gguf(hub, ggufs, ggufs)
    pickles = [n for n in names if n.endswith(PICKLE_SUFFIXES)]
    if pickles:
        raise SourceError(
            f"{hub} holds its weights as pickle ({pickles[0]}), which fewbit neither downloads nor opens; {SAFE_ALTERNATIVE}, "
            "or take another repository"
        )
    raise SourceError(
        f"{hub} holds no weights: none of its {len(names)} files is *.safetensors or *.gguf; check the name"
    )


def _is_side(name: str) -> bool:
    return "/" not in name and (name in SIDE_NAMES or name.endswith(SIDE_SUFFIXES))


def _needed(weights: list[str], names: list[str]) -> list[str]:
    """The one file of the usual name makes shards beside it superfluous, and so do shards a second copy in another layout."""
    if "model.safetensors" in weights:
        return ["model.safetensors"]
    if "model" + INDEX in names:
        return [n for n in weights if not n.startswith("consolidated")] or weights
    return weights


def _ggufs(names: list[str]) -> dict[str, list[str]]:
    """The files of each GGUF model by the path that its parts share."""
    found: dict[str, list[str]] = {}
    for name in names:
        if name.endswith(".gguf") and not _NO_MODEL.search(name):
            part = _PART.fullmatch(name)
            found.setdefault(part["stem"] if part else name.removesuffix(".gguf"), []).append(name)
    return found


def _is_meant(wanted: str, stem: str, parts: list[str]) -> bool:
    """`Q4_K_M` means the file with that word between - . / in its path; a file may also be named in full."""
    if wanted in (stem, *parts):
        return True
    return re.search(rf"(^|[-./]){re.escape(wanted)}(?=$|[-./])", stem, re.IGNORECASE) is not None


def _gguf(hub: HubName, meant: dict[str, list[str]], all_: dict[str, list[str]]) -> Choice:
    if not all_:
        raise SourceError(
            f"{hub} holds no GGUF file, so {hub.file!r} chooses nothing; leave out `:{hub.file}`"
        )
    if len(meant) != 1:
        among = meant or all_
        listed = ", ".join(f"{hub}:{word}" for word in list(_words(among))[:SHOWN])
        more = f" and {len(among) - SHOWN} more" if len(among) > SHOWN else ""
        what = (
            f"{hub.file!r} is " + ("none" if not meant else f"{len(meant)}") + " of them, "
            if hub.file
            else ""
        )
        raise SourceError(f"{hub} holds {len(all_)} GGUF models; {what}name one: {listed}{more}")
    (parts,) = meant.values()
    part = _PART.fullmatch(parts[0])
    if part and (int(part["part"]), len(parts)) != (1, int(part["count"])):
        raise SourceError(
            f"{hub} holds {len(parts)} of {int(part['count'])} parts of {part['stem']}; the repository is incomplete, "
            "take another"
        )
    return Choice(tuple(parts), parts[0])


def _words(ggufs: dict[str, list[str]]) -> Iterable[str]:
    """What to write behind the colon: the type where it alone tells the files apart, else the name."""
    types = {stem: found[-1] if (found := _TYPE.findall(stem)) else stem for stem in ggufs}
    for stem, word in types.items():
        yield word if list(types.values()).count(word) == 1 else stem
