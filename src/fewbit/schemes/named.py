"""A scheme by its name and the type of its scales: those that no table lists."""

from __future__ import annotations

import re

from fewbit.spec.dtype import DTYPES, F32, U8
from fewbit.spec.granularity import CHANNEL, TENSOR, Granularity, block, group
from fewbit.spec.scheme import Scheme

_NAME = re.compile(r"([a-z]+\d+(?:m\d+)?)(?:g(\d+)|b(\d+)x(\d+)|(tensor|channel))([zo]?)(t?)(s?)(c?)")


def named(name: str, scale: str, k: int) -> Scheme:
    """Of a weight of k columns: a super scale is one of the whole row. ValueError for a name outside this grammar."""
    match = _NAME.fullmatch(name)
    if not match:
        raise ValueError(f"{name!r} is no scheme of codes with a granularity")
    codes, run, n, width, whole, extra, two, shared, table = match.groups()
    by: Granularity = {"tensor": TENSOR, "channel": CHANNEL}.get(whole, TENSOR)
    by = group(int(run)) if run else block(int(n), int(width)) if n else by
    element, scales = DTYPES[codes], DTYPES[scale]
    return Scheme(
        element,
        by,
        scale=scales,
        zero_point=(element if element.bits == 8 or element.kind == "signed" else U8)
        if extra == "z"
        else None,
        offset=scales if extra == "o" else None,
        super_scale=F32 if two else None,
        super_block=k if two else 0,
        global_scale=F32 if shared else None,
        codebook=F32 if table else None,
    )
