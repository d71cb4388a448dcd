"""A Hugging Face folder, opened: its config.json, what else declares a quantization, and the headers of its weights."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fewbit.formats.files import CheckedFile
from fewbit.formats.folder.members import MAX_JSON_BYTES, member, weight_files
from fewbit.formats.folder.names import FindText, whole
from fewbit.formats.folder.safetensors import DiskTensor, read_header
from fewbit.formats.strict_json import read_object
from fewbit.spec.refusal import CheckpointError

CONFIG_KEYS = ("quantization_config", "compression_config", "quantization", "quip_params")
SIDE_FILES = ("hf_quant_config.json", "quantize_config.json", "quant_config.json", "quantization_config.json")
DESCRIPTION = "quant_model_description"  # .json, or with the kind of quantization before it


@dataclass(frozen=True, slots=True)
class Declaration:
    """An object that says how the weights are quantized: a key of config.json (`key`), or a file beside it (`key` = its name)."""

    key: str
    where: str
    values: dict[str, Any]

    @property
    def method(self) -> str:
        """`quant_method`, or "" where the declaration has none."""
        method = self.values.get("quant_method")
        return method if isinstance(method, str) else ""


class FolderFiles:
    """`config`: the text model's, without the declarations; `declarations` by key, those of config.json first.
    `tensors` by the file's own names, which `names` makes canonical."""

    def __init__(self, path: Path, find_text: FindText = whole) -> None:
        self.path = path
        self.files: list[CheckedFile] = []
        self.tensors: dict[str, DiskTensor] = {}
        config_path = member(path, "config.json")
        if config_path is None:
            raise CheckpointError(
                f"{path}: has no config.json beside its weights, expected a Hugging Face folder"
            )
        self.config_path, self.config_where = config_path, str(config_path)
        self.config = read_object(config_path, MAX_JSON_BYTES)
        self.declarations = self._declarations()
        try:
            self._open_weights()
            self._find_text(find_text)
        except BaseException:
            self.close()
            raise

    def _find_text(self, find_text: FindText) -> None:
        """The text model's own declaration stands for the whole where the whole has none of that key."""
        text = find_text(self.config, self.tensors.keys())
        self.config, self.names = text.config, text.names
        if not text.where:
            return
        self.config_where = f"{self.config_path}: {text.where}"
        for key, inner in self._in_config(self.config_where).items():
            outer = self.declarations.get(key, inner)
            if outer.values != inner.values:
                raise CheckpointError(
                    f"{inner.where}: differs from {outer.where}; remove the one that does not fit the weights"
                )
            self.declarations = {key: outer, **self.declarations}

    def _declarations(self) -> dict[str, Declaration]:
        found = self._in_config(str(self.config_path))
        names = sorted(e.name for e in os.scandir(self.path))
        for name in (*SIDE_FILES, *(n for n in names if n.startswith(DESCRIPTION) and n.endswith(".json"))):
            path = member(self.path, name)
            if path is not None:
                found[name] = Declaration(name, str(path), read_object(path, MAX_JSON_BYTES))
        return found

    def _in_config(self, where: str) -> dict[str, Declaration]:
        """Taken out of `config`."""
        found: dict[str, Declaration] = {}
        for key in CONFIG_KEYS:
            value = self.config.pop(key, None)
            if value is None:
                continue
            if not isinstance(value, dict):
                raise CheckpointError(f"{where}: key {key!r} is {repr(value)[:80]}, expected an object")
            found[key] = Declaration(key, f"{where}: {key}", value)
        return found

    def _open_weights(self) -> None:
        paths, weight_map, index = weight_files(self.path)
        for path in paths:
            file = CheckedFile(path)
            self.files.append(file)
            for name, disk in read_header(file).items():
                if name in self.tensors:
                    raise CheckpointError(
                        f"{path}: tensor {name!r} is also in {self.tensors[name].file.path.name}; expected it once"
                    )
                if weight_map is not None and weight_map.get(name) != path.name:
                    said = f"says {weight_map[name]!r}" if name in weight_map else "does not know it"
                    raise CheckpointError(
                        f"{path}: holds tensor {name!r}, but {index} {said}; they do not belong together"
                    )
                self.tensors[name] = disk
        for name, shard in (weight_map or {}).items():
            if name not in self.tensors:
                raise CheckpointError(
                    f"{self.path / index}: says that tensor {name!r} is in {shard!r}, but it is not there"
                )
        if not self.tensors:
            raise CheckpointError(f"{paths[0]}: holds no tensor; the checkpoint is empty")

    def close(self) -> None:
        for file in self.files:
            file.close()
