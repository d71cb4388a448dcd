"""Inputs made from a good one by rules that know its structure: JSON trees, safetensors headers, GGUF records, bytes.

Every input is a function of a random generator alone, so that seed, target and number name it for ever.
"""

from __future__ import annotations

from random import Random

from tests.fuzz.inputs.gguf import gguf
from tests.fuzz.inputs.json_tree import json_file
from tests.fuzz.inputs.pools import Make, raw
from tests.fuzz.inputs.safetensors import safetensors_file
from tests.fuzz.targets import gguf_parts, seed


def random_of(seed: int, target: str, number: int) -> Random:
    return Random(f"{seed}/{target}/{number}")


def mutator(name: str) -> Make:
    """Of a target of tests/fuzz/targets.py."""
    good = seed(name)
    if name.startswith("gguf"):
        structured = gguf(*gguf_parts(name))
    elif name.endswith(".json"):
        structured = json_file(good)
    else:
        structured = safetensors_file(good)
    return lambda random: structured(random) if random.random() < 0.8 else raw(random, good)
