"""AutoRound: integers in GPTQ's packing with settings by module, FP8 with static inputs, or FP4 in llm-compressor's packing."""

from __future__ import annotations

from typing import Any

from fewbit.convert.target import STATIC, Beside, Declared, Described, Modules, Said, commonest, extras_of
from fewbit.convert.targets.gptq import fitting
from fewbit.formats.auto_round.config import FLOATS, FP8, GPTQ, PLAIN_BITS, Settings
from fewbit.formats.auto_round.encode import activations_of, config_of, encode, settings_of
from fewbit.formats.auto_round.floats import inputs_of
from fewbit.formats.folder.scales import divisor_of
from fewbit.formats.folder.writer import DiskArray

HEAD = "lm_head"


class AutoRound:
    name = "auto_round"
    caches = ()

    def say(self, weight: Described) -> Said:
        others = [extra for extra in extras_of(weight.layer) if not extra.startswith("inputs")]
        if weight.embedding:
            others.append("quantized embeddings")
        if others:
            raise ValueError(f"AutoRound cannot express {' and '.join(others)}")
        small = weight.scheme.codes.is_float
        packing = GPTQ if not small else FP8 if weight.scheme.codes.bits == 8 else FLOATS
        settings = settings_of(weight, packing)
        if packing == GPTQ:
            fitting(weight, 1)
        wanted = weight.layer.input_quant
        static = STATIC if wanted is not None and (wanted.scale or wanted.global_scale) else ""
        missing = packing == FP8 and not static
        if missing or inputs_of(settings.data_type, static) != wanted:
            of = f"inputs quantized as {wanted}" if wanted else "inputs that are not quantized"
            raise ValueError(f"AutoRound cannot express the scheme {weight.scheme} with {of}")
        return Said(settings, encode, common=packing)

    def beside(self, module: str, role: str, stored: Beside) -> tuple[str, DiskArray]:
        if role == "scale":
            return f"{module}.input_scale", DiskArray("F32", stored.values.reshape(1))
        if role == "global_scale":
            return f"{module}.input_global_scale", DiskArray("F32", divisor_of(stored.values))
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
        more: dict[str, Any] = {"extra_config": extra} if extra else {}
        return Declared({"quantization_config": config_of(default, **activations_of(default), **more)})


TARGETS = {"auto_round": AutoRound()}
