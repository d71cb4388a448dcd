"""The schemes in which a tensor may mean the same numbers, the smallest first: what `rewrite` is tried with."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from fewbit.spec.dtype import BF16, DTYPES, E4M3, E8M0, F16, F32, I8, DType
from fewbit.spec.granularity import CHANNEL, Granularity, block, group
from fewbit.spec.scheme import Scheme

LENGTHS = (256, 128, 64, 32, 16)  # of the groups that formats have


@lru_cache(maxsize=4096)
def variants(scheme: Scheme, n: int, k: int) -> tuple[Scheme, ...]:
    """The scheme itself, then others by bits a weight; all are exact for some tensor, none for sure."""
    found = {scheme: 0.0}
    if not (scheme.family or scheme.is_plain or scheme.scale is None):
        for codes, zero, has_offset in _forms(scheme):
            for grain in _grains(scheme, n, k):
                for scale in _scales(scheme):
                    for overall in _globals(scheme):
                        made = Scheme(
                            codes, grain, scale, zero, scale if has_offset else None,
                            global_scale=overall, group_index=scheme.group_index,
                        )  # fmt: skip
                        found.setdefault(made, made.bits_per_weight(n, k))
    if scheme.mask and scheme.scale is None:
        found[Scheme(scheme.codes)] = scheme.codes.bits
    return tuple(sorted(found, key=lambda s: (s != scheme, found[s], s.scale != scheme.scale, s.codes.bits)))


def _forms(scheme: Scheme) -> Iterator[tuple[DType, DType | None, bool]]:
    """Element type, type of the zero point, and whether there is an offset."""
    codes = scheme.codes
    if codes.is_float:
        yield codes, None, False
        if codes.name == "e4m3fnuz":
            yield E4M3, None, False
        return
    for bits in range(2 if scheme.codebook else codes.bits, 9):
        signed, unsigned = DTYPES.get(f"i{bits}"), DTYPES.get(f"u{bits}")
        if signed is not None:
            for zero in (None, I8, F32):
                yield signed, zero, False
        if unsigned is not None:
            yield unsigned, unsigned, False
            yield unsigned, None, True


def _grains(scheme: Scheme, n: int, k: int) -> Iterator[Granularity]:
    """Its own granularity and all that split it."""
    own = scheme.granularity
    yield own
    if scheme.group_index:
        return
    length = {"tensor": k, "channel": k, "group": own.k, "block": own.k}.get(own.sharing, 0)
    if own.sharing == "tensor":
        yield block(128, 128)
    if length >= k:
        yield CHANNEL
    for size in LENGTHS:
        if size <= k and k % size == 0 and (length >= k or length % size == 0):
            yield group(size)


def _scales(scheme: Scheme) -> Iterator[DType]:
    own = scheme.scale
    if own is not None and own.is_float:
        yield own
    yield from (F16, BF16, F32)
    if scheme.codes.is_float:
        yield from (E8M0, E4M3)


def _globals(scheme: Scheme) -> Iterator[DType | None]:
    yield scheme.global_scale
    if scheme.codes.is_float and scheme.codes.bits == 4:
        yield F32
        yield None
