"""Small floats.

WFP8AFP8_DYNAMIC         weight e4m3 [N, K]      weight_scale, weight_offset f [N, 1]; the offset is 0
W8A8_MXFP8               weight e4m3 [N, K]      weight_scale u8 [N, K / 32], e8m0
W4A4_MXFP4, W4A8_MXFP    weight u8 [N, K / 2], low nibble first, with the same scale
W4A4_MXFP4_DUALSCALE     the same, and weight_dual_scale f [N, K / 512] or [N, K / 512, 1], a second factor
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from fewbit.formats.folder.parts import PackedRows, Part, Rows
from fewbit.formats.folder.resolve import Explained, Module
from fewbit.formats.modelslim.found import Found
from fewbit.spec.dtype import E2M1, E4M3, E8M0
from fewbit.spec.granularity import CHANNEL, group
from fewbit.spec.scheme import Scheme

FLOATS = ("F32", "F16", "BF16")
DUAL = 512


def fp8(module: Module, rule: str) -> Found:
    weight = module.need("weight", rule, "F8_E4M3")
    if len(weight.shape) != 2:
        module.wrong(weight, f"a matrix ({rule})")
    n, k = weight.shape
    scale = module.need("weight_scale", rule, *FLOATS, shape=(n, 1))
    offset = module.need("weight_offset", rule, *FLOATS, shape=(n, 1))
    if offset.whole().any():
        module.wrong(offset, f"0 everywhere, since floats have no offset ({rule})")
    parts: dict[str, Part] = {"codes": Rows(weight), "scale": Rows(scale)}
    scheme = Scheme(E4M3, CHANNEL, scale=scale.dtype)
    return Found(scheme, (n, k), parts, (Explained(offset, "zero in every row"),))


def mx(module: Module, rule: str, four: bool, dual: bool = False) -> Found:
    weight = module.need("weight", rule, "U8" if four else "F8_E4M3")
    many, length = (2 if four else 1), (DUAL if dual else 32)
    if len(weight.shape) != 2 or weight.shape[1] * many % length:
        module.wrong(weight, f"a matrix with groups of {length} along K ({rule})")
    n, k = weight.shape[0], weight.shape[1] * many
    scale = module.need("weight_scale", rule, "U8", "F8_E8M0", shape=(n, k // 32))
    parts: dict[str, Part] = {
        "codes": PackedRows(weight, 4, k) if four else Rows(weight), "scale": Rows(scale),
    }  # fmt: skip
    if not dual:
        return Found(Scheme(E2M1 if four else E4M3, group(32), scale=E8M0), (n, k), parts)
    coarse = module.need("weight_dual_scale", rule, *FLOATS)
    if coarse.shape not in ((n, k // DUAL), (n, k // DUAL, 1)):
        module.wrong(coarse, f"shape [{n}, {k // DUAL}] ({rule})")
    parts["super_scale"] = Rows(coarse, (k // DUAL,))
    scheme = Scheme(E2M1, group(32), scale=E8M0, super_scale=coarse.dtype, super_block=DUAL)
    return Found(scheme, (n, k), parts)


FLOAT_KINDS: dict[str, Callable[[Module, str], Found]] = {
    "WFP8AFP8_DYNAMIC": fp8,
    "W8A8_MXFP8": partial(mx, four=False),
    "W4A4_MXFP4": partial(mx, four=True),
    "W4A8_MXFP": partial(mx, four=True),
    "W4A4_MXFP4_DUALSCALE": partial(mx, four=True, dual=True),
}
