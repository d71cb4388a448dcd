"""JSON files with places of their trees changed."""

from __future__ import annotations

import json
from copy import deepcopy
from random import Random
from typing import Any

from tests.fuzz.inputs.pools import CHANGES, VALUES, Make


def json_file(good: bytes) -> Make:
    def make(random: Random) -> bytes:
        value = json.loads(good)
        for _ in range(random.randint(1, CHANGES)):
            value = changed(random, value)
        text = json.dumps(value)
        if random.random() < 0.1:
            text = text.replace("{", '{"a":1,"a":2,', 1)
        return text.encode("utf-8", "surrogatepass")

    return make


def changed(random: Random, value: Any) -> Any:
    """One place of a JSON tree changed; `value` itself may be."""
    holder, key = place(random, value)
    if holder is None:
        return any_value(random)
    if isinstance(holder, dict):
        _change_key(random, holder, key, value)
    else:
        _change_item(random, holder, key, value)
    return value


def place(random: Random, value: Any) -> tuple[Any, Any]:
    """A container within, and a key or an index of it; (None, None) where there is none. Containers are walked into at random."""
    holder, key = None, None
    while isinstance(value, dict | list) and value:
        holder = value
        key = random.choice(list(value)) if isinstance(value, dict) else random.randrange(len(value))
        value = value[key]
        if random.random() < 0.25:
            break
    return holder, key


def _change_key(random: Random, holder: dict[Any, Any], key: Any, root: Any) -> None:
    match random.randrange(6):
        case 0:
            del holder[key]
        case 1:
            holder[random.choice((f"{key}x", f"_{key}", key.upper(), "mystery", ""))] = holder.pop(key)
        case 2:
            holder[random.choice(("mystery", f"{key}_2"))] = any_value(random)
        case 3:
            other, at = place(random, root)
            holder[key] = copied(other[at])
        case 4 if isinstance(holder[key], int | float):
            holder[key] = near(random, holder[key])
        case _:
            holder[key] = any_value(random)


def _change_item(random: Random, holder: list[Any], at: int, root: Any) -> None:
    match random.randrange(5):
        case 0:
            del holder[at]
        case 1:
            holder.insert(at, copied(holder[at]))
        case 2 if isinstance(holder[at], int | float):
            holder[at] = near(random, holder[at])
        case 3:
            other, key = place(random, root)
            holder[at] = copied(other[key])
        case _:
            holder[at] = any_value(random)


def any_value(random: Random) -> Any:
    return copied(random.choice(VALUES))


def copied(value: Any) -> Any:
    """A container's own, so that no change reaches another place or another input."""
    return deepcopy(value) if isinstance(value, dict | list) else value


def near(random: Random, value: int | float) -> int | float:
    return random.choice((value + 1, value - 1, value * 2, -value, value // 2, value * 4096))
