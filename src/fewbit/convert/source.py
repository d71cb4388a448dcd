"""The checkpoint that is converted, seen as weights of modules with what is stored beside them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from fewbit.convert.target import Beside, Described, described, extras_of
from fewbit.formats import open_checkpoint
from fewbit.formats.checkpoint import Checkpoint, TensorInfo
from fewbit.formats.folder.checkpoint import FolderCheckpoint
from fewbit.spec.layer_quant import TRANSFORMS, LayerQuant
from fewbit.spec.refusal import FewbitError
from fewbit.spec.scheme import Scheme

EMBEDDINGS = ("embed_tokens", "wte")
CACHE = ("k_scale", "v_scale")
_KINDS = {"f32": "F32", "f16": "F16", "bf16": "BF16", "i8": "I8", "i32": "I32"}
_IN_INPUTS = ("scale", "zero_point", "global_scale")


def module_of(name: str) -> str:
    return name.rpartition(".")[0]


def is_embedding(module: str) -> bool:
    return module.rpartition(".")[2] in EMBEDDINGS


def is_matrix(info: TensorInfo) -> bool:
    return len(info.shape) == 2 and info.name.endswith(".weight")


@dataclass(frozen=True)
class Source:
    """`weights_only`: how inputs and the cache were quantized is left out; activations then stay in 16 bits."""

    checkpoint: Checkpoint
    weights_only: bool = False

    @property
    def path(self) -> Path:
        return self.checkpoint.path

    @property
    def tensors(self) -> Mapping[str, TensorInfo]:
        return self.checkpoint.tensors

    def layer(self, info: TensorInfo) -> LayerQuant:
        layer = info.layer
        if not self.weights_only:
            return layer
        return replace(layer, input_quant=None, quant_bias="")

    def describe(self, info: TensorInfo, scheme: Scheme) -> Described:
        n, k = info.shape
        return Described(scheme, (n, k), described(self.layer(info)), is_embedding(module_of(info.name)))

    def roles(self, info: TensorInfo) -> Iterator[tuple[str, str]]:
        """(role, auxiliary name) of all that is stored beside a weight."""
        layer = self.layer(info)
        for role in _IN_INPUTS:
            if name := getattr(layer.input_quant, role, ""):
                yield role, name
        for role in (*TRANSFORMS, "quant_bias"):
            if name := getattr(layer, role):
                yield role, name

    def cache(self) -> list[str]:
        """Names of the stored scales of the cache."""
        names = self.checkpoint.auxiliary if isinstance(self.checkpoint, FolderCheckpoint) else {}
        return [] if self.weights_only else [n for n in names if n.rpartition(".")[2] in CACHE]

    def stored(self, name: str) -> Beside:
        assert isinstance(self.checkpoint, FolderCheckpoint)
        element = self.checkpoint.auxiliary[name].dtype.name
        return Beside(name, self.checkpoint.read_auxiliary(name), _KINDS.get(element, "F32"))

    def check_auxiliary(self) -> None:
        """FewbitError when an auxiliary tensor belongs to nothing that can be carried over."""
        if not isinstance(self.checkpoint, FolderCheckpoint):
            return
        whole = Source(self.checkpoint)
        known = {name for info in self.tensors.values() for _, name in whole.roles(info)} | set(whole.cache())
        for name in self.checkpoint.auxiliary.keys() - known:
            raise FewbitError(f"{self.path}: tensor {name!r} belongs to no weight that could carry it over")

    def left_out(self) -> list[str]:
        """What `weights_only` leaves out, in words."""
        if not self.weights_only:
            return []
        found = {e for i in self.tensors.values() for e in extras_of(i.layer) if e.startswith("inputs")}
        cache = Source(self.checkpoint).cache()
        return [*sorted(found), *([f"{len(cache)} scales of the cache"] if cache else [])]


def open_source(path: Path, weights_only: bool = False) -> Source:
    source = Source(open_checkpoint(path), weights_only)
    try:
        source.check_auxiliary()
    except BaseException:
        source.checkpoint.close()
        raise
    return source
