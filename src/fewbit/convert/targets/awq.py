"""AWQ: one group size and one form of zero points for all modules."""

from __future__ import annotations

from typing import NoReturn

from fewbit.convert.target import Beside, Declared, Described, Modules, Said, commonest, linear_alone
from fewbit.formats.awq.encode import config_of, encode, settings_of

HEAD = "lm_head"


class Awq:
    name = "awq"
    caches = ()

    def say(self, weight: Described) -> Said:
        linear_alone(weight, "AWQ")
        settings = settings_of(weight)
        return Said(settings, encode, common=settings)

    def beside(self, module: str, role: str, stored: Beside) -> NoReturn:
        raise ValueError(f"AWQ cannot express {role}")

    def declare(self, modules: Modules) -> Declared:
        found = config_of(commonest(modules.quantized), modules_to_not_convert=modules.plain_linear or None)
        if HEAD in modules.quantized:
            found["lm_head"] = True
        return Declared({"quantization_config": found})


TARGETS = {"awq": Awq()}
