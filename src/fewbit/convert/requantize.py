"""Rounding to nearest into a scheme that the user names, in pieces: what the whole tensor shares is measured beforehand."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from fewbit.convert.pieces import cuts
from fewbit.convert.source import Source, is_embedding, is_matrix, module_of
from fewbit.formats.checkpoint import TensorInfo
from fewbit.schemes import SCHEMES
from fewbit.schemes.arrays import Array
from fewbit.schemes.reference import dequantize, quantize
from fewbit.spec.dtype import BF16, DTYPES, E4M3, E8M0, F16, F32, DType
from fewbit.spec.granularity import CHANNEL, TENSOR, Granularity, block, group
from fewbit.spec.refusal import FewbitError
from fewbit.spec.scheme import QuantTensor, Scheme

_NAME = re.compile(r"([a-z]+\d+(?:m\d+)?)(?:g(\d+)|b(\d+)x(\d+)|(tensor|channel))([zo]?)(s?)")
_LEFT_PLAIN = re.compile(r"(^|\.)(lm_head|gate|router|shared_expert_gate)$")


@dataclass(frozen=True, slots=True)
class Limits:
    """Least and largest weight of the whole tensor, where parts of the scheme are shared by all of it."""

    low: float
    high: float

    def widened(self) -> Iterator[Limits]:
        """Themselves and some a few roundings wider: a format that stores a divisor has no number for every multiplier."""
        for step in range(16):
            factor = 1 + step * 2.0**-22
            yield Limits(self.low * factor, self.high * factor)


@dataclass(frozen=True, slots=True)
class Rounding:
    """`schemes`: the named one, with each type that its scales may have."""

    name: str
    schemes: tuple[Scheme, ...]

    def takes(self, info: TensorInfo, source: Source) -> bool:
        """Every quantized matrix; in a plain checkpoint those of its layers, not head, embeddings and routers."""
        if any(not i.scheme.is_plain for i in source.tensors.values()):
            return not info.scheme.is_plain
        module = module_of(info.name)
        return (
            is_matrix(info)
            and "norm" not in module
            and not is_embedding(module)
            and not _LEFT_PLAIN.search(module)
        )


def parse_rounding(name: str) -> Rounding:
    """FewbitError for what is no name of a scheme that can be rounded to."""
    return Rounding(name, tuple(_schemes(name)))


def _schemes(name: str) -> Iterator[Scheme]:
    if name in SCHEMES:
        yield SCHEMES[name]
        if SCHEMES[name].super_scale or SCHEMES[name].is_plain:
            return
    match = _NAME.fullmatch(name)
    codes = DTYPES.get(match[1]) if match else None
    empty = match is not None and "0" in match.groups()
    if match is None or codes is None or codes.bits > 8 or empty:
        raise FewbitError(
            f"--requantize {name}: is no scheme; expected codes and what shares a scale, such as i4g128, u4g128z, u4g32o, "
            f"i8channel, e4m3channel, e4m3b128x128, e2m1g32, e2m1g16s, or one of {', '.join(SCHEMES)}"
        )
    grain = _grain(match)
    zero = codes if match[6] == "z" else None
    if (codes.is_float and (match[6] or codes is E8M0)) or (
        match[7] and not (codes.is_float and codes.bits == 4)
    ):
        raise FewbitError(
            f"--requantize {name}: {codes} codes have no such zero point, offset or global scale"
        )
    if not codes.is_float and codes.kind == "unsigned" and not match[6]:
        raise FewbitError(
            f"--requantize {name}: unsigned codes need a zero point ({name}z) or an offset ({name}o)"
        )
    for scale in _scale_types(codes, grain, bool(match[7])):
        made = Scheme(
            codes,
            grain,
            scale,
            zero,
            scale if match[6] == "o" else None,
            global_scale=F32 if match[7] else None,
        )
        if made != SCHEMES.get(name):
            yield made


def _grain(match: re.Match[str]) -> Granularity:
    if match[5]:
        return TENSOR if match[5] == "tensor" else CHANNEL
    return group(int(match[2])) if match[2] else block(int(match[3]), int(match[4]))


def _scale_types(codes: DType, grain: Granularity, two_levels: bool) -> tuple[DType, ...]:
    if not codes.is_float:
        return F16, F32, BF16
    if two_levels or (codes.bits == 4 and grain == group(16)):
        return (E4M3,)
    if codes.bits < 8 or grain == group(32):
        return (E8M0,)
    return F32, BF16, F16


def shares_all(scheme: Scheme) -> bool:
    return scheme.granularity.sharing == "tensor" or scheme.global_scale is not None


def limits_of(source: Source, info: TensorInfo, scheme: Scheme) -> Limits:
    """Read from the whole tensor where the scheme needs them."""
    if not shares_all(scheme):
        return Limits(0.0, 0.0)
    low, high = np.inf, -np.inf
    for start, stop in cuts(info.shape, info.scheme.block_n):
        weight = dequantize(source.checkpoint.read(info.name, start, stop))
        low, high = min(low, float(weight.min())), max(high, float(weight.max()))
    return Limits(low, high)


def round_piece(piece: QuantTensor, scheme: Scheme, limits: Limits) -> QuantTensor:
    weight = dequantize(piece)
    if not shares_all(scheme):
        return quantize(weight, scheme)
    n, k = weight.shape
    made = quantize(np.concatenate([weight, _limit_rows(limits, k, scheme)]), scheme)
    parts = dict(made.parts)
    for role, shape in scheme.part_shapes(n, k).items():
        parts[role] = parts[role][: shape[0]]
    return QuantTensor(scheme, (n, k), parts)


def _limit_rows(limits: Limits, k: int, scheme: Scheme) -> Array:
    """A row that holds both limits, so that a quantizer that sees one piece finds what all of them share."""
    rows: Array = np.zeros((1, k), np.float32)
    rows[0, 0], rows[0, -1] = limits.low, limits.high
    return rows
