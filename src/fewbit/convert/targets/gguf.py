"""GGUF: one type a tensor; vectors are F32, as its readers want them."""

from __future__ import annotations

from typing import Any, NoReturn

from fewbit.convert.target import Beside, Declared, Described, Modules, Said, weights_alone
from fewbit.formats.folder.writer import DiskArray
from fewbit.formats.gguf.decode import encode
from fewbit.formats.gguf.types import BY_SCHEME, GgufType
from fewbit.spec.scheme import QuantTensor


class Gguf:
    name = "gguf"
    caches = ()

    def say(self, weight: Described) -> Said:
        weights_alone(weight.layer, "GGUF")
        kind = BY_SCHEME.get(weight.scheme)
        if kind is None:
            raise ValueError(
                f"GGUF has no type for the scheme {weight.scheme} with scales of {weight.scheme.scale}"
            )
        if weight.shape[1] % kind.block:
            raise ValueError(
                f"GGUF's {kind.name} needs rows of a multiple of {kind.block} elements, got {weight.shape[1]}"
            )
        return Said(kind, _encode)

    def beside(self, module: str, role: str, stored: Beside) -> NoReturn:
        raise ValueError(f"GGUF cannot express {role}")

    def declare(self, modules: Modules) -> Declared:
        return Declared({})


def _encode(tensor: QuantTensor, kind: GgufType) -> dict[str, Any]:
    return {"weight": DiskArray("U8", encode(tensor))}


TARGETS = {"gguf": Gguf()}
