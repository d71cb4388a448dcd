"""Serialized Marlin: symmetric 4-bit GPTQ in the order of Marlin's kernel. B i32 [K/16, 2 N], s f16 [K/group, N], workspace i32."""

from __future__ import annotations

from collections.abc import Iterator

from fewbit.formats.folder.marlin import ACROSS, TILE, MarlinCodes, MarlinScales
from fewbit.formats.folder.parts import Part
from fewbit.formats.folder.resolve import Claim, Explained, Module, Resolved
from fewbit.formats.gptq.config import Settings
from fewbit.spec.dtype import I4
from fewbit.spec.granularity import CHANNEL, group
from fewbit.spec.scheme import Scheme

SIGNS = frozenset({"B", "s", "workspace"})


def marlin_module(module: Module, settings: Settings, rule: str) -> Iterator[Claim]:
    words = module.need("B", rule, "I32", "U32")
    if len(words.shape) != 2 or words.shape[1] % (2 * ACROSS):
        module.wrong(words, f"a matrix of words in Marlin's layout, {ACROSS} outputs at a time ({rule})")
    k, n = words.shape[0] * TILE, words.shape[1] // 2
    length = k if settings.group_size == -1 else settings.group_size
    if k % length:
        module.fail(
            f"has K={k}, no multiple of its group size {length} ({rule}); the config does not fit the tensors"
        )
    scales = module.need("s", rule, "F16", shape=(k // length, n))
    workspace = module.get("workspace", "I32")
    if workspace is not None:
        yield Explained(workspace, "scratch memory of Marlin's kernel")
    scheme = Scheme(I4, CHANNEL if length == k else group(length), scale=scales.dtype)
    parts: dict[str, Part] = {"codes": MarlinCodes(words), "scale": MarlinScales(scales, single=length == k)}
    yield Resolved(f"{module.name}.weight", scheme, (n, k), parts, rule)
