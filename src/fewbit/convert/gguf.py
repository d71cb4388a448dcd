"""Writing a plan as a GGUF file: names, metadata and tokenizer first, then the blocks of each tensor, piece by piece."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fewbit.convert.pieces import cuts
from fewbit.convert.plan import Planned, Progress
from fewbit.convert.rewrite import Inexact
from fewbit.convert.settled import settled_config
from fewbit.convert.shards import reserve, write_at
from fewbit.convert.source import Source
from fewbit.formats.gguf.decode import encode
from fewbit.formats.gguf.encode_config import architecture_of, metadata_of, rope_divisors
from fewbit.formats.gguf.encode_container import Entry, header_of
from fewbit.formats.gguf.encode_tokenizer import tokenizer_metadata
from fewbit.formats.gguf.keys import Architecture
from fewbit.formats.gguf.names import ROPE_FACTORS, disk_names
from fewbit.formats.gguf.permute import disk_rows
from fewbit.formats.gguf.types import BY_SCHEME, TYPES
from fewbit.schemes.arrays import Array
from fewbit.spec.refusal import FewbitError

FILE = "model.gguf"
_EXPERT = re.compile(r"\.experts\.(\d+)\.")


@dataclass(slots=True)
class Member:
    """A tensor of the plan in its stored one: `index` in a stack of experts."""

    planned: Planned
    index: int = 0


class GgufOutput:
    def __init__(self, source: Source, plan: list[Planned]) -> None:
        self.source = source
        config = settled_config(source.checkpoint)
        try:
            self.architecture: Architecture = architecture_of(config)
            self.metadata: dict[str, Any] = metadata_of(config, self.architecture)
            tokenizer = source.checkpoint.tokenizer
            if tokenizer is not None:
                self.metadata |= tokenizer_metadata(tokenizer, config["vocab_size"])
            self.divisors = rope_divisors(config)
        except (ValueError, KeyError) as error:
            said = f"has no {error}" if isinstance(error, KeyError) else str(error)
            raise FewbitError(f"{source.path}: {said}; it cannot be converted to gguf") from None
        self.metadata["general.name"] = source.path.name.removesuffix(".gguf")
        self.head_dim = config["head_dim"]
        self.members = self._members(plan, config["num_hidden_layers"])
        self.entries = [self._entry(name, members) for name, members in self.members.items()]
        if self.divisors is not None:
            self.entries.append(Entry(ROPE_FACTORS, TYPES[0], self.divisors.shape))
        self.header, self.starts, self.total_bytes = header_of(self.metadata, self.entries)

    def _members(self, plan: list[Planned], layers: int) -> dict[str, list[Member]]:
        names = disk_names(self.architecture, layers)
        found: dict[str, list[Member]] = {}
        for planned in plan:
            name, index = planned.info.name, 0
            if name not in names and (match := _EXPERT.search(name)):
                name, index = name.replace(match[0], ".experts.{}."), int(match[1])
            if name not in names:
                raise FewbitError(
                    f"{self.source.path}: tensor {planned.info.name} has no place in a GGUF of the architecture "
                    f"{self.architecture.name!r}; it cannot be converted to gguf"
                )
            found.setdefault(names[name], []).append(Member(planned, index))
        return found

    def _entry(self, name: str, members: list[Member]) -> Entry:
        first = members[0].planned
        shape, kind = first.info.shape, BY_SCHEME[first.scheme]
        stacked = _EXPERT.search(first.info.name)
        for member in members:
            if (member.planned.scheme, member.planned.info.shape) != (first.scheme, shape):
                raise FewbitError(
                    f"{self.source.path}: tensors {first.info.name} ({first.scheme}) and {member.planned.info.name} "
                    f"({member.planned.scheme}) lie in one stack of a GGUF, whose type must be the same; it cannot be "
                    "converted to gguf"
                )
        if stacked and sorted(m.index for m in members) != list(range(len(members))):
            raise FewbitError(f"{self.source.path}: the experts of {name} are not all there")
        return Entry(name, kind, (len(members), *shape) if stacked else shape)

    def write(self, folder: Path, progress: Progress) -> Path:
        path = folder / FILE
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        try:
            reserve(file, self.total_bytes)
            write_at(file, self.header, 0)
            for entry, start in zip(self.entries, self.starts):
                if entry.name == ROPE_FACTORS:
                    assert self.divisors is not None
                    write_at(file, self.divisors, start)
                    continue
                for member in self.members[entry.name]:
                    self._write(file, member, entry, start)
                    progress(member.planned.info.bytes_on_disk)
            os.fsync(file)
        finally:
            os.close(file)
        return path

    def _write(self, file: int, member: Member, entry: Entry, start: int) -> None:
        planned, name = member.planned, member.planned.info.name
        rows = planned.info.shape[0]
        size = entry.bytes // (len(self.members[entry.name]) * rows)
        first = start + member.index * rows * size
        permuted = self.architecture.permuted and ("self_attn.q_proj" in name or "self_attn.k_proj" in name)
        whole = self.head_dim if permuted else 1
        for low, high in cuts(planned.info.shape, planned.info.scheme.block_n, whole):
            piece = self.source.checkpoint.read(name, low, high)
            try:
                blocks = encode(planned.convert(piece)).reshape(high - low, size)
            except (Inexact, ValueError) as error:
                raise FewbitError(f"tensor {name} {error}; nothing was written") from None
            write_at(file, self._ordered(blocks, low) if permuted else blocks, first + low * size)

    def _ordered(self, blocks: Array, low: int) -> Array:
        """Whole heads of q or k in the order of the file."""
        out = np.empty_like(blocks)
        out[disk_rows(low, low + len(blocks), self.head_dim) - low] = blocks
        return out
