"""Which modules of a QuIP# folder are quantized, and where their parts come from.

Qidxs        i64 [N, K / 32], [N, K / 16], [N, 3 K / 64]      QuIP#, 2, 4 and 3 bits
             i16 [N, K / 8], i32 [N, K / 8], i32 [N, 3 K / 32]   QuIP-for-all
SU  f [K]    SV  f [N]    Wscale  f []    scaleWH  f [K]    fuse_scales  f [projections]    had_left, had_right  f [q, q]
codebook_id  i64 []      QuIP#                     weight  f []      QuIP-for-all: only says the type
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from fewbit.formats.folder.parts import Part
from fewbit.formats.folder.resolve import Claim, Explained, Module, Resolved, Unquantized, split_name
from fewbit.formats.folder.safetensors import DiskTensor
from fewbit.formats.folder.scales import FLOATS
from fewbit.formats.quip.config import Settings
from fewbit.formats.quip.decode import TILE, Records, Said, Tiles
from fewbit.formats.quip.transforms import factor, input_scale, output_scale
from fewbit.schemes.lattice.scheme import RUN
from fewbit.spec.layer_quant import LayerQuant

SIGNS = frozenset(
    {"Qidxs", "SU", "SV", "Wscale", "scaleWH", "fuse_scales", "codebook_id", "had_left", "had_right"}
)
LONGEST = 1 << 20


class QuipResolver:
    signs = SIGNS
    notes = frozenset(
        {"had_left", "had_right", "fuse_scales"}
    )  # what a module needs of them, its size and name say

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    def split(self, name: str) -> tuple[str, str]:
        return split_name(name)

    def resolve(self, module: Module) -> Iterable[Claim]:
        entry = module.rule(self.settings.plain_by)
        if entry:
            yield Unquantized(f"modules_to_not_convert {entry!r}")
        elif SIGNS & module.leaves.keys():
            yield from self._quantized(module)
        elif module.plain_weight is not None and len(module.plain_weight.shape) == 2:
            yield Unquantized("it is stored as a plain float")

    def _quantized(self, module: Module) -> Iterator[Claim]:
        settings = self.settings
        rule = f"the codebook {settings.name}"
        stored = module.need("Qidxs", rule, self._kind)
        n, k = self._shape(module, stored)
        if settings.tiled:
            number = module.need("codebook_id", rule, "I64", shape=())
            if int(number.whole()) != settings.codebook.number:
                module.wrong(
                    number, f"{settings.codebook.number}, since {settings.where} says {settings.name}"
                )
            yield Explained(number, "the number of the codebook that the config names")
        elif (weight := module.get("weight", *FLOATS, shape=())) is not None:
            yield Explained(weight, "a placeholder for the type")
        left, right = factor(module, "had_left", k), factor(module, "had_right", n)
        before, after = input_scale(module, settings, k, rule), output_scale(module, settings, n, rule)
        yield from (before, left, right, after)
        layer = LayerQuant(
            pre_scale=before.name, pre_hadamard=left.name, post_hadamard=right.name, post_scale=after.name
        )
        parts = self._parts(stored)
        yield Resolved(f"{module.name}.weight", settings.codebook.scheme, (n, k), parts, rule, layer)

    @property
    def _bits(self) -> int:
        """Of the codes of one run of 8 weights."""
        return sum(
            s.dtype.bits for s in self.settings.codebook.scheme.family_parts if s.role != "residual_scale"
        )

    @property
    def _kind(self) -> str:
        return "I64" if self.settings.tiled else "I16" if self._bits == 16 else "I32"

    def _shape(self, module: Module, stored: DiskTensor) -> tuple[int, int]:
        run, rows = (64, TILE) if self.settings.tiled else (32 if self._bits == 24 else RUN, 1)
        n, words = stored.shape if len(stored.shape) == 2 else (0, 0)
        k = words * stored.dtype.bits * RUN // self._bits
        whole = k * self._bits == words * stored.dtype.bits * RUN
        if not 0 < n < LONGEST or n % rows or not whole or not 0 < k < LONGEST or k % run:
            module.wrong(
                stored,
                f"a matrix of codes of {self._bits} bits for runs of {RUN}, N % {rows} = 0 and K % {run} = 0",
            )
        return n, k

    def _parts(self, stored: DiskTensor) -> dict[str, Part]:
        settings, bits, words = self.settings, self._bits, stored.shape[1]
        if not settings.tiled:
            size = bits // 8
            parts: dict[str, Part] = {"codes": Records(stored, size, size - 2, 2, renumbered=True)}
            if size > 2:
                parts["residual_codes"] = Records(stored, size, 0, size - 2, renumbered=size == 4)
        else:
            main = words * 16 // bits
            parts = {"codes": Tiles(stored, 0, main)}
            if bits > 16:
                parts["residual_codes"] = (
                    Tiles(stored, main, words) if bits == 32 else Records(stored, 1, 0, 1, main)
                )
        if bits > 16:
            parts["residual_scale"] = Said(stored, settings.residual)
        return parts
