"""Files that lie: lengths, offsets, shapes, shards and their index."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from fewbit.formats.folder.writer import safetensors_bytes
from tests.formats.edits import Edit, read_tensors
from tests.formats.faults.place import FILE, Fault, leaves

INDEX = "model.safetensors.index.json"
SHARDS = ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors")


def header(change: Callable[[dict[str, Any]], Any]) -> Edit:
    def act(folder: Path) -> None:
        raw = (folder / FILE).read_bytes()
        end = 8 + int.from_bytes(raw[:8], "little")
        entries = json.loads(raw[8:end])
        change(entries)
        text = json.dumps(entries).encode()
        (folder / FILE).write_bytes(len(text).to_bytes(8, "little") + text + raw[end:])

    return act


def lying_lengths(folder: Path) -> Iterator[Fault]:
    size = (folder / FILE).stat().st_size

    def length(value: int) -> Edit:
        return lambda f: (
            (f / FILE).write_bytes(value.to_bytes(8, "little") + (f / FILE).read_bytes()[8:]) and None
        )

    for value in (0, 1, size - 7, 1 << 31, (1 << 63) - 1, (1 << 64) - 1):
        yield Fault(f"header of {value}", length(value), (FILE,))
    yield Fault("cut", lambda f: (f / FILE).write_bytes((f / FILE).read_bytes()[:-1]) and None, (FILE,))
    yield Fault("more", lambda f: (f / FILE).write_bytes((f / FILE).read_bytes() + b"x") and None, (FILE,))
    for leaf in leaves(folder):
        for begin, end in ((-1, 0), (0, 1 << 62), (1 << 62, (1 << 62) + 1), (2, 1)):
            change = header(lambda h, n=leaf, o=[begin, end]: h[n].update(data_offsets=o))
            yield Fault(f"{leaf} at {begin}", change, (leaf,))


def overlaps(folder: Path) -> Iterator[Fault]:
    for leaf in leaves(folder):

        def act(entries: dict[str, Any], leaf: str = leaf) -> None:
            begin, end = entries[leaf]["data_offsets"]
            entries[leaf]["data_offsets"] = [begin + 1, end + 1] if begin == 0 else [begin - 1, end - 1]

        yield Fault(leaf, header(act), ("overlaps", "leaves a hole"))


def overflowing_shapes(folder: Path) -> Iterator[Fault]:
    for leaf in leaves(folder):
        for shape in (
            [1 << 40, 1 << 40],
            [1 << 62, 4],
            [(1 << 63) - 1],
            [1 << 64],
            [1 << 32, 1 << 32],
            [0, 1 << 62],
        ):
            yield Fault(f"{leaf} {shape}", header(lambda h, n=leaf, s=shape: h[n].update(shape=s)), (leaf,))


def shards(folder: Path) -> dict[str, str]:
    """The one file as two with an index."""
    held = read_tensors(folder)
    names = list(held)
    parts = (names[::2], names[1::2])
    for shard, part in zip(SHARDS, parts):
        (folder / shard).write_bytes(safetensors_bytes({name: held[name] for name in part}))
    (folder / FILE).unlink()
    return {name: shard for shard, part in zip(SHARDS, parts) for name in part}


def wrong_shards(folder: Path) -> Iterator[Fault]:
    def act(change: Callable[[Path, dict[str, str]], Any]) -> Edit:
        def both(folder: Path) -> None:
            weight_map = shards(folder)
            change(folder, weight_map)
            (folder / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))

        return both

    def twice(folder: Path, weight_map: dict[str, str]) -> None:
        first, second = (read_tensors(folder, shard) for shard in SHARDS)
        name = next(iter(second))
        (folder / SHARDS[0]).write_bytes(safetensors_bytes({**first, name: second[name]}))

    yield Fault("no file of a shard", act(lambda f, m: (f / SHARDS[1]).unlink()), (SHARDS[1],))
    yield Fault("a tensor twice", act(twice), ("they do not belong together", "is also in"))
    for leaf in leaves(folder):
        yield Fault(f"{leaf} not in the index", act(lambda f, m, n=leaf: m.pop(n)), (leaf,))
        yield Fault(
            f"{leaf} elsewhere", act(lambda f, m, n=leaf: m.update({n: SHARDS[m[n] == SHARDS[0]]})), (leaf,)
        )
