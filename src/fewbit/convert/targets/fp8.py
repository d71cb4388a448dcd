"""FP8 folders: one block size and one way of quantizing inputs for all modules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fewbit.convert.target import Beside, Declared, Described, Modules, Said, commonest, extras_of
from fewbit.formats.folder.writer import DiskArray
from fewbit.formats.fp8.encode import config_of, encode
from fewbit.formats.fp8.resolve import inputs_of
from fewbit.spec.dtype import E8M0
from fewbit.spec.scheme import QuantTensor, Scheme


class Fp8:
    name = "fp8"
    caches = ("FP8",)

    def say(self, weight: Described) -> Said:
        scheme, wanted = weight.scheme, weight.layer.input_quant
        others = [extra for extra in extras_of(weight.layer) if not extra.startswith("inputs")]
        if weight.embedding:
            others.append("quantized embeddings")
        if others:
            raise ValueError(f"an FP8 folder cannot express {' and '.join(others)}")
        declared = config_of(scheme)
        size = declared.get("weight_block_size")
        tile = (size[0], size[1]) if isinstance(size, list) else None
        static = bool(wanted is not None and wanted.scale)
        if inputs_of(tile, wanted.scale if wanted is not None else "") != wanted:
            of = f"inputs quantized as {wanted}" if wanted else "inputs that are not quantized"
            raise ValueError(f"an FP8 folder cannot express the scheme {scheme} with {of}")
        powers = scheme.scale == E8M0 and tile not in (None, (1, 32))
        return Said((scheme, static), _encode, common=(tile, static, powers))

    def beside(self, module: str, role: str, stored: Beside) -> tuple[str, DiskArray]:
        if role == "cache":
            return stored.name, DiskArray("F32", stored.values.reshape(1))
        if role != "scale":
            raise ValueError(f"an FP8 folder cannot express {role}")
        return f"{module}.input_scale", DiskArray("F32", stored.values.reshape(()))

    def declare(self, modules: Modules) -> Declared:
        scheme, static = commonest(modules.quantized)
        more: dict[str, Any] = {"activation_scheme": "static"} if static else {}
        if scheme.scale == E8M0 and scheme.granularity.sharing == "block":
            more["scale_fmt"] = "ue8m0"
        return Declared(
            {"quantization_config": config_of(scheme, **more, modules_to_not_convert=modules.plain_linear)}
        )


def _encode(tensor: QuantTensor, settings: tuple[Scheme, bool]) -> Mapping[str, DiskArray]:
    return encode(tensor)


TARGETS = {"fp8": Fp8()}
