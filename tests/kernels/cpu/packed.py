"""Random weights of a scheme, and their packed bytes written down independently of the library's packing kernels."""

from __future__ import annotations

import numpy as np

from fewbit.schemes.arrays import array_dtype, round_bf16
from fewbit.schemes.reference import dequantize
from fewbit.spec.cell import KernelRow
from fewbit.spec.dtype import BF16, DTYPES, F16, F32, I8, U8
from fewbit.spec.granularity import NONE, group
from fewbit.spec.scheme import QuantTensor, Scheme

BIAS = {"i3": 4, "i4": 8, "i5": 16, "i6": 32}  # stored codes are unsigned; i8 stays two's complement
PLANES = {3: (2, 1), 5: (4, 1), 6: (4, 2)}


def scheme(name: str) -> Scheme:
    """The scheme of that name, parts as the kernels know them (sub-scales in a byte)."""
    if name in ("f32", "f16", "bf16"):
        return Scheme({"f32": F32, "f16": F16, "bf16": BF16}[name], NONE)
    codes, _, rest = name.partition("g")
    run = int(rest.rstrip("ot"))
    two_level, offset = rest.endswith("t"), "o" in rest
    if not two_level:
        return Scheme(DTYPES[codes], group(run), scale=F16, offset=F16 if offset else None)
    scale = U8 if offset else I8
    return Scheme(
        DTYPES[codes],
        group(run),
        scale=scale,
        offset=U8 if offset else None,
        super_scale=F16,
        super_block=256,
    )


def random_tensor(name: str, n: int, k: int, seed: int = 0) -> QuantTensor:
    """Every code occurs as soon as there are enough of them; scales are of both signs where the scheme has such."""
    s, rng = scheme(name), np.random.default_rng([seed, n, k])
    if s.is_plain:
        values = rng.standard_normal((n, k), np.float32) * np.float32(0.05)
        codes = round_bf16(values) if name == "bf16" else values.astype(array_dtype(s.codes))
        return QuantTensor(s, (n, k), {"codes": codes})
    parts = {}
    for role, shape in s.part_shapes(n, k).items():
        if role == "codes":
            flat = np.arange(n * k) % (1 << s.codes.bits) + s.codes.lowest
            parts[role] = rng.permutation(flat).reshape(n, k).astype(array_dtype(s.codes))
        elif s.super_scale and role in ("scale", "offset"):
            low, high = {"i3g16t": (-32, 31), "i6g16t": (-128, 127), "u2g16ot": (0, 15)}.get(name, (0, 63))
            parts[role] = rng.integers(low, high + 1, shape).astype(np.int8 if low else np.uint8)
        else:
            parts[role] = (rng.standard_normal(shape) * 0.01).astype(np.float16)
    return QuantTensor(s, (n, k), parts)


def aligned(data: np.ndarray) -> np.ndarray:
    """The same bytes at a 64-byte boundary."""
    room = np.zeros(data.size + 64, np.uint8)
    start = -room.ctypes.data % 64
    room[start : start + data.size] = data
    return room[start : start + data.size]


def pack(tensor: QuantTensor) -> np.ndarray:
    """Bytes of layout n32k32 or n32k256: panels of 32 n, in each the blocks of 32 or 256 k."""
    s, (n, k), parts = tensor.scheme, tensor.shape, tensor.parts
    panels, block_k = -(-n // 32), s.super_block or 32
    k_padded = -(-k // 32) * 32

    def padded(part: np.ndarray, columns: int) -> np.ndarray:
        out = np.zeros((panels * 32, columns), part.dtype)
        out[: part.shape[0], : part.shape[1]] = part
        return out

    codes = parts["codes"]
    if s.codes.name in BIAS:
        codes = (codes.astype(np.int16) + BIAS[s.codes.name]).astype(np.uint8)
    words = padded(codes.view(f"u{codes.itemsize}"), k_padded).astype(np.uint32)
    per_block = block_k // 32
    pieces, shift = [], 0
    for bits in PLANES.get(s.codes.bits, (s.codes.bits,)):
        field = (words >> np.uint32(shift)) & np.uint32((1 << bits) - 1 if bits < 32 else 0xFFFFFFFF)
        width = 32 // bits  # codes of a word
        at = np.arange(width)
        if bits < 8:
            at = at % 2 * (width // 2) + at // 2
        field = field.reshape(panels, 2, 16, -1, per_block, bits, width) << (at * bits).astype(np.uint32)
        plane = np.bitwise_or.reduce(field, axis=-1)  # panel, half, lane, block, sub, row
        plane = plane.transpose(0, 3, 4, 1, 5, 2)  # panel, block, sub, half, row, lane
        pieces.append(np.ascontiguousarray(plane).view(np.uint8).reshape(panels, -1, per_block, bits * 128))
        shift += bits
    blocks = [np.concatenate(pieces, axis=-1).reshape(panels, k_padded // block_k, -1)]
    for role in ("scale", "offset", "super_scale", "super_offset"):
        if role in parts:
            run = 256 if role.startswith("super") else s.granularity.k
            part = padded(parts[role], k_padded // run).reshape(
                panels, 32, k_padded // block_k, block_k // run
            )
            part = np.ascontiguousarray(part.transpose(0, 2, 3, 1))  # panel, block, group, n
            blocks.append(part.view(np.uint8).reshape(panels, k_padded // block_k, -1))
    return aligned(np.concatenate(blocks, axis=-1).reshape(-1))


def packed_case(row: KernelRow, n: int, k: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Packed bytes of a random weight, and the f32 weight that they mean."""
    tensor = random_tensor(row.scheme, n, k, seed)
    return pack(tensor), dequantize(tensor)
