"""Schemes by the names that users know, and by the registry's own."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

from fewbit.layers.declared import TOKENS
from fewbit.registry.table import load_rows
from fewbit.schemes import SCHEMES
from fewbit.schemes.named import named
from fewbit.spec.refusal import FewbitError
from fewbit.spec.scheme import Scheme

ALIASES = {
    "fp16": "f16", "fp32": "f32",
    "q4_0": "i4g32:f16", "q4_1": "u4g32o:f16", "q5_0": "i5g32:f16", "q5_1": "u5g32o:f16", "q8_0": "i8g32:f16",
    "q2_k": "u2g16ot", "q3_k": "i3g16t", "q4_k": "u4g32ot", "q5_k": "u5g32ot", "q6_k": "i6g16t",
    "w4a16-g32": "i4g32:bf16", "w4a16-g64": "i4g64:bf16", "w4a16-g128": "i4g128:bf16", "w4a16-channel": "i4channel:bf16",
    "gptq": "u4g128z:f16", "awq": "u4g128z:f16", "mlx4": "u4g64o:bf16", "mlx8": "u8g64o:bf16",
    "w8a16-g128": "i8g128:bf16", "w8a16": "i8channel:bf16", "w8a8": "i8channel:f32",
    "w2a16-g64": "i2g64:bf16", "w3a16-g128": "i3g128:bf16",
    "fp8": "e4m3tensor:f32", "fp8-channel": "e4m3channel:f32", "fp8-block": "e4m3b128x128:f32", "mxfp8": "e4m3g32:e8m0",
    "mxint8": "i8g32:e8m0", "mxfp4": "e2m1g32:e8m0", "nvfp4": "e2m1g16s:e4m3", "nf4": "u4g64c:f32",
}  # fmt: skip
"""A name that users know to <scheme>[:<type of its scales>]."""

DECLARED = {"w8a8": TOKENS}
"""Aliases of checkpoints that declare 8-bit activations, with the kind: what `--activations auto` then follows."""

COMMON = (
    "bf16", "f16", "q4_0", "q4_1", "q5_0", "q8_0", "q2_k", "q3_k", "q4_k", "q5_k", "q6_k", "w2a16-g64", "w3a16-g128",
    "w4a16-g32", "w4a16-g128", "awq", "mlx4", "w8a16", "w8a16-g128", "fp8", "fp8-channel", "fp8-block", "mxfp8",
    "w8a8", "mxint8", "mxfp4", "nvfp4", "nf4",
)  # fmt: skip
"""One of each kind that checkpoints come in: what `common` stands for."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A scheme as it was asked for; `scale` names the type of its scales, "" where it has none, `declared` the activations that
    such checkpoints declare, "" where none."""

    name: str
    scheme: str
    scale: str
    declared: str = ""

    def activations(self, wanted: str) -> str:
        """What a layer asks of the registry where the user wants "auto", "16" or "8"."""
        return self.declared if self.declared and wanted != "16" else wanted

    def of(self, k: int) -> Scheme:
        """For weights of k columns."""
        known = SCHEMES.get(self.scheme)
        same = known and (known.scale.name if known.scale else "") == self.scale
        return known if known and same else named(self.scheme, self.scale, k)


@cache
def served() -> dict[str, tuple[str, ...]]:
    """Every scheme that some linear kernel serves, and the types of scales that kernels read with it, the usual one first."""
    found: dict[str, dict[str, None]] = {}
    for row in load_rows():
        if row.op == "linear" and row.backend != "reference" and not row.emulates:
            found.setdefault(row.scheme, {}).update(dict.fromkeys(row.scale_dtypes))
    return {scheme: tuple(scales) for scheme, scales in sorted(found.items())}


def parse_schemes(text: str) -> tuple[Asked, ...]:
    """Of names split by commas: an alias, a scheme of the registry, either with `:bf16` for that type of scales; `common`, or
    `all`."""
    names: list[str] = []
    for name in (part.strip().lower() for part in text.split(",")):
        names += {"all": served(), "common": COMMON}.get(name, [name])
    return tuple({replace(each, name=""): each for each in map(_asked, names)}.values())


def _asked(name: str) -> Asked:
    base, _, wanted = name.partition(":")
    scheme, _, scale = ALIASES.get(base, base).partition(":")
    scales = served().get(scheme)
    if scales is None:
        raise FewbitError(
            f"--schemes {name!r} is no scheme that a linear kernel serves; type all, common, {', '.join(ALIASES)}, "
            f"{', '.join(served())}"
        )
    scale = wanted or scale or (scales[0] if scales else "")
    if scale and scale not in scales:
        offered = f"type one of {', '.join(scales)}" if scales else "leave them out"
        raise FewbitError(f"--schemes {name!r}: no kernel reads {scheme} with scales {scale}; {offered}")
    return Asked(name, scheme, scale, DECLARED.get(base, ""))
