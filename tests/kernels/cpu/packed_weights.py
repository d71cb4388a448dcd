"""Random weights of every scheme as canonical parts, what they mean in numpy, and where their bits lie when packed."""

from __future__ import annotations

from dataclasses import dataclass

import ml_dtypes
import numpy as np

PANEL = 32


@dataclass(frozen=True)
class Scheme:
    name: str
    bits: int
    bias: int = 0  # 0 = unsigned codes
    group: int = 32
    offset: bool = False
    two_level: bool = False
    plain: type | None = None

    @property
    def block_k(self) -> int:
        return 256 if self.two_level else 32

    @property
    def layout(self) -> str:
        return f"n32k{self.block_k}"

    @property
    def planes(self) -> tuple[int, ...]:
        return {3: (2, 1), 5: (4, 1), 6: (4, 2)}.get(self.bits, (self.bits,))

    def __str__(self) -> str:
        return self.name


SCHEMES = (
    Scheme("f32", 32, plain=np.float32),
    Scheme("f16", 16, plain=np.float16),
    Scheme("bf16", 16, plain=ml_dtypes.bfloat16),
    Scheme("i4g32", 4, 8),
    Scheme("u4g32o", 4, offset=True),
    Scheme("i5g32", 5, 16),
    Scheme("u5g32o", 5, offset=True),
    Scheme("i8g32", 8, 128),
    Scheme("u2g16ot", 2, group=16, offset=True, two_level=True),
    Scheme("i3g16t", 3, 4, group=16, two_level=True),
    Scheme("u4g32ot", 4, offset=True, two_level=True),
    Scheme("u5g32ot", 5, offset=True, two_level=True),
    Scheme("i6g16t", 6, 32, group=16, two_level=True),
)
Parts = dict[str, np.ndarray]


def random_parts(scheme: Scheme, n: int, k: int, seed: int = 0, extreme: bool = False) -> Parts:
    """Every code occurs (given room); `extreme` scales are zero, subnormal, negative and the largest that keep f32 finite."""
    rng = np.random.default_rng((seed, n, k))
    if scheme.plain:
        values = rng.standard_normal((n, k)).astype(np.float32)
        if extreme:
            values *= rng.choice(np.float32([0, -1, 2.0**-20, 2.0**12]), (n, k))
        return {"codes": values.astype(scheme.plain)}
    codes = rng.integers(0, 1 << scheme.bits, (n, k)) - scheme.bias
    parts = {"codes": codes.astype(np.int8 if scheme.bias else np.uint8)}

    def f16(*shape: int) -> np.ndarray:
        if extreme:
            return rng.choice(np.float16([0, -0.0, 2**-24, -(2**-24), 2**-15, 65504, -65504, 1]), shape)
        return (rng.standard_normal(shape) * 0.05).astype(np.float16)

    if not scheme.two_level:
        parts["scale"] = f16(n, k // 32)
        if scheme.offset:
            parts["offset"] = f16(n, k // 32)
        return parts
    sub = (n, k // scheme.group)
    signed = not scheme.offset
    parts["scale"] = rng.integers(-128 if signed else 0, 128 if signed else 64, sub).astype(
        np.int8 if signed else np.uint8
    )
    parts["super_scale"] = f16(n, k // 256)
    if scheme.offset:
        parts["offset"] = rng.integers(0, 64, sub).astype(np.uint8)
        parts["super_offset"] = f16(n, k // 256)
    return parts


def dequantize(scheme: Scheme, parts: Parts) -> np.ndarray:
    """f32 [N, K]. Products are exact in f32; the one rounding of the offset form is done from f64, where it is exact."""
    codes = parts["codes"]
    if scheme.plain:
        return codes.astype(np.float32)

    def wide(part: np.ndarray, group: int) -> np.ndarray:
        return np.repeat(part.astype(np.float64), group, axis=1)

    scale, offset = wide(parts["scale"], scheme.group), 0.0
    if scheme.two_level:
        scale = scale * wide(parts["super_scale"], 256)
    if scheme.offset:
        offset = wide(parts["offset"], scheme.group)
        if scheme.two_level:
            offset = -(offset * wide(parts["super_offset"], 256))
        return (codes * scale + offset).astype(np.float32)
    return (codes * scale).astype(np.float32)


def pack(scheme: Scheme, parts: Parts) -> np.ndarray:
    """The packed bytes, spelled out with big numpy arrays: the definition that the pack kernels are compared with."""
    n, k = parts["codes"].shape
    padded_n, padded_k = -n % PANEL + n, -k % scheme.block_k + k
    blocks, panels, subs = padded_k // scheme.block_k, padded_n // PANEL, scheme.block_k // 32

    codes = parts["codes"]
    if scheme.plain:
        codes = codes.view(np.uint32 if scheme.bits == 32 else np.uint16).astype(np.uint64)
    else:
        codes = (codes.astype(np.int64) + (scheme.bias if scheme.bits < 8 else 0)).astype(np.uint64) & (
            (1 << scheme.bits) - 1
        )
    padding = 0 if scheme.plain or scheme.bits == 8 else scheme.bias  # code 0
    full = np.full((padded_n, padded_k), padding, np.uint64)
    full[:, :] = 0 if scheme.plain else padding
    full[:n, :k] = codes
    tiles = full.reshape(panels, 2, 16, blocks, subs, 32)  # panel, half, lane, block, sub-block, k

    planes, low = [], 0
    for b in scheme.planes:
        fields = tiles >> np.uint64(low) & np.uint64((1 << b) - 1)
        per_word = 32 // b
        i = np.arange(per_word)
        shift = (i * b if b >= 8 else (i % 2) * 16 + i // 2 * b).astype(np.uint64)
        words = (fields.reshape(*fields.shape[:-1], b, per_word) << shift).sum(-1).astype(np.uint32)
        # panel, half, lane, block, sub, row -> panel, block, sub, (half, row, lane)
        planes.append(words.transpose(0, 3, 4, 1, 5, 2).reshape(panels, blocks, subs, -1))
        low += b
    pieces = [np.ascontiguousarray(np.concatenate(planes, -1)).view(np.uint8).reshape(panels, blocks, -1)]
    for role in ("scale", "offset", "super_scale", "super_offset"):
        if role in parts:
            part = np.zeros((padded_n, parts[role].shape[1]), parts[role].dtype)
            part[:n] = parts[role]
            per_block = part.reshape(panels, PANEL, blocks, -1).transpose(
                0, 2, 3, 1
            )  # panel, block, group, n
            pieces.append(np.ascontiguousarray(per_block).view(np.uint8).reshape(panels, blocks, -1))
    return np.concatenate(pieces, -1).reshape(-1)


def k_sizes(scheme: Scheme) -> tuple[int, ...]:
    """Whole blocks, and for plain floats, whose K is free, the sizes around one."""
    if scheme.plain:
        return (1, 31, 32, 33, 95, 288)
    return (256, 512) if scheme.two_level else (32, 64, 288)
