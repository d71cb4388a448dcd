"""Folders with stacked experts for tests, made of good folders without: expert e is the feed-forward layer of folder e."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fewbit.formats.files import CheckedFile
from fewbit.formats.folder.safetensors import read_header
from fewbit.formats.folder.writer import DiskArray, write_json, write_weights
from fewbit.formats.mxfp4.encode import interleave
from fewbit.schemes.arrays import Array
from tests.formats.modelopt.fixture import tiny_modelopt

EXPERTS = 3
Suffix = Callable[[str], str]
"""The end of a stack's tensor name, by the leaf that it holds."""


@dataclass(frozen=True)
class Layout:
    """How a model type of transformers stacks its experts."""

    model_type: str
    transposed: bool = False
    interleaved: bool = False


LAYOUTS = (Layout("qwen3_moe"), Layout("llama4_text", True), Layout("gpt_oss", True, True))


def stack_folder(
    folder: Path, write: Callable[[Path, int], Path], layout: Layout, suffix: Suffix
) -> list[Path]:
    """The stacked folder at `folder`; returns those that hold its experts, written by `write(path, seed)`."""
    parts = [write(folder / f"expert-{seed}", seed) for seed in range(EXPERTS)]
    held = [_tensors(path) for path in parts]
    stored = {name: array for name, array in held[0].items() if ".mlp." not in name}
    modules = {name.rpartition(".mlp.")[0] for name in held[0] if ".mlp." in name}
    for layer in sorted(modules):
        leaves = {
            name.rpartition("down_proj.")[2] for name in held[0] if name.startswith(f"{layer}.mlp.down_proj.")
        }
        for leaf in sorted(leaves - {"weight_shape"}):
            of = {
                p: [h[f"{layer}.mlp.{p}.{leaf}"] for h in held] for p in ("gate_proj", "up_proj", "down_proj")
            }
            both = [_both(g.array, u.array, layout) for g, u in zip(of["gate_proj"], of["up_proj"])]
            for name, arrays in (("gate_up_proj", both), ("down_proj", [d.array for d in of["down_proj"]])):
                at = f"{layer}.mlp.experts.{name}{suffix(leaf)}"
                stored[at] = DiskArray(of["down_proj"][0].kind, _stack(arrays, layout))
    write_weights(folder, stored)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (folder / name).write_bytes((parts[0] / name).read_bytes())
    write_json(
        folder / "config.json",
        json.loads((parts[0] / "config.json").read_text()) | {"model_type": layout.model_type},
    )
    return parts


def _tensors(folder: Path) -> dict[str, DiskArray]:
    file = CheckedFile(folder / "model.safetensors")
    held = {name: DiskArray(t.kind, t.whole().reshape(t.shape)) for name, t in read_header(file).items()}
    file.close()
    return held


def _both(gate: Array, up: Array, layout: Layout) -> Array:
    """One number of each becomes two numbers."""
    if gate.shape in ((), (1,)):
        return np.stack([gate.reshape(()), up.reshape(())])
    return interleave(gate, up) if layout.interleaved else np.concatenate([gate, up])


def _stack(arrays: Iterable[Array], layout: Layout) -> Array:
    stacked = np.stack([array.reshape(()) if array.shape in ((), (1,)) else array for array in arrays])
    return (
        np.ascontiguousarray(stacked.swapaxes(1, 2)) if layout.transposed and stacked.ndim == 3 else stacked
    )


def tiny_stacked(folder: Path, **changes: Any) -> Path:
    """Experts of gpt-oss as ModelOpt stacks them in NVFP4: transposed, gate and up in turn."""

    def write(path: Path, seed: int) -> Path:
        return tiny_modelopt(path, seed=seed, **changes)

    stack_folder(folder, write, LAYOUTS[2], lambda leaf: "" if leaf == "weight" else f"_{leaf}")
    return folder
