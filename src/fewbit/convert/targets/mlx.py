"""MLX: three settings for all modules, overrides by name; embeddings like any other."""

from __future__ import annotations

from typing import NoReturn

from fewbit.convert.target import Beside, Declared, Described, Modules, Said, commonest, weights_alone
from fewbit.formats.mlx.config import Settings
from fewbit.formats.mlx.encode import config_of, encode, settings_of


class Mlx:
    name = "mlx"
    caches = ()

    def say(self, weight: Described) -> Said:
        weights_alone(weight.layer, "MLX")
        settings, k = settings_of(weight.scheme), weight.shape[1]
        if k * settings.bits % 32 or k % settings.group_size:
            raise ValueError(
                f"MLX packs whole words and groups along K, and {k} codes of {settings} are none"
            )
        return Said(settings, encode)

    def beside(self, module: str, role: str, stored: Beside) -> NoReturn:
        raise ValueError(f"MLX cannot express {role}")

    def declare(self, modules: Modules) -> Declared:
        default: Settings = commonest(modules.quantized)
        others = {
            name: {"group_size": s.group_size, "bits": s.bits, "mode": s.mode}
            for name, s in modules.quantized.items()
            if s != default
        }
        found = config_of(default, **others)
        return Declared({"quantization": found, "quantization_config": found})


TARGETS = {"mlx": Mlx()}
