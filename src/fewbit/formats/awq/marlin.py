"""AWQ's marlin version: symmetric codes in Marlin's layout. qweight i32 [K/16, 2 N], scales f [K/group, N]."""

from __future__ import annotations

from fewbit.formats.awq.config import Settings
from fewbit.formats.folder.marlin import ACROSS, TILE, MarlinCodes, MarlinScales
from fewbit.formats.folder.parts import Part
from fewbit.formats.folder.resolve import Module, Resolved
from fewbit.spec.dtype import I4
from fewbit.spec.granularity import CHANNEL, group
from fewbit.spec.scheme import Scheme


def marlin(module: Module, settings: Settings, rule: str) -> Resolved:
    qweight = module.need("qweight", rule, "I32", "U32")
    if len(qweight.shape) != 2 or qweight.shape[1] % (2 * ACROSS):
        module.wrong(qweight, f"a matrix of words in Marlin's layout, {ACROSS} outputs at a time ({rule})")
    if settings.zero_point:
        module.fail(f"is of the version marlin ({rule}), which has no zero points, but zero_point is true")
    k, n = qweight.shape[0] * TILE, qweight.shape[1] // 2
    length = k if settings.group_size == -1 else settings.group_size
    if k % length:
        module.fail(
            f"has K={k}, no multiple of its group size {length} ({rule}); the config does not fit the tensors"
        )
    scales = module.need("scales", rule, "F16", "BF16", "F32", shape=(k // length, n))
    shared = CHANNEL if settings.group_size == -1 else group(length)
    parts: dict[str, Part] = {
        "codes": MarlinCodes(qweight),
        "scale": MarlinScales(scales, single=length == k),
    }
    return Resolved(f"{module.name}.weight", Scheme(I4, shared, scale=scales.dtype), (n, k), parts, rule)
