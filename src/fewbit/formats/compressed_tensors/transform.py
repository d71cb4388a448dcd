"""Rotations that the model applies while it runs: `transform_config`, with the matrices beside the weights.

Stored is a Hadamard matrix [b, b] that acts on rows, x V on inputs, y U on outputs: of ones, to be divided by sqrt(b), or (older
writers) divided already. The inverse is the transposed one. Modules share one matrix, which is stored once, with the first of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from fewbit.formats.compressed_tensors.targets import Target, parse_targets, strongest
from fewbit.formats.folder.config import Reader
from fewbit.formats.folder.keys import Key
from fewbit.formats.folder.parts import Computed
from fewbit.formats.folder.resolve import Auxiliary, Module
from fewbit.formats.folder.safetensors import DiskTensor
from fewbit.schemes.arrays import Array
from fewbit.schemes.floats.table import widen
from fewbit.spec.dtype import F32
from fewbit.spec.refusal import CheckpointError

MAX_SIZE = 1 << 14
ONLINE = {"input": "pre_rotation", "output": "post_rotation"}
SCHEME: dict[str, Key] = {
    "type": Key("string", required=True, only=("hadamard", "random-hadamard")),
    "apply": Key("any", required=True),
    "head_dim": Key("count"),
    "block_size": Key("count"),
}
HARMLESS = frozenset({"precision", "randomize", "requires_grad"})
APPLY: dict[str, Key] = {
    "targets": Key("strings", required=True),
    "ignore": Key("strings", default=()),
    "location": Key("string", required=True, only=("input", "output", "weight_input", "weight_output")),
    "inverse": Key("bool", default=False),
}


@dataclass(frozen=True, slots=True)
class Transform:
    """`leaf`: the matrix's name below its module."""

    leaf: str
    field: str
    inverse: bool
    targets: tuple[Target, ...]
    ignore: tuple[Target, ...]

    def names(self, module: Module) -> bool:
        return bool(strongest(self.targets, module)[0]) and not strongest(self.ignore, module)[0]


def read_transforms(where: str, values: dict[str, Any]) -> tuple[Transform, ...]:
    groups = Reader(where, values).all({"config_groups": Key("object")}, (), "transforms")["config_groups"]
    return tuple(t for name, group in (groups or {}).items() for t in _transforms(where, name, group))


def _transforms(where: str, name: str, group: Any) -> Iterator[Transform]:
    reader = Reader(f"{where}: {name}", group if isinstance(group, dict) else {})
    values = reader.all(SCHEME, HARMLESS, "transforms")
    entries = values["apply"]
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        reader.fail(f"key 'apply' is {repr(entries)[:80]}, expected a list of objects")
    for entry in entries:
        said = Reader(f"{reader.where}: apply", entry)
        args = said.all(APPLY, (), "transforms")
        if args["location"] in ONLINE:  # the others were applied to the weights before they were stored
            yield Transform(
                f"{name}_{args['location']}.weight", ONLINE[args["location"]], args["inverse"],
                parse_targets(args["targets"], said.where), parse_targets(args["ignore"], said.where),
            )  # fmt: skip


def shared_matrices(
    transforms: tuple[Transform, ...], disk: Mapping[str, DiskTensor]
) -> dict[str, DiskTensor]:
    """By leaf, where the folder holds exactly one of it."""
    found: dict[str, list[DiskTensor]] = {t.leaf: [] for t in transforms}
    for name, tensor in disk.items():
        for leaf, held in found.items():
            if name.endswith(f".{leaf}"):
                held.append(tensor)
    return {leaf: held[0] for leaf, held in found.items() if len(held) == 1}


def rotation(
    module: Module, transform: Transform, shared: Mapping[str, DiskTensor], length: int
) -> tuple[str, Auxiliary | None]:
    """The auxiliary tensor's name, and the tensor where it is stored with this module."""
    own = module.get(transform.leaf, "F64", "F32", "F16", "BF16")
    tensor = own or shared.get(transform.leaf)
    if tensor is None:
        module.fail(
            f"is rotated by {transform.leaf!r}, but neither it nor one module for all holds that tensor"
        )
    size = tensor.shape[0] if len(tensor.shape) == 2 else 0
    if tensor.shape != (size, size) or not 0 < size <= MAX_SIZE or length % size:
        module.wrong(tensor, f"a square matrix whose extent divides {length} of module {module.name!r}")
    name = tensor.name.removesuffix(".weight")
    if own is None:
        return name, None
    part = Computed((tensor,), partial(_matrix, tensor, transform))
    return name, Auxiliary(name, F32, tensor.shape, part)


def _matrix(tensor: DiskTensor, transform: Transform, start: int, stop: int) -> Array:
    """R of x -> R x for columns x: the transposed of the one for rows."""
    stored = tensor.whole() if tensor.kind == "F64" else widen(tensor.whole(), tensor.dtype)
    size, lengths = len(stored), (stored.astype(np.float64) ** 2).sum(axis=1)
    root = next((np.sqrt(c) for c in (size, 1) if np.allclose(lengths, c, rtol=0.01)), None)
    if root is None:
        raise CheckpointError(
            f"{tensor.file.path}: tensor {tensor} is no Hadamard matrix: its rows have lengths up to {np.sqrt(lengths.max()):.6g}, "
            f"expected {np.sqrt(size):.6g} or 1; the checkpoint is broken"
        )
    rows = stored.T if transform.inverse else stored
    matrix: Array = np.ascontiguousarray((rows.T / root)[start:stop]).astype(np.float32)
    return matrix
