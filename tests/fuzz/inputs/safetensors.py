"""Safetensors files whose header lies, and good containers of wrong tensors."""

from __future__ import annotations

import json
import struct
from random import Random
from typing import Any

from fewbit.formats.folder.safetensors import DTYPES
from fewbit.formats.folder.writer import with_header
from tests.fuzz.inputs.json_tree import changed, copied
from tests.fuzz.inputs.pools import CHANGES, NUMBERS, Make, other_bytes


def safetensors_file(good: bytes) -> Make:
    end = 8 + int.from_bytes(good[:8], "little")
    data = good[end:]
    names = [name for name in json.loads(good[8:end]) if name != "__metadata__"]

    def make(random: Random) -> bytes:
        entries = json.loads(good[8:end])  # five times as fast as a copy
        if random.random() < 0.6:
            return sound(random, entries, data)
        for _ in range(random.randint(1, CHANGES)):
            name = random.choice(names)
            entry = entries.get(name)
            match random.randrange(6):
                case 0 if isinstance(entry, dict):
                    entry["data_offsets"] = [at + random.choice((0, *NUMBERS)) for at in (0, len(data))]
                case 1 if isinstance(entry, dict):
                    entry["shape"] = [random.choice(NUMBERS) for _ in range(random.randrange(5))]
                case 2 if isinstance(entry, dict):
                    entry["dtype"] = random.choice((*DTYPES, "C64", "x"))
                case 3:
                    entries[name] = copied(entries.get(random.choice(names)))
                case _:
                    changed(random, entries)
        text = json.dumps(entries).encode("utf-8", "surrogatepass")
        file = with_header(text, data)
        return (
            file
            if random.random() < 0.9
            else struct.pack("<Q", random.choice(NUMBERS) & (1 << 64) - 1) + file[8:]
        )

    return make


def sound(random: Random, entries: dict[str, Any], data: bytes) -> bytes:
    """A file that is a good container whatever its tensors are: dropped, renamed, added, of another type or shape, other bytes."""
    metadata = entries.pop("__metadata__", None)
    held = {
        name: (e["dtype"], e["shape"], data[e["data_offsets"][0] : e["data_offsets"][1]])
        for name, e in entries.items()
    }
    focus = random.choice([*held])
    beside = [name for name in held if name.rpartition(".")[0] == focus.rpartition(".")[0]]  # of one module
    for _ in range(random.randint(1, CHANGES)):
        name = random.choice(beside)
        if name not in held:
            continue
        kind, shape, raw_bytes = held[name]
        match random.randrange(8):
            case 0:
                del held[name]
            case 1:
                held[
                    random.choice(
                        (f"{name}x", f"{name}.weight", name.replace("weight", "qweight"), "model.x.weight")
                    )
                ] = held.pop(name)
            case 2:
                held[
                    name.rpartition(".")[0]
                    + random.choice((".bias", ".scales", ".g_idx", ".weight", ".weight_scale", ".x"))
                ] = held[name]
            case 3:
                held[name] = resized(random, kind, shape, raw_bytes)
            case 4:
                bits = DTYPES[kind].bits
                held[name] = (
                    random.choice([k for k, d in DTYPES.items() if d.bits == bits]),
                    shape,
                    raw_bytes,
                )
            case 5 if metadata:
                changed(random, metadata)
            case _:
                held[name] = (kind, shape, other_bytes(random, raw_bytes))
    return container(held, metadata)


def resized(random: Random, kind: str, shape: list[int], raw_bytes: bytes) -> tuple[str, list[int], bytes]:
    new = list(shape)
    match random.randrange(4):
        case 0 if new:
            axis = random.randrange(len(new))
            new[axis] = max(
                1, random.choice((new[axis] - 1, new[axis] + 1, new[axis] // 2, new[axis] * 2, 1))
            )
        case 1:
            new.insert(random.randint(0, len(new)), random.choice((1, 1, 2)))
        case 2 if new:
            new.pop(random.randrange(len(new)))
        case _:
            random.shuffle(new)
    size = DTYPES[kind].bits
    for extent in new:
        size *= extent
    size //= 8
    return kind, new, (raw_bytes * (size // max(1, len(raw_bytes)) + 1))[:size]


def container(held: dict[str, tuple[str, list[int], bytes]], metadata: Any) -> bytes:
    header: dict[str, Any] = {} if metadata is None else {"__metadata__": metadata}
    at = 0
    for name, (kind, shape, raw_bytes) in held.items():
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [at, at + len(raw_bytes)]}
        at += len(raw_bytes)
    text = json.dumps(header).encode("utf-8", "surrogatepass")
    return with_header(text, b"".join(raw_bytes for _, _, raw_bytes in held.values()))
