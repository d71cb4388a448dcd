"""The weight of one module, by the name of its packing.

pack-quantized    weight_packed i32 [N, ceil(K * bits / 32)], unsigned by adding 2^(bits-1); weight_shape i64 [2];
                  weight_zero_point i32 [ceil(N * bits / 32), G]; weight_g_idx i32 [K]
int-, float-      weight i8 or e4m3 [N, K] with weight_scale [1], [N, 1], [N, G] or by blocks; mxfp8: weight_scale e8m0
nvfp4-, mxfp4-    weight_packed u8 [N, K / 2], the even column low; weight_scale e4m3 or e8m0; weight_global_scale f32 [1] divides
mxfp6-            weight_packed u8 [N, K * 3 / 4], a stream of e2m3 codes from the low bit on; weight_scale e8m0
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from fewbit.formats.compressed_tensors.config import Args
from fewbit.formats.compressed_tensors.decode import SmallIntegers, ZeroPoints
from fewbit.formats.compressed_tensors.proofs import is_order, no_zero_point
from fewbit.formats.compressed_tensors.scales import FLOATS, granularity_of, scale_part
from fewbit.formats.folder.parts import PackedRows, Part, Rows, Shared
from fewbit.formats.folder.resolve import Explained, Module
from fewbit.formats.folder.safetensors import DiskTensor
from fewbit.formats.folder.scales import Reciprocal
from fewbit.spec.dtype import E2M1, E2M3, E4M3, E8M0, F32, I8, DType, dtype
from fewbit.spec.granularity import group
from fewbit.spec.scheme import Scheme


@dataclass(frozen=True, slots=True)
class Weight:
    scheme: Scheme
    shape: tuple[int, int]
    parts: dict[str, Part]
    explained: tuple[Explained, ...] = ()


def read_weight(module: Module, args: Args, stored: str, rule: str) -> Weight:
    match stored or _by_tensors(module, args):
        case "pack-quantized":
            return _packed(module, args, rule)
        case "nvfp4-pack-quantized":
            return _small_floats(module, args, rule, E2M1, 16, E4M3)
        case "mxfp4-pack-quantized":
            return _small_floats(module, args, rule, E2M1, 32, E8M0)
        case "mxfp6-pack-quantized":
            return _small_floats(module, args, rule, E2M3, 32, E8M0)
        case "mxfp8-quantized":
            return _bytes(module, args, rule, E8M0)
        case _:
            return _bytes(module, args, rule)


def _by_tensors(module: Module, args: Args) -> str:
    if "weight_packed" not in module.leaves:
        return "mxfp8-quantized" if args.is_float and args.group_size == 32 else "naive-quantized"
    if not args.is_float:
        return "pack-quantized"
    if "weight_global_scale" in module.leaves:
        return "nvfp4-pack-quantized"
    return f"mxfp{args.bits}-pack-quantized"


def _packed(module: Module, args: Args, rule: str) -> Weight:
    if args.is_float:
        module.fail(f"is pack-quantized, but {rule} says type float; the config does not fit the tensors")
    bits, packed = args.bits, module.need("weight_packed", rule, "I32", "U32")
    n, k, explained = _shape_of(module, packed, bits, rule)
    granularity = granularity_of(module, args, n, k)
    scale = module.need("weight_scale", rule, *FLOATS)
    parts: dict[str, Part] = {
        "codes": PackedRows(packed, bits, k, "offset" if args.symmetric else "none"),
        "scale": scale_part(module, scale, granularity, n, k),
    }
    if not args.symmetric:
        groups = granularity.scale_shape(n, k)[-1]
        if granularity.sharing not in ("channel", "group"):
            module.fail(
                f"has packed zero points by {granularity.sharing}, expected by channel or group ({rule})"
            )
        zeros = module.need("weight_zero_point", rule, "I32", "U32", shape=(-(-n * bits // 32), groups))
        parts["zero_point"] = ZeroPoints(zeros, bits)
    else:
        explained += no_zero_point(module, rule)
    scheme = Scheme(
        dtype(f"{'i' if args.symmetric else 'u'}{bits}"),
        granularity,
        scale=scale.dtype,
        zero_point=None if args.symmetric else dtype(f"u{bits}"),
    )
    if args.is_ordered and granularity.sharing == "group":
        module.need("weight_g_idx", f"actorder ({rule})")
    index = module.get("weight_g_idx", "I32", "I64", shape=(k,))
    if index is not None:
        if ordered := granularity.sharing == "group" and is_order(module, index, granularity.k, k):
            parts["group_index"] = Shared(index, (k,))
        else:
            explained.append(Explained(index, "every column lies in the group of its position"))
        scheme = replace(scheme, group_index=ordered)
    return Weight(scheme, (n, k), parts, tuple(explained))


def _shape_of(module: Module, packed: DiskTensor, bits: int, rule: str) -> tuple[int, int, list[Explained]]:
    """As `weight_shape` states it; of a stacked expert, which has none, as many columns as fill its words."""
    if module.stack and "weight_shape" not in module.leaves:
        if len(packed.shape) != 2 or packed.shape[1] * 32 % bits:
            module.wrong(packed, f"rows of words that {bits}-bit codes fill")
        return packed.shape[0], packed.shape[1] * 32 // bits, []
    stated = module.need("weight_shape", rule, "I64", "I32", shape=(2,))
    n, k = (int(extent) for extent in stated.whole())
    if n <= 0 or not 0 < k < 1 << 40 or packed.shape != (n, -(-k * bits // 32)):
        module.wrong(
            packed, f"words of {bits}-bit codes of the weight [{n}, {k}] that {stated.name!r} states"
        )
    return n, k, [Explained(stated, "states the shape that the packed weight has")]


def _bytes(module: Module, args: Args, rule: str, scale_type: DType | None = None) -> Weight:
    weight = module.need("weight", rule, "F8_E4M3" if args.is_float else "I8")
    if len(weight.shape) != 2:
        module.wrong(weight, "a matrix")
    n, k = weight.shape
    if args.is_float and args.bits != 8:
        module.fail(f"holds floats of {args.bits} bits in bytes ({rule}), expected 8; it is no known packing")
    codes: Part = Rows(weight) if args.bits == 8 else SmallIntegers(weight, args.bits)
    granularity = granularity_of(module, args, n, k)
    scale = module.need("weight_scale", rule, *(("U8", "F8_E8M0") if scale_type else FLOATS))
    parts = {"codes": codes, "scale": scale_part(module, scale, granularity, n, k)}
    explained: tuple[Explained, ...] = ()
    if asymmetric := not args.symmetric:
        zeros = module.need("weight_zero_point", rule, "I8", shape=scale.shape)
        parts["zero_point"] = scale_part(module, zeros, granularity, n, k)
    else:
        explained = tuple(no_zero_point(module, rule))
    scheme = Scheme(
        E4M3 if args.is_float else dtype(f"i{args.bits}"),
        granularity,
        scale=scale_type or scale.dtype,
        zero_point=I8 if asymmetric else None,
    )
    return Weight(scheme, (n, k), parts, explained)


def _small_floats(
    module: Module, args: Args, rule: str, codes: DType, length: int, scale_type: DType
) -> Weight:
    if not args.is_float or args.bits != codes.bits or args.group_size != length:
        module.fail(
            f"has {length} {codes} codes to a scale, but {rule} says otherwise; the config does not fit"
        )
    packed = module.need("weight_packed", rule, "U8")
    if len(packed.shape) != 2:
        module.wrong(packed, "a matrix")
    n, k = packed.shape[0], packed.shape[1] * 8 // codes.bits
    if k % length or k * codes.bits != packed.shape[1] * 8:
        module.wrong(packed, f"rows of a multiple of {length} codes")
    kinds = ("F8_E4M3",) if scale_type is E4M3 else ("U8", "F8_E8M0")
    scale = module.need("weight_scale", rule, *kinds, shape=(n, k // length))
    parts: dict[str, Part] = {"codes": PackedRows(packed, codes.bits, k), "scale": Rows(scale)}
    if scale_type is E4M3:
        parts["global_scale"] = Reciprocal(module.need("weight_global_scale", rule, "F32", shape=(1,)))
    scheme = Scheme(codes, group(length), scale_type, global_scale=F32 if scale_type is E4M3 else None)
    return Weight(scheme, (n, k), parts)
