"""Quark: a spec of weights and inputs for all modules, others by name."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fewbit.convert.target import Beside, Declared, Described, Modules, Said, commonest, extras_of
from fewbit.formats.folder.writer import DiskArray
from fewbit.formats.quark.encode import config_of, encode, spec_of
from fewbit.formats.quark.resolve import INPUTS
from fewbit.spec.dtype import E4M3, E8M0
from fewbit.spec.layer_quant import InputQuant
from fewbit.spec.scheme import QuantTensor, Scheme

LEAVES = {"scale": "input_scale", "zero_point": "input_zero_point", "global_scale": "input_scale_2"}
ELEMENTS = {element: name for name, element in INPUTS.items()}
QSCHEMES = {"tensor": "per_tensor", "token": "per_channel", "group": "per_group"}
CACHED = {"dtype": "fp8_e4m3", "qscheme": "per_tensor", "is_dynamic": False, "symmetric": True}


@dataclass(frozen=True, slots=True)
class Stored:
    scheme: Scheme
    inputs: InputQuant | None

    def layer(self) -> dict[str, Any]:
        inputs = input_spec(self.inputs)
        return {"weight": spec_of(self.scheme), "input_tensors": inputs, "output_tensors": None, "bias": None}


class Quark:
    name = "quark"
    caches = ("FP8",)

    def say(self, weight: Described) -> Said:
        others = [extra for extra in extras_of(weight.layer) if not extra.startswith("inputs")]
        if others:
            raise ValueError(f"Quark cannot express {' and '.join(others)}")
        stored = Stored(weight.scheme, weight.layer.input_quant)
        stored.layer()
        if weight.scheme.codes.name in ("i4", "u4") and weight.shape[0] % 8:
            raise ValueError(
                f"Quark stores eight rows of INT4 in a word, and {weight.shape[0]} rows are no multiple of that"
            )
        return Said(stored, _encode)

    def beside(self, module: str, role: str, stored: Beside) -> tuple[str, DiskArray]:
        if role == "cache":
            attention, _, leaf = stored.name.rpartition(".")
            return f"{attention}.{leaf[0]}_proj.output_scale", DiskArray("F32", stored.values.reshape(()))
        if role == "zero_point":
            return f"{module}.{LEAVES[role]}", DiskArray("I32", stored.values.astype("<i4").reshape(()))
        if role not in LEAVES:
            raise ValueError(f"Quark cannot express {role}")
        return f"{module}.{LEAVES[role]}", DiskArray("F32", stored.values.reshape(()))

    def declare(self, modules: Modules) -> Declared:
        layers = {name: json.dumps(stored.layer()) for name, stored in modules.quantized.items()}
        default = commonest(layers)
        others = {name: json.loads(layer) for name, layer in layers.items() if layer != default}
        scheme = next(stored.scheme for stored in modules.quantized.values())
        found = config_of(scheme) | {
            "global_quant_config": json.loads(default), "layer_quant_config": others, "exclude": modules.plain_linear,
        }  # fmt: skip
        if modules.cache:
            projections = ["*k_proj", "*v_proj"]
            cached = {"weight": None, "input_tensors": None, "output_tensors": CACHED, "bias": None}
            found["kv_cache_quant_config"] = dict.fromkeys(projections, cached)
            found["export"] = {**_object(found["export"]), "kv_cache_group": projections}
        return Declared({"quantization_config": found})


def _object(value: object) -> Mapping[str, Any]:
    assert isinstance(value, dict)
    return value


def _encode(tensor: QuantTensor, stored: Stored) -> Mapping[str, DiskArray]:
    return encode(tensor)


def input_spec(inputs: InputQuant | None) -> Any:
    """`input_tensors` of a layer; ValueError when it cannot say how they are quantized."""
    if inputs is None:
        return None
    grouped = inputs.granularity.sharing == "group"
    scaled, powers = inputs.scale_dtype is E4M3, inputs.scale_dtype is E8M0
    if (
        inputs.codes not in ELEMENTS
        or inputs.granularity.sharing not in QSCHEMES
        or (inputs.scale_dtype is not None and not (scaled or powers))
        or (scaled and (inputs.codes.name != "e2m1" or not grouped))
        or (inputs.global_scale and not scaled)
    ):
        raise ValueError(f"Quark cannot express inputs quantized as {inputs}")
    spec = {
        "dtype": ELEMENTS[inputs.codes], "qscheme": QSCHEMES[inputs.granularity.sharing],
        "group_size": inputs.granularity.k if grouped else None, "symmetric": inputs.symmetric and not inputs.zero_point,
        "scale_format": "e8m0" if powers else "float32", "is_dynamic": not inputs.scale,
    }  # fmt: skip
    if not scaled:
        return spec
    return [spec, {"dtype": "fp8_e4m3", "qscheme": "per_tensor", "is_scale_quant": True}]


TARGETS = {"quark": Quark()}
