"""GGUF files with other metadata, other tensors, and records that lie."""

from __future__ import annotations

import struct
from functools import cache
from random import Random
from typing import Any

from fewbit.formats.gguf.types import TYPES
from tests.formats.gguf.fixture import Raw, RawTensor, gguf_bytes, raw_tensor
from tests.fuzz.inputs.pools import CHANGES, NUMBERS, Make, other_bytes


def gguf(metadata: dict[str, Any], tensors: dict[str, Any]) -> Make:
    stored = {name: raw_tensor(tensor) for name, tensor in tensors.items()}
    keys, names = list(metadata), list(stored)

    def make(random: Random) -> bytes:
        values, held = dict(metadata), dict(stored)
        options: dict[str, Any] = {}
        for _ in range(random.randint(1, CHANGES)):
            key, name = random.choice(keys), random.choice(names)
            match random.randrange(10):
                case 0:
                    values.pop(key, None)
                case 1 | 2:
                    values[key] = gguf_value(random)
                case 3:
                    values[random.choice((f"{key}x", "llama.x", "general.x", "split.count", "split.no"))] = (
                        gguf_value(random)
                    )
                case 4:
                    held.pop(name, None)
                case 5 if name in held:
                    held[random.choice((f"{name}x", "blk.9.ffn_up.weight", random.choice(names)))] = held.pop(
                        name
                    )
                case 6 if name in held:
                    held[name] = spoiled(random, held[name])
                case 7 | 8 if name in held:
                    held[name] = retyped(random, held[name])
                case _:
                    count = random.choice(("tensor_count", "metadata_count", "version", "alignment"))
                    options[count] = (
                        random.choice((1, 2, 3, 8, 64))
                        if count == "alignment"
                        else random.choice(NUMBERS) & 0xFFFFFFFF
                    )
        return gguf_bytes(values, held, **options)

    return make


def gguf_value(random: Random) -> Raw:
    """Any type with any bytes, strings and arrays of lengths true and false among them."""
    kind = random.randrange(14)
    if kind == 8:
        text = random.choice((b"", b"x", b"gpt2", b"llama", b"\xff", b"y" * 3000))
        return Raw(
            8,
            struct.pack("<Q", random.choice((len(text), len(text), random.choice(NUMBERS) & (1 << 64) - 1)))
            + text,
        )
    if kind == 9:
        count = random.choice((0, 1, 4, random.choice(NUMBERS) & (1 << 64) - 1))
        return Raw(
            9,
            struct.pack("<IQ", random.randrange(14), count) + random.randbytes(random.choice((0, 4, 32, 64))),
        )
    size = {0: 1, 1: 1, 2: 2, 3: 2, 7: 1, 10: 8, 11: 8, 12: 8}.get(kind, 4)
    return Raw(
        kind,
        random.choice(
            (random.randbytes(size), (random.choice(NUMBERS) & (1 << 64) - 1).to_bytes(8, "little")[:size])
        ),
    )


def spoiled(random: Random, tensor: RawTensor) -> RawTensor:
    """A record that lies."""
    extents = list(tensor.extents) or [1]
    extents[random.randrange(len(extents))] = random.choice(NUMBERS) & (1 << 64) - 1
    offset = random.choice((None, None, random.choice(NUMBERS) & (1 << 64) - 1, 32, 0))
    if random.random() < 0.3:
        extents = (extents * 3)[: random.randrange(6)]
    return RawTensor(
        random.choice((tensor.kind, random.randrange(48), random.choice(NUMBERS) & 0xFFFFFFFF)),
        tuple(extents),
        tensor.data,
        offset,
    )


def retyped(random: Random, tensor: RawTensor) -> RawTensor:
    """A true record of any type and of any bytes."""
    info = random.choice(_types())
    if not tensor.extents or not tensor.data:
        return tensor
    k = max(info.block, tensor.extents[0] // info.block * info.block)
    extents = (k, *tensor.extents[1:])
    size = info.row_bytes(k)
    for extent in extents[1:]:
        size *= extent
    if size > 1 << 20:  # it lies already
        return tensor
    return RawTensor(
        info.id, extents, other_bytes(random, (tensor.data * (size // max(1, len(tensor.data)) + 1))[:size])
    )


@cache
def _types() -> list[Any]:
    return list(TYPES.values())
