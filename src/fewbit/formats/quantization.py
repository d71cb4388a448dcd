"""What `--quantization` asks for: the name of a format, or of some of what it holds; a checkpoint that is not that is refused."""

from __future__ import annotations

import difflib
from fnmatch import fnmatchcase
from pathlib import Path

from fewbit.formats.checkpoint import Checkpoint
from fewbit.formats.registry import FORMATS, KERNEL_NAMES, NARROW_NAMES, NarrowName
from fewbit.spec.refusal import CheckpointError


def names() -> tuple[str, ...]:
    """All that may be asked for."""
    return (*FORMATS, *NARROW_NAMES)


def wanted(asked: str) -> NarrowName:
    """What the name means; CheckpointError for one that means nothing."""
    if asked in FORMATS:
        return NarrowName(asked)
    if asked in NARROW_NAMES:
        return NARROW_NAMES[asked]
    if asked in KERNEL_NAMES:
        raise CheckpointError(
            f"--quantization {asked!r} names a kernel of another engine, but here it names what the checkpoint is; leave the "
            f"option out, or type one of {', '.join(names())}"
        )
    near = difflib.get_close_matches(asked, names(), 1)
    hint = f"; the nearest is {near[0]}" if near else ""
    raise CheckpointError(
        f"--quantization {asked!r} is unknown, type one of {', '.join(names())}{hint}; most checkpoints need no such option"
    )


def check_format(path: Path, found: str, asked: str) -> None:
    if wanted(asked).format != found:
        raise CheckpointError(
            f"{path}: is in the format {found!r}, but --quantization says {asked!r}; leave the option out, or give {found}"
        )


def check(checkpoint: Checkpoint, asked: str) -> None:
    """CheckpointError naming the weight that is not what was asked for."""
    check_format(checkpoint.path, checkpoint.format, asked)
    meant = wanted(asked)
    for name, info in checkpoint.tensors.items():
        if meant.schemes and not info.scheme.is_plain and not _meets(info.scheme.name, meant.schemes):
            raise CheckpointError(
                f"{checkpoint.path}: tensor {name!r} is {info.scheme}, but --quantization {asked!r} means {' or '.join(meant.schemes)} "
                f"alone; leave the option out, or give {checkpoint.format}"
            )


def _meets(scheme: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(scheme, pattern) for pattern in patterns)
