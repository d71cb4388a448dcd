"""AutoRound: integers in GPTQ's packing with settings by module, or small floats in llm-compressor's."""

from __future__ import annotations

from typing import Any, NoReturn

from fewbit.convert.target import Beside, Declared, Described, Modules, Said, commonest, linear_alone
from fewbit.convert.targets.gptq import fitting
from fewbit.formats.auto_round.config import GPTQ, PLAIN_BITS, Settings
from fewbit.formats.auto_round.encode import config_of, encode, settings_of

HEAD = "lm_head"


class AutoRound:
    name = "auto_round"

    def say(self, weight: Described) -> Said:
        linear_alone(weight, "AutoRound")
        settings = settings_of(weight, GPTQ)
        fitting(weight, 1)
        return Said(settings, encode, common=settings.packing)

    def beside(self, module: str, role: str, stored: Beside) -> NoReturn:
        raise ValueError(f"AutoRound cannot express {role}")

    def declare(self, modules: Modules) -> Declared:
        default: Settings = commonest(modules.quantized)
        extra: dict[str, dict[str, Any]] = {
            name: {"bits": PLAIN_BITS} for name in modules.plain_linear if name != HEAD
        }
        for name, s in modules.quantized.items():
            if s != default or name == HEAD:
                changes = {"bits": s.bits, "group_size": s.group_size, "sym": s.sym, "data_type": s.data_type}
                extra[name] = changes
        more = {"extra_config": extra} if extra else {}
        return Declared({"quantization_config": config_of(default, **more)})


TARGETS = {"auto_round": AutoRound()}
