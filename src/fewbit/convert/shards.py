"""Safetensors files whose headers are written first and whose tensors are filled in piecewise."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path

import numpy as np

from fewbit.convert.leaves import Leaf
from fewbit.formats.folder.safetensors import DTYPES
from fewbit.formats.folder.writer import DiskArray, write_json
from fewbit.schemes.arrays import Array

SHARD_BYTES = 4 << 30
INDEX = "model.safetensors.index.json"


def leaf_bytes(leaf: Leaf) -> int:
    return prod(leaf.shape) * DTYPES[leaf.kind].bits // 8


@dataclass(frozen=True, slots=True)
class Place:
    """Where a tensor lies: file, first byte, and what it is."""

    file: int
    start: int
    leaf: Leaf


class Shards:
    """`leaves` by tensor name. Room for all of them is taken at once, so that a disk too small is found before any work."""

    def __init__(self, folder: Path, leaves: Mapping[str, Leaf]) -> None:
        self.folder = folder
        self.places: dict[str, Place] = {}
        self._files: list[int] = []
        groups = _grouped(leaves, SHARD_BYTES)
        names = [_name(i, len(groups)) for i in range(len(groups))]
        try:
            for name, group in zip(names, groups):
                self._open(folder / name, group)
        except BaseException:
            self.close()
            raise
        if len(groups) > 1:
            total = sum(map(leaf_bytes, leaves.values()))
            weight_map = {name: file for file, group in zip(names, groups) for name in group}
            write_json(folder / INDEX, {"metadata": {"total_size": total}, "weight_map": weight_map})

    def _open(self, path: Path, leaves: Mapping[str, Leaf]) -> None:
        described: dict[str, object] = {"__metadata__": {"format": "pt"}}
        offset, starts = 0, {}
        for name, leaf in leaves.items():
            starts[name], size = offset, leaf_bytes(leaf)
            described[name] = {
                "dtype": leaf.kind,
                "shape": list(leaf.shape),
                "data_offsets": [offset, offset + size],
            }
            offset += size
        header = json.dumps(described, separators=(",", ":")).encode()
        header += b" " * (-len(header) % 8)
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        self._files.append(file)
        reserve(file, 8 + len(header) + offset)
        write_at(file, len(header).to_bytes(8, "little") + header, 0)
        for name, leaf in leaves.items():
            self.places[name] = Place(len(self._files) - 1, 8 + len(header) + starts[name], leaf)

    def write(self, name: str, stored: DiskArray, done: int) -> int:
        """A piece that begins `done` along the tensor's axis; where the next one begins."""
        place, array = self.places[name], np.ascontiguousarray(stored.array)
        leaf, file = place.leaf, self._files[place.file]
        if leaf.axis is None:
            if done == 0:
                write_at(file, array, place.start)
            return 1
        width = array.nbytes // max(prod(array.shape[: leaf.axis]), 1)  # of a run that lies together
        stride = leaf_bytes(leaf) // max(prod(leaf.shape[: leaf.axis]), 1)
        first = place.start + done * (stride // leaf.shape[leaf.axis])
        runs = array.reshape(-1).view(np.uint8).reshape(-1, width)
        if width == stride:
            write_at(file, runs, first)
        else:
            for row, run in enumerate(runs):
                write_at(file, run, first + row * stride)
        length: int = array.shape[leaf.axis]
        return done + length

    def finish(self) -> None:
        for file in self._files:
            os.fsync(file)
        self.close()

    def close(self) -> None:
        while self._files:
            os.close(self._files.pop())


def reserve(file: int, size: int) -> None:
    """The file at its whole size, its blocks taken where the file system can do so."""
    try:
        os.posix_fallocate(file, 0, size)
    except OSError as error:
        if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL):
            raise
        os.ftruncate(file, size)


def write_at(file: int, data: bytes | Array, offset: int) -> None:
    view = memoryview(data).cast("B")  # type: ignore[arg-type]
    while view:
        done = os.pwrite(file, view, offset)
        view, offset = view[done:], offset + done


def _grouped(leaves: Mapping[str, Leaf], most: int) -> list[dict[str, Leaf]]:
    groups: list[dict[str, Leaf]] = [{}]
    size = 0
    for name, leaf in leaves.items():
        if groups[-1] and size + leaf_bytes(leaf) > most:
            groups.append({})
            size = 0
        groups[-1][name] = leaf
        size += leaf_bytes(leaf)
    return groups


def _name(index: int, count: int) -> str:
    return "model.safetensors" if count == 1 else f"model-{index + 1:05d}-of-{count:05d}.safetensors"
