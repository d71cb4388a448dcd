"""What every format gives: a description that was checked before any tensor is read, and rows on demand."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from fewbit.schemes.arrays import Array
from fewbit.spec.layer_quant import NO_LAYER_QUANT, LayerQuant
from fewbit.spec.scheme import QuantTensor, Scheme


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """One tensor. `name` is canonical (`model.layers.0.self_attn.q_proj.weight`), `disk_name` the file's own.

    `shape` is canonical too: [N, K] for a matrix, whatever order the file writes its extents in. `bytes_on_disk` counts all
    parts; `disk_name` and `file` are those of the codes. `layer`: what the layer does beside multiplying. `rule`: what of
    the file's configuration says that it is stored so. `component`: the tower that it belongs to, "" for the text model.
    """

    name: str
    disk_name: str
    shape: tuple[int, ...]
    scheme: Scheme
    bytes_on_disk: int
    file: Path
    layer: LayerQuant = NO_LAYER_QUANT
    rule: str = ""
    component: str = ""


@dataclass(frozen=True, slots=True)
class TokenizerFiles:
    """All that is needed to make text of tokens and back.

    `json` is the text of a Hugging Face tokenizer.json (built from the metadata when the format has no such file).
    `add_bos` None means that tokenizer.json's own post-processor decides; otherwise the caller adds `bos_id` itself and
    the text holds no post-processor that would add it again. `eos_ids` are all ids that end a turn (eos, eot, eom).
    `special_ids` are control tokens, which are not printed. `eos_id` is the first of `eos_ids`, for templates.
    """

    json: str
    chat_template: str | None = None
    bos_id: int | None = None
    eos_id: int | None = None
    pad_id: int | None = None
    eos_ids: tuple[int, ...] = ()
    add_bos: bool | None = None
    special_ids: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Account:
    """What became of each tensor of the disk, by its own name: every one is in exactly one place.

    `weights` are parts of canonical tensors, `beside` are read by name (scales of inputs and of the cache, rotations),
    `explained` are rightly unused, with the reason.
    """

    weights: Collection[str] = ()
    beside: Collection[str] = ()
    explained: Mapping[str, str] = field(default_factory=dict)

    @property
    def count(self) -> int:
        return len(self.weights) + len(self.beside) + len(self.explained)


class Checkpoint(Protocol):
    """An open checkpoint. Opening reads headers only; `read` decodes rows [start, stop) with bounded memory.

    `config` has Hugging Face keys whatever the disk form; `tensors` is keyed by canonical name. Plain floats of
    one dimension (norms, biases) count their elements as rows. `wrapper`: model type of the class around the text model.
    `auxiliary` names what a LayerQuant refers to, and the scales of the cache (`<attention>.k_scale`, `.v_scale`).
    `unquantized`: modules that a rule leaves plain, with the rule.
    """

    @property
    def format(self) -> str: ...
    @property
    def path(self) -> Path: ...
    @property
    def model_type(self) -> str: ...
    @property
    def wrapper(self) -> str: ...
    @property
    def config(self) -> Mapping[str, Any]: ...
    @property
    def tensors(self) -> Mapping[str, TensorInfo]: ...
    @property
    def auxiliary(self) -> Collection[str]: ...
    @property
    def unquantized(self) -> Mapping[str, str]: ...
    @property
    def tokenizer(self) -> TokenizerFiles | None: ...
    def read(self, name: str, start: int = 0, stop: int | None = None) -> QuantTensor: ...
    def read_auxiliary(self, name: str) -> Array:
        """f32 of a tensor that a LayerQuant names; refused where a number is not finite."""
        ...

    def account(self) -> Account: ...
    def close(self) -> None: ...
