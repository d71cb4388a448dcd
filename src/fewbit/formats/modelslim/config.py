"""quant_model_description*.json: tensor name to type, and a few keys about the whole."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from fewbit.formats.folder.config import Reader
from fewbit.formats.folder.files import DESCRIPTION, Declaration, FolderFiles
from fewbit.formats.folder.keys import Key
from fewbit.formats.folder.resolve import split_name

FLOAT, CACHE = "FLOAT", "C8"
PLAIN = (FLOAT, "W16A16S")
"""Types of tensors that are stored as floats; W16A16S has zeros among them."""
KINDS = {
    "W8A8": 8, "W8A8S": 8, "W8A8_MIX": 8, "W8A8_DYNAMIC": 8, "W8A16": 8, "W4A16": 4, "W4A4_DYNAMIC": 4, "W4A8_DYNAMIC": 4,
    "WFP8AFP8_DYNAMIC": 8, "W8A8_MXFP8": 8, "W4A4_MXFP4": 4, "W4A8_MXFP": 4, "W4A4_MXFP4_DUALSCALE": 4,
}  # fmt: skip
"""Types that are read, with the bits of a weight."""
KEYS: dict[str, Key] = {
    "model_quant_type": Key("string"),
    "version": Key("string"),
    "group_size": Key("whole", default=0),
    "kv_quant_type": Key("any", only=("", False, CACHE)),
    "kv_cache_type": Key("any", only=("", False, CACHE)),
    "fa_quant_type": Key("any", only=("", False)),
    "reduce_quant_type": Key("any", only=("", False)),
}
HARMLESS = frozenset({"metadata"})


@dataclass(frozen=True, slots=True)
class Description:
    """`kinds`: tensor name in the weight files to FLOAT or a type. `group_size` 0: not said, the scales tell it."""

    where: str
    kinds: dict[str, str]
    group_size: int = 0


def find_declarations(files: FolderFiles) -> list[Declaration]:
    return [found for key, found in files.declarations.items() if key.startswith(DESCRIPTION)]


def read_description(files: FolderFiles) -> Description:
    declaration, *more = find_declarations(files)
    whole = {k: v for k, v in declaration.values.items() if k in KEYS or "." not in k}
    reader = Reader(declaration.where, whole)
    if more:
        reader.fail(f"is one of {1 + len(more)} descriptions (see {more[0].where}), expected one")
    values = reader.all(KEYS, HARMLESS, "the format modelslim")
    kinds = {k: v for k, v in declaration.values.items() if k not in whole}
    for name, kind in kinds.items():
        if not isinstance(kind, str) or kind not in (*PLAIN, CACHE, *KINDS):
            reader.fail(
                f"gives tensor {name!r} the type {repr(kind)[:80]}, which is not supported (supported: "
                f"{', '.join((*PLAIN, CACHE, *KINDS))})"
            )
    said = dict(_of_tensors(reader, kinds, files))
    held = set(said.values())
    for name, kind in kinds.items():
        if kind != FLOAT and name not in held:
            reader.fail(
                f"gives tensor {name!r} the type {kind!r}, but no weight file holds it under that name or another that is known; "
                "it is incomplete"
            )
    return Description(declaration.where, {t: kinds[name] for t, name in said.items()}, values["group_size"])


def _of_tensors(reader: Reader, kinds: dict[str, str], files: FolderFiles) -> Iterator[tuple[str, str]]:
    """Each tensor's name in the weight files, and what the description calls it: the same, or another spelling of it."""
    for name, tensor in files.tensors.items():
        if name in kinds:
            yield name, name
            continue
        module, leaf = split_name(name)
        spellings = (f"{spelling}.{leaf}" for spelling in files.names.spellings(module))
        found = next((spelling for spelling in spellings if spelling in kinds), None)
        if found is None:
            reader.fail(f"does not know the tensor {tensor}; they do not belong together")
        yield name, found
