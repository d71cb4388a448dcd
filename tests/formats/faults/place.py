"""A fault: one thing wrong at one place of a good folder of any format."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.formats.edits import Edit, read_tensors

FILE = "model.safetensors"
MODULE = "model.layers.0.mlp.down_proj"
EXPERTS = (
    "layers.0.ffn.experts.1.w2",
    "model.layers.0.mlp.experts.1.down_proj",
)  # where no layer is of the first name
PLACE = ("tensor '", "module '")  # what a wrong setting contradicts


@dataclass(frozen=True, slots=True)
class Fault:
    """`where` tells the places of a kind apart; `named`: one of these must be in the refusal."""

    where: str
    apply: Edit
    named: tuple[str, ...]


Places = Callable[[Path], Iterator[Fault]]


def leaves(folder: Path) -> list[str]:
    """Tensors of one quantized module."""
    names = list(read_tensors(folder))
    stacked = [n for n in names if "layers.0.mlp.experts.down_proj" in n]
    return [n for n in names if n.startswith(tuple(f"{m}." for m in (MODULE, *EXPERTS)))] or stacked


def owner(leaf: str) -> tuple[str, ...]:
    """The module, as errors may name it; experts stacked in one tensor have one each."""
    module = next((m for m in (MODULE, *EXPERTS) if leaf.startswith(m)), "model.layers.0.mlp.experts")
    return (module,)
