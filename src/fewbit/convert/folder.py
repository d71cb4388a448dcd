"""Writing a plan as a Hugging Face folder: weights piece by piece, then the JSON that declares them and the files kept as they are."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fewbit.convert.cache_form import cache_form
from fewbit.convert.leaves import Leaf, leaves_of
from fewbit.convert.model_files import kept_files, model_config, tokenizer_files
from fewbit.convert.plan import Planned, Progress, modules_of
from fewbit.convert.rewrite import Inexact
from fewbit.convert.shards import Shards, leaf_bytes
from fewbit.convert.source import Source, is_embedding, is_matrix, module_of
from fewbit.convert.target import Beside, Modules, Target
from fewbit.formats.folder.writer import DiskArray, as_disk, write_json
from fewbit.spec.refusal import FewbitError
from fewbit.spec.scheme import QuantTensor

_KINDS = {"f32": "F32", "f16": "F16", "bf16": "BF16"}


class FolderOutput:
    """`stored`: what lies beside the weights, by name in the target, small and held whole."""

    def __init__(self, source: Source, target: Target, plan: list[Planned]) -> None:
        self.source, self.target, self.plan = source, target, plan
        self.leaves: dict[str, Leaf] = {}
        self.stored: dict[str, DiskArray] = {}
        self.shards: Shards | None = None
        for planned in plan:
            for name, leaf in _leaves(planned).items():
                self._add(name, leaf, planned.info.name)
            for role, name in source.roles(planned.info):
                self._keep(module_of(planned.info.name), role, source.stored(name))
        self.cache = cache_form(source) if source.cache() else ""
        if self.cache and self.cache not in target.caches:
            raise FewbitError(
                f"{source.path}: tensor {source.cache()[0]} is a scale of a {self.cache} cache, which {target.name} cannot "
                "express; --weights-only leaves it out"
            )
        for name in source.cache():
            self._keep(module_of(name), "cache", source.stored(name))
        self.total_bytes = sum(map(leaf_bytes, self.leaves.values()))

    def _keep(self, module: str, role: str, stored: Beside) -> None:
        try:
            name, value = self.target.beside(module, role, stored)
        except ValueError as error:
            raise FewbitError(
                f"{self.source.path}: tensor {stored.name} has no place: {error}; --weights-only leaves it out"
            ) from None
        self.stored[name] = value
        self._add(name, Leaf(value.kind, value.array.shape, None), stored.name)

    def _add(self, name: str, leaf: Leaf, of: str) -> None:
        if name in self.leaves:
            raise FewbitError(
                f"{self.source.path}: tensor {of} would be stored as {name!r}, which is taken already"
            )
        self.leaves[name] = leaf

    def write(self, folder: Path, progress: Progress) -> Path:
        self.shards = shards = Shards(folder, self.leaves)
        try:
            for name, value in self.stored.items():
                shards.write(name, value, 0)
            for planned in self.plan:
                done: dict[str, int] = {}
                for _, piece in planned.pieces(self.source):
                    for name, array in _encoded(planned, piece).items():
                        done[name] = shards.write(name, array, done.get(name, 0))
                progress(planned.info.bytes_on_disk)
            shards.finish()
        finally:
            shards.close()
        self._describe(folder)
        return folder

    def _describe(self, folder: Path) -> None:
        quantized, plain = modules_of(self.plan)
        matrices = [module_of(p.info.name) for p in self.plan if is_matrix(p.info)]
        embeddings = frozenset(filter(is_embedding, matrices))
        config: dict[str, Any] = model_config(self.source)
        if quantized:
            declared = self.target.declare(Modules(quantized, tuple(plain), embeddings, self.cache))
            config |= declared.config
            for name, value in declared.files.items():
                write_json(folder / name, value)
        write_json(folder / "config.json", config)
        for path in kept_files(self.source):
            shutil.copyfile(path, folder / path.name)
        for name, text in tokenizer_files(self.source).items():
            (folder / name).write_text(text, encoding="utf-8")


def _leaves(planned: Planned) -> Mapping[str, Leaf]:
    info, said = planned.info, planned.said
    if said is None:
        return {info.name: Leaf(_KINDS[planned.scheme.name], info.shape, 0)}
    n, k = info.shape
    found = leaves_of(said, planned.scheme, (n, k))
    return {f"{module_of(info.name)}.{leaf}": described for leaf, described in found.items()}


def _encoded(planned: Planned, piece: QuantTensor) -> Mapping[str, DiskArray]:
    said, name = planned.said, planned.info.name
    try:
        converted = planned.convert(piece)
        if said is None:
            return {name: as_disk(converted)}
        return {f"{module_of(name)}.{leaf}": array for leaf, array in said.leaves(converted).items()}
    except (Inexact, ValueError) as error:
        raise FewbitError(f"tensor {name} {error}; nothing was written") from None
