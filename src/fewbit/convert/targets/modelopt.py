"""ModelOpt: one algorithm for all modules, or `quantized_layers` with one for each; also in hf_quant_config.json."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fewbit.convert.target import STATIC, Beside, Declared, Described, Modules, Said, commonest, extras_of
from fewbit.formats.folder.writer import DiskArray
from fewbit.formats.modelopt.algorithms import ALGORITHMS
from fewbit.formats.modelopt.config import CACHES, MIXED, SIDE_FILE
from fewbit.formats.modelopt.encode import algorithm_of, encode
from fewbit.formats.modelopt.resolve import inputs_of
from fewbit.spec.scheme import QuantTensor

PRODUCER = {"name": "modelopt", "version": "0.47.0"}
KEPT = ("inputs", "pre_scale")


@dataclass(frozen=True, slots=True)
class Stored:
    algorithm: str
    group_size: int = 0
    pre_scale: bool = False

    def entry(self) -> dict[str, Any]:
        return {"quant_algo": self.algorithm, **({"group_size": self.group_size} if self.group_size else {})}


class ModelOpt:
    name = "modelopt"
    caches = CACHES

    def say(self, weight: Described) -> Said:
        scheme, layer = weight.scheme, weight.layer
        if weight.embedding:
            raise ValueError("ModelOpt has no quantized embeddings")
        others = [extra for extra in extras_of(layer) if not extra.startswith(KEPT)]
        if others:
            raise ValueError(f"ModelOpt cannot express {' and '.join(others)}")
        if scheme.codes.name == "i4" and weight.shape[0] % 2:
            raise ValueError(
                f"ModelOpt stores two rows of INT4 in a byte, and {weight.shape[0]} rows are odd"
            )
        size = scheme.granularity.k if scheme.granularity.sharing == "group" else 0
        return Said(Stored(self._algorithm(weight), size, bool(layer.pre_scale)), _encode)

    def _algorithm(self, weight: Described) -> str:
        """That with these weights whose inputs are those of the layer."""
        first, wanted = ALGORITHMS[algorithm_of(weight.scheme)], weight.layer.input_quant
        size = weight.scheme.granularity.k
        static = STATIC if wanted is not None and (wanted.scale or wanted.global_scale) else ""
        for name, algorithm in ALGORITHMS.items():
            same = (algorithm.weights, algorithm.group, algorithm.tile, algorithm.by_row)
            fits = same == (first.weights, first.group, first.tile, first.by_row)
            if fits and inputs_of(algorithm.inputs, size, static) == wanted:
                return name
        of = f"inputs quantized as {wanted}" if wanted else "inputs that are not quantized"
        raise ValueError(f"ModelOpt cannot express the scheme {weight.scheme} with {of}")

    def beside(self, module: str, role: str, stored: Beside) -> tuple[str, DiskArray]:
        if role == "cache":
            attention, _, leaf = stored.name.rpartition(".")
            return f"{attention}.{leaf[0]}_proj.{leaf}", DiskArray("F32", stored.values.reshape(()))
        if role in ("scale", "global_scale"):
            return f"{module}.input_scale", DiskArray("F32", stored.values.reshape(()))
        if role == "pre_scale":
            return f"{module}.pre_quant_scale", DiskArray("F32", stored.values)
        raise ValueError(f"ModelOpt cannot express {role}")

    def declare(self, modules: Modules) -> Declared:
        ignore = modules.plain_linear
        found: dict[str, Any] = {"kv_cache_quant_algo": modules.cache} if modules.cache else {}
        entries = {name: stored.entry() for name, stored in modules.quantized.items()}
        if len({tuple(entry.items()) for entry in entries.values()}) > 1:
            found |= {"quant_algo": MIXED, "quantized_layers": entries}
        else:
            found |= commonest(modules.quantized).entry()
        if any(stored.pre_scale for stored in modules.quantized.values()):
            found["pre_quant_scale"] = True
        flat = {"quant_method": "modelopt", **found, "ignore": ignore, "producer": PRODUCER}
        nested = {"producer": PRODUCER, "quantization": {**found, "exclude_modules": ignore}}
        return Declared({"quantization_config": flat}, {SIDE_FILE: nested})


def _encode(tensor: QuantTensor, stored: Stored) -> Mapping[str, DiskArray]:
    return encode(tensor)


TARGETS = {"modelopt": ModelOpt()}
