"""What a conversion asks of the format that it writes."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import Any, Protocol

from fewbit.formats.folder.writer import DiskArray
from fewbit.schemes.arrays import Array
from fewbit.spec.layer_quant import NO_LAYER_QUANT, TRANSFORMS, LayerQuant
from fewbit.spec.scheme import QuantTensor, Scheme

STATIC = "static"


@dataclass(frozen=True, slots=True)
class Described:
    """A weight before it is read. `layer` says what is stored beside it, each name being `STATIC`."""

    scheme: Scheme
    shape: tuple[int, int]
    layer: LayerQuant = NO_LAYER_QUANT
    embedding: bool = False


@dataclass(frozen=True, slots=True)
class Said:
    """How the format stores a weight: `settings` are what its config says of the module, `encode` makes its leaves.

    `common`: the part of the settings that must be the same in all modules of a format that has one for all.
    """

    settings: Any
    encode: Callable[[QuantTensor, Any], Mapping[str, DiskArray]]
    common: Hashable = None

    def leaves(self, tensor: QuantTensor) -> Mapping[str, DiskArray]:
        return self.encode(tensor, self.settings)


@dataclass(frozen=True, slots=True)
class Modules:
    """What a folder holds: settings of quantized modules by name, the plain matrices, the embeddings among all. `cache`: how the
    cache is quantized where scales of it are stored."""

    quantized: Mapping[str, Any]
    plain: tuple[str, ...]
    embeddings: frozenset[str] = frozenset()
    cache: str = ""

    @property
    def plain_linear(self) -> list[str]:
        return [name for name in self.plain if name not in self.embeddings]


@dataclass(frozen=True, slots=True)
class Beside:
    """An auxiliary tensor of the source: its name there, f32 values, and the container's name of the type that it had."""

    name: str
    values: Array
    kind: str


@dataclass(frozen=True, slots=True)
class Declared:
    """Keys for config.json, and further JSON files by name."""

    config: Mapping[str, Any]
    files: Mapping[str, Any] = field(default_factory=dict)


class Target(Protocol):
    """A folder format that is written. `say` raises a ValueError that names what the format cannot express.

    `caches`: the forms of a quantized cache whose scales it stores.
    """

    name: str
    caches: tuple[str, ...]

    def say(self, weight: Described) -> Said: ...

    def beside(self, module: str, role: str, stored: Beside) -> tuple[str, DiskArray]:
        """Name and value of the tensor that says the same; `role` is a field of LayerQuant or InputQuant, or `cache`."""
        ...

    def declare(self, modules: Modules) -> Declared: ...


TARGETS: dict[str, tuple[str, str]] = {
    "gguf": (
        "fewbit.convert.targets.gguf",
        "a GGUF file: Q4_0 to Q8_0, K types, IQ types, MXFP4, NVFP4, floats",
    ),
    "plain": ("fewbit.convert.targets.plain", "BF16, F16 or F32, as the weights dequantize exactly"),
    "gptq": ("fewbit.convert.targets.gptq", "GPTQ with zero points less one, as most readers want"),
    "gptq_v2": ("fewbit.convert.targets.gptq", "GPTQ with zero points as they are"),
    "awq": ("fewbit.convert.targets.awq", "AWQ of the version gemm"),
    "auto_round": ("fewbit.convert.targets.auto_round", "AutoRound in GPTQ's packing, or MXFP4"),
    "compressed-tensors": ("fewbit.convert.targets.compressed_tensors", "compressed-tensors of any packing"),
    "fp8": ("fewbit.convert.targets.fp8", "FP8 by blocks, rows or tensors, and MXFP8"),
    "modelopt": ("fewbit.convert.targets.modelopt", "ModelOpt: FP8, NVFP4, MXFP4, MXFP8, INT4, INT8, mixed"),
    "quark": ("fewbit.convert.targets.quark", "Quark: FP8, NVFP4, MXFP4, MXFP6, INT4, INT8, specs by layer"),
    "mlx": ("fewbit.convert.targets.mlx", "MLX: affine 2 to 8 bits, MXFP4, MXFP8, NVFP4"),
}
"""By the name that `--to` takes: the module whose `TARGETS` holds it, and what it is."""


def find_target(name: str) -> Target:
    found: Target = import_module(TARGETS[name][0]).TARGETS[name]
    return found


def described(layer: LayerQuant) -> LayerQuant:
    """The layer with `STATIC` for every name: equal for modules that store the same things."""

    def mark(name: str) -> str:
        return STATIC if name else ""

    inputs = layer.input_quant
    if inputs is not None:
        inputs = replace(
            inputs,
            scale=mark(inputs.scale),
            zero_point=mark(inputs.zero_point),
            global_scale=mark(inputs.global_scale),
        )
    return LayerQuant(
        inputs, quant_bias=mark(layer.quant_bias), **{field: mark(getattr(layer, field)) for field in TRANSFORMS},
        low_rank=(STATIC, STATIC) if layer.low_rank else None,
    )  # fmt: skip


def extras_of(layer: LayerQuant) -> list[str]:
    """What the layer does beside multiplying, in words."""
    found = [f"inputs quantized as {layer.input_quant}"] if layer.input_quant is not None else []
    fields = (*TRANSFORMS, "quant_bias", "low_rank")
    return found + [field for field in fields if getattr(layer, field)]


def weights_alone(layer: LayerQuant, what: str) -> None:
    """ValueError when the layer has more than a weight."""
    found = extras_of(layer)
    if found:
        raise ValueError(f"{what} cannot express {' and '.join(found)}")


def linear_alone(weight: Described, what: str) -> None:
    """ValueError for quantized embeddings and for layers that have more than a weight."""
    if weight.embedding:
        raise ValueError(f"{what} has no quantized embeddings")
    weights_alone(weight.layer, what)


def commonest(settings: Mapping[str, Any]) -> Any:
    """The settings that most modules have."""
    counts: dict[Any, int] = {}
    for value in settings.values():
        counts[value] = counts.get(value, 0) + 1
    return max(counts, key=lambda value: counts[value])
