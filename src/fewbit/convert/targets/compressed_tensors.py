"""compressed-tensors: a config group for each way in which modules are stored, with what it says of their inputs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from fewbit.convert.target import Beside, Declared, Described, Modules, Said, extras_of
from fewbit.formats.compressed_tensors.encode import args_of, encode, packing_of
from fewbit.formats.folder.scales import divisor_of
from fewbit.formats.folder.writer import DiskArray
from fewbit.spec.dtype import E2M1, E4M3, E8M0
from fewbit.spec.layer_quant import InputQuant
from fewbit.spec.scheme import QuantTensor, Scheme

LEAVES = {"scale": "input_scale", "zero_point": "input_zero_point", "global_scale": "input_global_scale"}


@dataclass(frozen=True, slots=True)
class Stored:
    scheme: Scheme
    in_bytes: bool
    inputs: InputQuant | None
    shape: tuple[int, int]

    def group(self) -> dict[str, Any]:
        """All of a config group but its targets; the type of the scales is read from the tensors."""
        return {
            "weights": args_of(self.scheme), "input_activations": input_args(self.inputs),
            "format": packing_of(self.scheme, self.in_bytes),
        }  # fmt: skip


class CompressedTensors:
    name = "compressed-tensors"
    caches = ("FP8",)

    def say(self, weight: Described) -> Said:
        others = [e for e in extras_of(weight.layer) if not e.startswith("inputs")]
        if others:
            raise ValueError(f"compressed-tensors is not written with {' and '.join(others)}")
        inputs, scheme = weight.layer.input_quant, weight.scheme
        input_args(inputs)
        signed = scheme.codes.kind == "signed"
        in_bytes = signed and (
            inputs is not None
            or scheme.zero_point is not None
            or scheme.granularity.sharing in ("tensor", "block")
        )
        packing_of(scheme, in_bytes)
        return Said(Stored(scheme, in_bytes, inputs, weight.shape), _encode)

    def beside(self, module: str, role: str, stored: Beside) -> tuple[str, DiskArray]:
        if role == "cache":
            return stored.name, DiskArray("F32", stored.values.reshape(1))
        leaf = LEAVES[role]
        if role == "zero_point":
            return f"{module}.{leaf}", DiskArray("I8", stored.values.astype(np.int8).reshape(1))
        if role == "global_scale":
            return f"{module}.{leaf}", DiskArray("F32", divisor_of(stored.values))
        return f"{module}.{leaf}", DiskArray("F32", stored.values.reshape(1))

    def declare(self, modules: Modules) -> Declared:
        groups: dict[str, list[str]] = {}
        for name, stored in modules.quantized.items():
            groups.setdefault(json.dumps(stored.group()), []).append(name)
        single = len(groups) == 1 and not modules.embeddings & modules.quantized.keys()
        described = {
            f"group_{i}": {"targets": ["Linear"] if single else names, **json.loads(group)}
            for i, (group, names) in enumerate(groups.items())
        }
        formats = {group["format"] for group in described.values()}
        found: dict[str, Any] = {
            "quant_method": "compressed-tensors", "quantization_status": "compressed",
            "format": formats.pop() if len(formats) == 1 else "mixed-precision",
            "config_groups": described, "ignore": modules.plain_linear,
        }  # fmt: skip
        if modules.cache:
            found["kv_cache_scheme"] = {
                "num_bits": 8,
                "type": "float",
                "strategy": "tensor",
                "dynamic": False,
                "symmetric": True,
            }
        return Declared({"quantization_config": found})


def _encode(tensor: QuantTensor, stored: Stored) -> Mapping[str, DiskArray]:
    leaves = encode(tensor, stored.in_bytes)
    if "weight_shape" in leaves:
        leaves["weight_shape"] = DiskArray("I64", np.array(stored.shape, np.int64))
    return leaves


def input_args(inputs: InputQuant | None) -> dict[str, Any] | None:
    """`input_activations` of a config group; ValueError when it cannot say how they are quantized."""
    if inputs is None:
        return None
    sharing, group = inputs.granularity.sharing, inputs.granularity.k or None
    static = bool(inputs.scale)
    known = {
        "tensor": sharing == "tensor" and not inputs.global_scale,
        "token": sharing == "token" and not (static or inputs.global_scale),
        "group": sharing == "group" and not static,
    }
    micro = (inputs.scale_dtype is E8M0) == (inputs.codes.is_float and group == 32)
    if (
        not known.get(sharing)
        or inputs.codes.bits not in (4, 8)
        or not micro
        or (inputs.zero_point and not static)
    ):
        raise ValueError(f"compressed-tensors cannot express inputs quantized as {inputs}")
    local = inputs.scale_dtype is E4M3 and inputs.codes is E2M1
    if local != bool(inputs.global_scale):
        raise ValueError("compressed-tensors needs a global scale of inputs in NVFP4, which are given none")
    return {
        "num_bits": inputs.codes.bits, "type": "float" if inputs.codes.is_float else "int",
        "strategy": "tensor_group" if local else sharing, "group_size": group,
        "symmetric": inputs.symmetric and not inputs.zero_point, "dynamic": "local" if local else not static,
    }  # fmt: skip


TARGETS = {"compressed-tensors": CompressedTensors()}
