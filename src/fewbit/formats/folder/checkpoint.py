"""A Hugging Face folder of any format as a checkpoint: resolved at opening, decoded by rows on demand."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np

from fewbit.formats.checkpoint import Account, TensorInfo, TokenizerFiles
from fewbit.formats.finite import check_finite
from fewbit.formats.folder.account import account
from fewbit.formats.folder.config import Reader, read_config
from fewbit.formats.folder.files import FolderFiles
from fewbit.formats.folder.names import Names
from fewbit.formats.folder.resolve import Resolved, Resolver, resolve_all
from fewbit.formats.folder.stacked import unstack
from fewbit.formats.folder.tokenizer import read_tokenizer
from fewbit.schemes.arrays import Array
from fewbit.schemes.floats.table import widen
from fewbit.spec.refusal import CheckpointError
from fewbit.spec.scheme import QuantTensor


class FolderCheckpoint:
    """`auxiliary`: tensors that a LayerQuant names. `explained`: disk tensors that are rightly unused, with the reason.
    `unquantized`: modules that a rule leaves plain, with the rule."""

    def __init__(self, files: FolderFiles, name: str, resolver: Resolver) -> None:
        self._files, self.format, self.path = files, name, files.path
        self.config: Mapping[str, Any] = read_config(Reader(files.config_where, files.config))
        self.wrapper = files.names.wrapper
        self.model_type: str = self.config["model_type"]
        unstacked = unstack(files.tensors, self.config)
        self._resolution = resolve_all(resolver, unstacked.tensors, name, unstacked.stack_of, files.names)
        self.explained: Mapping[str, str] = self._resolution.explained
        self.unquantized: Mapping[str, str] = self._resolution.unquantized
        self.auxiliary = self._resolution.auxiliary
        self.tensors: Mapping[str, TensorInfo] = {
            name: _describe(resolved, files.names) for name, resolved in self._resolution.tensors.items()
        }

    def read(self, name: str, start: int = 0, stop: int | None = None) -> QuantTensor:
        """Rows [start, stop) of a tensor; `start` is a multiple of the scheme's `block_n`."""
        resolved = self._resolution.tensors.get(name)
        if resolved is None:
            raise CheckpointError(f"{self.path}: has no tensor {name!r}; see `tensors` for those it has")
        rows = resolved.shape[0]
        stop = rows if stop is None else stop
        if not 0 <= start <= stop <= rows or start % resolved.scheme.block_n:
            raise ValueError(
                f"rows {start}:{stop} of {name} are no cut of 0:{rows} in steps of {resolved.scheme.block_n}"
            )
        shape = (stop - start, *resolved.shape[1:])
        parts = {role: part.read(start, stop) for role, part in resolved.parts.items()}
        tensor = QuantTensor(resolved.scheme, shape, parts)
        names = {role: part.tensors[0].name for role, part in resolved.parts.items()}
        file = next(iter(resolved.parts.values())).tensors[0].file.path
        check_finite(tensor, file, names.get("codes", name), start, names)
        return tensor

    def read_auxiliary(self, name: str) -> Array:
        """f32 of the auxiliary tensor's shape, all finite."""
        auxiliary = self.auxiliary[name]
        value = widen(auxiliary.part.read(0, auxiliary.shape[0]), auxiliary.dtype).reshape(auxiliary.shape)
        if not np.isfinite(value).all():
            tensor, at = auxiliary.part.tensors[0], np.argwhere(~np.isfinite(value))[0].tolist()
            raise CheckpointError(
                f"{tensor.file.path}: tensor {tensor.name!r} has the value {value[tuple(at)]} at {at}, expected finite numbers; "
                "the checkpoint is broken, fetch or convert it again"
            )
        return value

    def account(self) -> Account:
        return account(self._resolution, self._files.tensors)

    @cached_property
    def tokenizer(self) -> TokenizerFiles | None:
        return read_tokenizer(self.path, dict(self.config))

    def close(self) -> None:
        self._files.close()


def _describe(resolved: Resolved, names: Names) -> TensorInfo:
    tensors = list({(t.name, t.index): t for part in resolved.parts.values() for t in part.tensors}.values())
    first = tensors[0]
    return TensorInfo(
        resolved.name, first.name, resolved.shape, resolved.scheme, sum(t.bytes for t in tensors), first.file.path,
        resolved.layer, resolved.rule, names.component(first.name),
    )  # fmt: skip
