"""Which modules of an AQLM folder are quantized, and where their parts come from.

codes      i8, or i16 above 8 bits  [N / rows, K / run, books]
codebooks  f  [books, 2^bits, rows, run]          scales  f  [N / rows, 1, 1, 1]
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from fewbit.formats.aqlm.config import AqlmConfig
from fewbit.formats.aqlm.decode import Codes
from fewbit.formats.folder.parts import Blocked, Part, Shared
from fewbit.formats.folder.resolve import Claim, Module, Resolved, Unquantized, split_name
from fewbit.formats.folder.safetensors import PLAIN
from fewbit.schemes.vector.scheme import aqlm


class AqlmResolver:
    signs = frozenset({"codes", "codebooks", "scales"})

    def __init__(self, config: AqlmConfig) -> None:
        self.config = config

    def split(self, name: str) -> tuple[str, str]:
        return split_name(name)

    def resolve(self, module: Module) -> Iterable[Claim]:
        if any(f"{name}.weight" in self.config.plain for name in (module.name, *module.spellings)):
            yield Unquantized("linear_weights_not_to_quantize")
        elif self.signs & module.leaves.keys():
            yield self._quantized(module)
        elif module.plain_weight is not None and len(module.plain_weight.shape) == 2:
            yield Unquantized("it is stored as a plain float")

    def _quantized(self, module: Module) -> Resolved:
        settings = self.config.settings
        books, bits, run, rows = settings.books, settings.bits, settings.run, settings.rows
        rule = f"the config ({settings})"
        codes = module.need("codes", rule, "I8" if bits <= 8 else "I16")
        if len(codes.shape) != 3 or codes.shape[2] != books:
            module.wrong(codes, f"shape [output rows / {rows}, input columns / {run}, {books}] ({rule})")
        codebooks = module.need("codebooks", rule, *PLAIN, shape=(books, 1 << bits, rows, run))
        scales = module.need("scales", rule, *PLAIN, shape=(codes.shape[0], 1, 1, 1))
        scheme = aqlm(books, bits, run, rows, codebook=codebooks.dtype, scale=scales.dtype)
        parts: dict[str, Part] = {
            "codes": Codes(codes, bits, rows),
            "codebook": Shared(codebooks, codebooks.shape),
            "scale": Blocked(replace(scales, shape=(codes.shape[0], 1)), rows),
        }
        shape = (codes.shape[0] * rows, codes.shape[1] * run)
        return Resolved(f"{module.name}.weight", scheme, shape, parts, rule)
