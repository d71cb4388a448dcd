"""What a checkpoint must hold beside fitting its model: enforced at loading, collected by `fewbit inspect --verify`."""

from __future__ import annotations

import re
from collections.abc import Iterator

from fewbit.formats.checkpoint import Checkpoint, TensorInfo
from fewbit.schemes.arrays import Array, part_types
from fewbit.spec.refusal import CheckpointError
from fewbit.spec.scheme import QuantTensor

CACHED = ("k_scale", "v_scale")
_KEYS = ("k_proj", "qkv_proj", "kv_b_proj")  # one of them makes the keys that an attention caches
_NUMBER = re.compile(r"\.\d+(?=\.|$)")


def check_piece(info: TensorInfo, piece: QuantTensor, rows: int) -> None:
    """Rows as the format gave them are of the resolved scheme, in every part's shape and type."""
    expected = part_types(info.scheme)
    found = {role: part.dtype for role, part in piece.parts.items()}
    if piece.scheme != info.scheme or piece.shape != (rows, *info.shape[1:]) or found != expected:
        raise CheckpointError(
            f"{info.file}: tensor {info.disk_name!r} was read as {piece.scheme} {list(piece.shape)} with parts "
            f"{ {role: str(t) for role, t in found.items()} }, expected {info.scheme} {[rows, *info.shape[1:]]} with "
            f"{ {role: str(t) for role, t in expected.items()} }; this is a fault of fewbit, please report it"
        )


def check_beside(checkpoint: Checkpoint) -> None:
    """All that lies beside weights: finite, and scales of the cache positive and of every like layer."""
    for name in checkpoint.auxiliary:
        check_auxiliary(checkpoint, name)
    for fault in cache_faults(checkpoint):
        raise CheckpointError(fault)


def check_auxiliary(checkpoint: Checkpoint, name: str) -> Array:
    """Its numbers, in f32."""
    values = checkpoint.read_auxiliary(name)
    if name.rpartition(".")[2] in CACHED and not (values > 0).all():
        raise CheckpointError(
            f"{checkpoint.path}: the scale of the cache {name!r} is {values.min():g}, expected above 0; the checkpoint is broken"
        )
    return values


def cache_faults(checkpoint: Checkpoint) -> Iterator[str]:
    """A scale of keys or values that one layer has and another of its kind has not; none at all is no fault."""
    scaled = {name for name in checkpoint.auxiliary if name.rpartition(".")[2] in CACHED}
    for name in missing_cache_scales(checkpoint):
        like = next((s for s in sorted(scaled) if s.endswith(name.rpartition(".")[2])), min(scaled))
        yield (
            f"{checkpoint.path}: has no scale of the cache {name!r}, though it has {like!r}; the checkpoint is incomplete"
        )


def missing_cache_scales(checkpoint: Checkpoint) -> list[str]:
    """Names that the scales present lead one to expect: k and v of every attention whose like has one of them."""
    scaled = {name for name in checkpoint.auxiliary if name.rpartition(".")[2] in CACHED}
    kinds = {_NUMBER.sub(".*", name.rpartition(".")[0]) for name in scaled}
    if not kinds:
        return []
    owners = {name.removesuffix(f".{keys}.weight") for name in checkpoint.tensors for keys in _KEYS
              if name.endswith(f".{keys}.weight")}  # fmt: skip
    wanted = [owner for owner in sorted(owners) if _NUMBER.sub(".*", owner) in kinds]
    only = {name.rpartition(".")[2] for name in scaled} if not _has_values(checkpoint) else set(CACHED)
    return [
        f"{owner}.{leaf}"
        for owner in wanted
        for leaf in CACHED
        if leaf in only and f"{owner}.{leaf}" not in scaled
    ]


def _has_values(checkpoint: Checkpoint) -> bool:
    """Whether values are projected by themselves; latent attention caches one thing for both."""
    return any(name.endswith((".v_proj.weight", ".qkv_proj.weight")) for name in checkpoint.tensors)
