"""No quantization: the weights as the floats that they mean."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

from fewbit.convert.target import Beside, Declared, Described, Modules, Said, weights_alone
from fewbit.formats.folder.writer import DiskArray, as_disk
from fewbit.spec.scheme import QuantTensor


class Plain:
    name = "plain"
    caches = ()

    def say(self, weight: Described) -> Said:
        weights_alone(weight.layer, "a plain folder")
        if not weight.scheme.is_plain:
            raise ValueError(f"a plain folder cannot express the scheme {weight.scheme}")
        return Said(None, _encode)

    def beside(self, module: str, role: str, stored: Beside) -> NoReturn:
        raise ValueError(f"a plain folder cannot express {role}")

    def declare(self, modules: Modules) -> Declared:
        return Declared({})


def _encode(tensor: QuantTensor, settings: Any) -> Mapping[str, DiskArray]:
    return {"weight": as_disk(tensor)}


TARGETS = {"plain": Plain()}
