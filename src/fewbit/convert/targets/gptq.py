"""GPTQ: settings by `dynamic` rules, plain modules skipped by them."""

from __future__ import annotations

import re
from typing import Any, NoReturn

from fewbit.convert.target import Beside, Declared, Described, Modules, Said, commonest, linear_alone
from fewbit.formats.gptq.config import Settings
from fewbit.formats.gptq.encode import config_of, encode, settings_of

HEAD = "lm_head"


class Gptq:
    caches = ()

    def __init__(self, name: str, version: int) -> None:
        self.name, self.version = name, version

    def say(self, weight: Described) -> Said:
        linear_alone(weight, "GPTQ")
        return Said(fitting(weight, self.version), encode)

    def beside(self, module: str, role: str, stored: Beside) -> NoReturn:
        raise ValueError(f"GPTQ cannot express {role}")

    def declare(self, modules: Modules) -> Declared:
        default: Settings = commonest(modules.quantized)
        rules: dict[str, dict[str, Any]] = {
            f"-:^{re.escape(name)}$": {} for name in modules.plain_linear if name != HEAD
        }
        for name, s in modules.quantized.items():
            if s != default:
                changes = {"bits": s.bits, "group_size": s.group_size, "sym": s.sym, "desc_act": s.desc_act}
                rules[f"+:^{re.escape(name)}$"] = changes
        more = {"dynamic": rules} if rules else {}
        found = config_of(default, **more) | {"lm_head": HEAD in modules.quantized}
        return Declared({"quantization_config": found})


def fitting(weight: Described, version: int) -> Settings:
    settings, (n, k) = settings_of(weight, version), weight.shape
    if k * settings.bits % 32:
        raise ValueError(f"GPTQ packs whole words along K, and {k} codes of {settings.bits} bits are none")
    if settings.bits == 3 and n % 32:
        raise ValueError(f"GPTQ packs 3 bits for multiples of 32 output rows, and {n} is none")
    return settings


TARGETS = {"gptq": Gptq("gptq", 1), "gptq_v2": Gptq("gptq_v2", 2)}
