"""A GGUF file, or the files of a split one, as a checkpoint: described at opening, decoded by rows on demand."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from fewbit.formats.checkpoint import Account, TensorInfo, TokenizerFiles
from fewbit.formats.files import CheckedFile
from fewbit.formats.finite import check_finite
from fewbit.formats.gguf.config import find_architecture, read_config
from fewbit.formats.gguf.container import DiskTensor
from fewbit.formats.gguf.decode import constants, decode_into
from fewbit.formats.gguf.names import ROPE_FACTORS, by_canonical_name
from fewbit.formats.gguf.permute import covering_rows, disk_rows
from fewbit.formats.gguf.split import open_parts
from fewbit.formats.gguf.tokenizer import build_tokenizer, check_tokenizer
from fewbit.schemes.arrays import Array, array_dtype, empty_parts
from fewbit.spec.refusal import CheckpointError
from fewbit.spec.scheme import QuantTensor

PIECE_BYTES = 1 << 20  # of the file, read and decoded at a time
MAX_ROPE_FACTORS = 4096


class GgufCheckpoint:
    """Neither scales of inputs nor of the cache exist in GGUF, so `auxiliary` is empty."""

    format, wrapper = "gguf", ""
    auxiliary: frozenset[str] = frozenset()

    def __init__(self, path: Path) -> None:
        self.path = path
        self._files: list[CheckedFile] = []
        try:
            self._open()
        except BaseException:
            self.close()
            raise

    def _open(self) -> None:
        self._reader, disk = open_parts(self.path, self._files)
        architecture = find_architecture(self._reader)
        embedding = disk.get("token_embd.weight")
        if embedding is None:
            self._reader.fail(
                "has no tensor 'token_embd.weight', so it holds no model (a vocabulary only, perhaps)"
            )
        self.config: Mapping[str, Any] = read_config(
            self._reader, architecture, disk.keys(), embedding.shape[0], self._rope_factors(disk)
        )
        self.model_type = architecture.model_type
        layers, experts = self.config["num_hidden_layers"], self.config.get(architecture.experts, 0)
        self._disk = by_canonical_name(disk, architecture, layers, experts, str(self.path))
        self.tensors: Mapping[str, TensorInfo] = {
            name: self._describe(name, tensor) for name, tensor in self._disk.items()
        }
        self._permuted = architecture.permuted
        self._explained = {ROPE_FACTORS: "its factors are in the config"} if ROPE_FACTORS in disk else {}
        check_tokenizer(self._reader, embedding.shape[0])

    def _describe(self, name: str, disk: DiskTensor) -> TensorInfo:
        dims = 2 if name.endswith("weight") and "norm" not in name else 1
        if len(disk.shape) != dims or (dims == 1 and not disk.kind.scheme.is_plain):
            self._reader.fail(
                f"tensor {disk.name!r} is {disk.kind.name} of shape {list(disk.shape)}, expected "
                + ("a matrix" if dims == 2 else "a plain vector (F32, F16 or BF16)")
            )
        return TensorInfo(name, disk.name, disk.shape, disk.kind.scheme, disk.bytes, disk.file.path)

    def _rope_factors(self, tensors: Mapping[str, DiskTensor]) -> Array | None:
        """The only tensor read at opening: a few hundred bytes that belong to the config."""
        disk = tensors.get(ROPE_FACTORS)
        if disk is None:
            return None
        if disk.kind.name != "F32" or len(disk.shape) != 1 or disk.shape[0] > MAX_ROPE_FACTORS:
            self._reader.fail(
                f"tensor {ROPE_FACTORS!r} is {disk.kind.name} {list(disk.shape)}, expected an F32 vector"
            )
        return disk.file.read(disk.start, disk.bytes, f"tensor {ROPE_FACTORS!r}").view(np.float32)

    def read(self, name: str, start: int = 0, stop: int | None = None) -> QuantTensor:
        """Canonical rows [start, stop) of a tensor. Memory: the parts of these rows, and a few MiB."""
        info = self.tensors.get(name)
        if info is None:
            raise CheckpointError(f"{self.path}: has no tensor {name!r}; see `tensors` for those it has")
        rows = info.shape[0]
        stop = rows if stop is None else stop
        if not 0 <= start <= stop <= rows:
            raise ValueError(f"rows {start}:{stop} of {name} lie outside 0:{rows}")
        shape = (stop - start, *info.shape[1:])
        if len(shape) == 2:
            parts = empty_parts(info.scheme, *shape)
        else:
            parts = {"codes": np.empty(shape, array_dtype(info.scheme.codes))}
        disk = self._disk[name]
        fixed = constants(disk.kind)
        by_rows = parts.keys() - fixed.keys()
        row_bytes = disk.bytes // rows
        step = max(1, PIECE_BYTES // row_bytes)
        for first in range(start, stop, step):
            last = min(first + step, stop)
            raw = self._rows(disk, first, last, row_bytes, name)
            decode_into(disk.kind, raw, {role: parts[role][first - start : last - start] for role in by_rows})
        tensor = QuantTensor(info.scheme, shape, {**parts, **fixed})
        check_finite(tensor, disk.file.path, info.disk_name, start)
        return tensor

    def _rows(self, disk: DiskTensor, start: int, stop: int, row_bytes: int, name: str) -> Array:
        """The bytes of canonical rows, in canonical order."""
        what = f"tensor {disk.name!r}"
        if not (self._permuted and ("self_attn.q_proj" in name or "self_attn.k_proj" in name)):
            return disk.file.read(disk.start + start * row_bytes, (stop - start) * row_bytes, what)
        head_dim = self.config["head_dim"]
        if disk.shape[0] % head_dim:
            self._reader.fail(
                f"{what} has {disk.shape[0]} rows, expected a multiple of the head length {head_dim}"
            )
        low, high = covering_rows(start, stop, head_dim)
        raw = disk.file.read(disk.start + low * row_bytes, (high - low) * row_bytes, what)
        reordered: Array = raw.reshape(high - low, row_bytes)[disk_rows(start, stop, head_dim) - low].reshape(
            -1
        )
        return reordered

    @property
    def unquantized(self) -> Mapping[str, str]:
        plain = (name for name, info in self.tensors.items() if info.scheme.is_plain and len(info.shape) == 2)
        return {
            name.removesuffix(".weight"): f"it is stored as {self._disk[name].kind.name}" for name in plain
        }

    def account(self) -> Account:
        """Opening mapped or refused every tensor; experts of one stack count once."""
        return Account({tensor.name for tensor in self._disk.values()}, (), self._explained)

    @cached_property
    def tokenizer(self) -> TokenizerFiles | None:
        """Built on first use: the text of a large vocabulary takes part of a second."""
        return build_tokenizer(self._reader)

    def read_auxiliary(self, name: str) -> Array:
        raise CheckpointError(
            f"{self.path}: has no tensor {name!r} beside its weights; GGUF has none of the kind"
        )

    def close(self) -> None:
        for file in self._files:
            file.close()


def open_gguf(path: Path) -> GgufCheckpoint:
    return GgufCheckpoint(path)
