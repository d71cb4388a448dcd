"""Which files of a Hugging Face folder belong to the checkpoint. A name in a file never becomes a path outside the folder."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

from fewbit.formats.sniff import SAFE_ALTERNATIVE, first_bytes, is_pickle
from fewbit.formats.strict_json import read_object
from fewbit.spec.refusal import CheckpointError

INDEX = "model.safetensors.index.json"
INDEX_SUFFIX = ".safetensors.index.json"  # a producer may choose another stem
SINGLE = "model.safetensors"
MAX_JSON_BYTES = 64 << 20


def member(folder: Path, name: str) -> Path | None:
    """The file `name` of the folder, None when absent. Symlinks may lead into the folder or the hub cache's blobs only.

    models--x--y/snapshots/<revision>/name -> models--x--y/blobs/<hash>, which may be -> blobs/<two digits>/<hash>, shared
    by all repositories of the cache.
    """
    path = folder / name
    try:
        if not stat.S_ISLNK(os.lstat(path).st_mode):
            return path
    except OSError:
        return None
    target, home = path.resolve(), folder.resolve()
    allowed = [home]
    if home.parent.name == "snapshots":
        repository = home.parent.parent
        allowed += [repository / "blobs", repository.parent / "blobs" / target.name[:2]]
    if target.parent not in allowed:
        raise CheckpointError(
            f"{path}: is a link out of its folder (to {target}); put the file itself into the folder"
        )
    if not target.exists():
        raise CheckpointError(
            f"{path}: is a link to {target}, which does not exist; fetch the checkpoint again"
        )
    return path


def weight_files(folder: Path) -> tuple[list[Path], dict[str, str] | None, str]:
    """The safetensors files, and the index's map of tensor name to file name with the index's own name where there is one."""
    names = sorted(e.name for e in os.scandir(folder) if e.name.endswith((".safetensors", INDEX_SUFFIX)))
    indices = [name for name in names if name.endswith(INDEX_SUFFIX)]
    chosen = INDEX if INDEX in indices or len(indices) != 1 else indices[0]
    index = member(folder, chosen)
    if index is not None and not (folder / SINGLE).exists():
        weight_map = _weight_map(index)
        return [_shard(folder, index, name) for name in sorted(set(weight_map.values()))], weight_map, chosen
    single = member(folder, SINGLE)
    if single is None:
        files = [name for name in names if not name.endswith(INDEX_SUFFIX)]
        if files and files[0].startswith("adapter_"):
            raise CheckpointError(
                f"{folder}: holds an adapter ({files[0]}) and no model; merge it into its base model first"
            )
        if len(files) != 1:
            raise CheckpointError(
                f"{folder}: has {len(files)} safetensors files and neither {SINGLE} nor {INDEX}; the index is missing"
            )
        single = member(folder, files[0])
    assert single is not None
    _check_magic(single)
    return [single], None, ""


def _weight_map(index: Path) -> dict[str, str]:
    """`metadata.total_size` is not compared: producers disagree on tied tensors, and each shard proves its own size."""
    value: Any = read_object(index, MAX_JSON_BYTES)
    unknown = sorted(value.keys() - {"metadata", "weight_map"})
    if unknown:
        raise CheckpointError(f"{index}: key {unknown[0]!r} is unknown, expected metadata and weight_map")
    weight_map = value.get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise CheckpointError(
            f"{index}: key 'weight_map' is absent or empty, expected tensor names with file names"
        )
    for tensor, name in weight_map.items():
        plain_name = isinstance(name, str) and name.endswith(".safetensors") and not name.startswith(".")
        if not plain_name or "/" in name or "\\" in name or "\0" in name:
            raise CheckpointError(
                f"{index}: tensor {tensor!r} is said to lie in {repr(name)[:80]}, expected the plain name of a "
                ".safetensors file in the same folder"
            )
    return weight_map


def _shard(folder: Path, index: Path, name: str) -> Path:
    path = member(folder, name)
    if path is None:
        raise CheckpointError(
            f"{index}: names the shard {name!r}, which is not in the folder; fetch the missing file"
        )
    _check_magic(path)
    return path


def _check_magic(path: Path) -> None:
    magic = first_bytes(path)
    if is_pickle(magic):
        raise CheckpointError(
            f"{path}: is a pickle checkpoint whatever its name, never opened; {SAFE_ALTERNATIVE}"
        )
    if magic.startswith(b"version https://git-lfs"):
        raise CheckpointError(
            f"{path}: is a Git LFS pointer and not the file itself; fetch it with `git lfs pull`"
        )
