"""A Hugging Face folder of plain floats as a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from fewbit.formats.checkpoint import TensorInfo, TokenizerFiles
from fewbit.formats.files import CheckedFile
from fewbit.formats.finite import check_finite
from fewbit.formats.plain.config import Reader, read_config
from fewbit.formats.plain.folder import INDEX, MAX_JSON_BYTES, member, weight_files
from fewbit.formats.plain.safetensors import DiskTensor, read_header
from fewbit.formats.plain.tokenizer import read_tokenizer
from fewbit.formats.strict_json import read_object
from fewbit.schemes.arrays import array_dtype
from fewbit.spec.refusal import CheckpointError
from fewbit.spec.scheme import QuantTensor


class PlainCheckpoint:
    """Names on disk are canonical already."""

    format = "plain"

    def __init__(self, path: Path) -> None:
        self.path = path
        self._files: list[CheckedFile] = []
        self._disk: dict[str, tuple[CheckedFile, DiskTensor]] = {}
        config_path = member(path, "config.json")
        if config_path is None:
            raise CheckpointError(
                f"{path}: has no config.json beside its weights, expected a Hugging Face folder"
            )
        self.config: Mapping[str, Any] = read_config(
            Reader(str(config_path), read_object(config_path, MAX_JSON_BYTES))
        )
        self.model_type: str = self.config["model_type"]
        try:
            self._open_weights()
        except BaseException:
            self.close()
            raise
        self.tensors: Mapping[str, TensorInfo] = {
            name: TensorInfo(name, name, disk.shape, disk.scheme, disk.bytes, file.path)
            for name, (file, disk) in self._disk.items()
        }

    def _open_weights(self) -> None:
        paths, weight_map = weight_files(self.path)
        for path in paths:
            file = CheckedFile(path)
            self._files.append(file)
            for name, disk in read_header(file).items():
                if name in self._disk:
                    raise CheckpointError(
                        f"{path}: tensor {name!r} is also in {self._disk[name][0].path.name}; expected it once"
                    )
                if weight_map is not None and weight_map.get(name) != path.name:
                    said = f"says {weight_map[name]!r}" if name in weight_map else "does not know it"
                    raise CheckpointError(
                        f"{path}: holds tensor {name!r}, but {INDEX} {said}; they do not belong together"
                    )
                self._disk[name] = (file, disk)
        for name, shard in (weight_map or {}).items():
            if name not in self._disk:
                raise CheckpointError(
                    f"{self.path / INDEX}: says that tensor {name!r} is in {shard!r}, but it is not there"
                )
        if not self._disk:
            raise CheckpointError(f"{paths[0]}: holds no tensor; the checkpoint is empty")

    def read(self, name: str, start: int = 0, stop: int | None = None) -> QuantTensor:
        """Rows [start, stop) of a tensor, straight from the file."""
        if name not in self._disk:
            raise CheckpointError(f"{self.path}: has no tensor {name!r}; see `tensors` for those it has")
        file, disk = self._disk[name]
        rows = disk.shape[0] if disk.shape else 1
        stop = rows if stop is None else stop
        if not 0 <= start <= stop <= rows:
            raise ValueError(f"rows {start}:{stop} of {name} lie outside 0:{rows}")
        row_bytes = disk.bytes // rows
        shape = (stop - start, *disk.shape[1:])
        raw = file.read(disk.start + start * row_bytes, (stop - start) * row_bytes, f"tensor {name!r}")
        tensor = QuantTensor(
            disk.scheme, shape, {"codes": raw.view(array_dtype(disk.scheme.codes)).reshape(shape)}
        )
        check_finite(tensor, file.path, name, start)
        return tensor

    @cached_property
    def tokenizer(self) -> TokenizerFiles | None:
        return read_tokenizer(self.path, dict(self.config))

    def close(self) -> None:
        for file in self._files:
            file.close()


def open_plain(path: Path) -> PlainCheckpoint:
    return PlainCheckpoint(path)
