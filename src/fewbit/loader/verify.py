"""Reads every weight of a checkpoint and proves it complete: what `fewbit inspect --verify` prints."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Lock

from fewbit.formats.checkpoint import Account, Checkpoint, TensorInfo
from fewbit.loader.checks import CACHED, cache_faults, check_auxiliary, check_piece, missing_cache_scales
from fewbit.loader.ranges import Range, measure
from fewbit.loader.report import check_headers
from fewbit.models import FAMILIES, family
from fewbit.spec.dtype import F32
from fewbit.spec.refusal import CheckpointError
from fewbit.spec.scheme import QuantTensor

PIECE_BYTES = 4 << 20  # of decoded codes, by each thread
MEASURED = frozenset({"scale", "super_scale", "global_scale", "offset", "super_offset"})
_NUMBER = re.compile(r"\.\d+(?=\.)")


@dataclass(slots=True)
class Kind:
    """Tensors of one scheme at one place of every layer; `parts`: the range of each measured part, or of plain values."""

    place: str
    scheme: str
    tensors: int = 0
    parts: dict[str, Range] = field(default_factory=dict)


@dataclass(slots=True)
class Verification:
    """`parameters`: how many of the model's are filled, None where no family describes the model type. `zero`: matrices that
    are 0 throughout. `cache`: scale by name; `no_cache`: those that the others lead one to expect. `faults`: sentences."""

    account: Account
    parameters: int | None
    kinds: list[Kind] = field(default_factory=list)
    zero: list[str] = field(default_factory=list)
    beside: dict[str, Range] = field(default_factory=dict)
    cache: dict[str, float] = field(default_factory=dict)
    no_cache: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    bytes_read: int = 0
    seconds: float = 0.0


def verify(checkpoint: Checkpoint, progress: Callable[[int, int], None] | None = None) -> Verification:
    """Goes on after a fault, so that all are told. Memory: a few MiB a thread."""
    found = Verification(Account(), None)
    with _told(found):
        found.account = checkpoint.account()
    if checkpoint.model_type in FAMILIES:
        with _told(found):
            module = family(checkpoint.model_type)
            config = module.parse(checkpoint.model_type, checkpoint.config, checkpoint.tensors.keys())
            spec = module.describe(config)
            check_headers(spec, checkpoint)
            found.parameters = sum(1 for _ in spec.tensors())
    start = time.monotonic()
    _read_weights(checkpoint, found, progress)
    found.seconds = time.monotonic() - start
    _read_beside(checkpoint, found)
    found.faults += cache_faults(checkpoint)
    found.no_cache = missing_cache_scales(checkpoint)
    return found


class _told:
    """A refusal inside becomes a fault of the report."""

    def __init__(self, found: Verification) -> None:
        self._found = found

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: object, trace: object) -> bool:
        if isinstance(error, CheckpointError):
            self._found.faults.append(str(error))
            return True
        return False


def _read_weights(
    checkpoint: Checkpoint, found: Verification, progress: Callable[[int, int], None] | None
) -> None:
    total, lock = sum(info.bytes_on_disk for info in checkpoint.tensors.values()), Lock()
    kinds: dict[tuple[str, str], Kind] = {}

    def one(info: TensorInfo) -> None:
        parts: dict[str, Range] = {}
        fault = ""
        try:
            for piece in _pieces(checkpoint, info):
                for role, what in _measured(piece):
                    parts[role] = parts.get(role, Range()) + what
        except CheckpointError as error:
            fault = str(error)
        with lock:
            if fault:
                found.faults.append(fault)
            place = place_of(info.name)
            kind = kinds.setdefault((place, info.scheme.name), Kind(place, info.scheme.name))
            kind.tensors += 1
            for role, what in parts.items():
                kind.parts[role] = kind.parts.get(role, Range()) + what
            if len(info.shape) == 2 and _all_zero(parts):
                found.zero.append(info.name)
            found.bytes_read += info.bytes_on_disk
            if progress:
                progress(found.bytes_read, total)

    with ThreadPoolExecutor(min(8, len(os.sched_getaffinity(0)))) as pool:
        list(pool.map(one, checkpoint.tensors.values()))
    found.kinds, found.zero = list(kinds.values()), sorted(found.zero)
    found.faults.sort()


def place_of(name: str) -> str:
    """`self_attn.q_proj` of every layer's; names outside the layers keep theirs."""
    starred = _NUMBER.sub(".*", name).removesuffix(".weight")
    return re.sub(r"^(.*\.)?layers\.\*\.", "", starred)


def _pieces(checkpoint: Checkpoint, info: TensorInfo) -> Iterator[QuantTensor]:
    rows, block = info.shape[0], info.scheme.block_n
    columns = info.shape[1] if len(info.shape) == 2 else 1
    step = max(PIECE_BYTES // (columns * max(info.scheme.codes.bits // 8, 1)) // block, 1) * block
    for start in range(0, rows, step):
        piece = checkpoint.read(info.name, start, min(start + step, rows))
        check_piece(info, piece, min(step, rows - start))
        yield piece


def _measured(piece: QuantTensor) -> Iterator[tuple[str, Range]]:
    for role, element in piece.scheme.part_dtypes().items():
        if piece.scheme.is_plain:
            yield "value", measure(piece.parts[role], element)
        elif role in MEASURED:
            yield role, measure(piece.parts[role], element)


def _all_zero(parts: dict[str, Range]) -> bool:
    """Plain zeros, or a scale that is 0 everywhere with no offset that is not."""
    zero = {role for role, what in parts.items() if what.count and what.zero == what.count}
    offsets = {role for role in parts if role.endswith("offset")} - zero
    return bool(zero - {"offset", "super_offset"}) and not offsets


def _read_beside(checkpoint: Checkpoint, found: Verification) -> None:
    for name in checkpoint.auxiliary:
        leaf = name.rpartition(".")[2]
        with _told(found):
            values = check_auxiliary(checkpoint, name)
            found.beside[leaf] = found.beside.get(leaf, Range()) + measure(values, F32)
            if leaf in CACHED:
                found.cache[name] = float(values.reshape(-1)[0])
