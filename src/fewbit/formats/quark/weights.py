"""The weights of each spec as canonical parts: types and shapes checked against what the spec says."""

from __future__ import annotations

from collections.abc import Mapping

from fewbit.formats.folder.packing import AWQ_ORDER
from fewbit.formats.folder.parts import Columns, PackedAcross, PackedRows, Part, Rows, Shared
from fewbit.formats.folder.resolve import Module
from fewbit.formats.folder.safetensors import DiskTensor
from fewbit.formats.folder.scales import FLOATS, ONE, scale_by_shape, scale_of_groups
from fewbit.formats.quark.decode import SymmetricCodes
from fewbit.formats.quark.spec import TensorSpec
from fewbit.spec.dtype import E2M1, E2M3, E3M2, E8M0, I4, U4, DType
from fewbit.spec.granularity import CHANNEL, TENSOR, group
from fewbit.spec.scheme import Scheme

Found = tuple[Scheme, tuple[int, int], Mapping[str, Part]]
POWERS = ("U8", "F8_E8M0")
SMALL: dict[str, DType] = {"fp4": E2M1, "fp6_e2m3": E2M3, "fp6_e3m2": E3M2}


def weight_parts(module: Module, spec: TensorSpec, reordered: bool, rule: str) -> Found:
    if spec.element in SMALL and spec.scheme == "per_group":
        return _small_floats(module, spec, rule)
    if spec.element in ("int4", "uint4") and spec.scheme == "per_group":
        return _words(module, spec, reordered, rule)
    if spec.progressive:
        return _progressive(module, reordered, rule)
    if spec.element in ("fp8_e4m3", "int8"):
        return _bytes(module, spec, rule)
    module.fail(f"is stored as {spec} ({rule}), which is not supported")


def _weight(module: Module, rule: str, kind: str) -> DiskTensor:
    weight = module.need("weight", rule, kind)
    if len(weight.shape) != 2:
        module.wrong(weight, "a matrix")
    return weight


def _small_floats(module: Module, spec: TensorSpec, rule: str) -> Found:
    """One bit stream a row. Scales are powers of two, or e4m3 times one number."""
    weight, codes = _weight(module, rule, "U8"), SMALL[spec.element]
    n, k = weight.shape[0], weight.shape[1] * 8 // codes.bits
    if weight.shape[1] * 8 % codes.bits:
        module.wrong(weight, f"rows of whole {codes.bits}-bit codes")
    if not spec.scaled and not spec.powers:
        module.fail(
            f"is stored as {spec} with plain scales ({rule}), which is not supported (supported: e8m0, or e4m3 in two levels)"
        )
    scale = module.need("weight_scale", rule, *(("F8_E4M3",) if spec.scaled else POWERS))
    granularity, part = scale_of_groups(module, scale, n, k, spec.group)
    parts: dict[str, Part] = {"codes": PackedRows(weight, codes.bits, k), "scale": part}
    if not spec.scaled:
        return Scheme(codes, granularity, E8M0), (n, k), parts
    overall = module.need("weight_scale_2", rule, *FLOATS)
    if overall.shape not in ONE:
        module.wrong(overall, "a single number")
    parts["global_scale"] = Shared(overall, (1,))
    return Scheme(codes, granularity, scale.dtype, global_scale=overall.dtype), (n, k), parts


def _words(module: Module, spec: TensorSpec, reordered: bool, rule: str) -> Found:
    """i32 [K, N / 8], transposed, INT4 in two's complement; scales [K / group, N] and zero points [K / group, N / 8] likewise."""
    weight = _weight(module, rule, "I32")
    (k, n), order = (weight.shape[0], weight.shape[1] * 8), AWQ_ORDER if reordered else ()
    if k % spec.group:
        module.wrong(weight, f"a multiple of the group size {spec.group} in its first dimension ({rule})")
    groups, sign = k // spec.group, "twos" if spec.element == "int4" else "none"
    scale = module.need("weight_scale", rule, *FLOATS, shape=(groups, n))
    parts: dict[str, Part] = {"codes": PackedAcross(weight, 4, sign, order), "scale": Columns(scale)}
    where = (groups, n // 8)
    zeros = (module.get if spec.symmetric else module.need)(
        "weight_zero_point", *(() if spec.symmetric else (rule,)), "I32", shape=where
    )
    if zeros is not None:
        zero_part = PackedAcross(zeros, 4, sign, order)
        if spec.symmetric:
            parts["codes"] = SymmetricCodes(parts["codes"], zero_part)
        else:
            parts["zero_point"] = zero_part
    codes = I4 if spec.element == "int4" else U4
    return (
        Scheme(codes, group(spec.group), scale.dtype, zero_point=None if spec.symmetric else codes),
        (n, k),
        parts,
    )


def _progressive(module: Module, reordered: bool, rule: str) -> Found:
    """i32 [N, K / 8] along K; weight_scale_2 [N] times the one weight_scale; weight_zero_point_2 i32 [N / 8] of zeros."""
    weight, order = _weight(module, rule, "I32"), AWQ_ORDER if reordered else ()
    n, k = weight.shape[0], weight.shape[1] * 8
    overall = module.need("weight_scale", rule, *FLOATS)
    if overall.shape not in ONE:
        module.wrong(overall, "a single number")
    scale = module.need("weight_scale_2", rule, *FLOATS, shape=(n,))
    codes: Part = PackedRows(weight, 4, k, "twos", order)
    zeros = module.get("weight_zero_point_2", "I32", shape=(-(-n // 8),))
    if zeros is not None:
        codes = SymmetricCodes(codes, Shared(zeros, zeros.shape))
    parts: dict[str, Part] = {
        "codes": codes,
        "scale": Rows(scale, (1,)),
        "global_scale": Shared(overall, (1,)),
    }
    return Scheme(I4, CHANNEL, scale.dtype, global_scale=overall.dtype), (n, k), parts


def _bytes(module: Module, spec: TensorSpec, rule: str) -> Found:
    weight = _weight(module, rule, "I8" if spec.element == "int8" else "F8_E4M3")
    n, k = weight.shape
    scale = module.need("weight_scale", rule, *(POWERS if spec.powers else FLOATS))
    if spec.scheme == "per_group":
        granularity, part = scale_of_groups(module, scale, n, k, spec.group)
    else:
        granularity, part = scale_by_shape(module, scale, n, k)
        if granularity != (TENSOR if spec.scheme == "per_tensor" else CHANNEL):
            module.wrong(
                scale, f"{'one scale' if spec.scheme == 'per_tensor' else f'{n} scales, one a row'} ({rule})"
            )
    parts: dict[str, Part] = {"codes": Rows(weight), "scale": part}
    zeros = module.get("weight_zero_point", "I8", shape=scale.shape) if spec.element == "int8" else None
    if zeros is None and not spec.symmetric:
        module.need("weight_zero_point", rule, "I8")
    element = E8M0 if spec.powers else scale.dtype
    if zeros is None:
        return Scheme(weight.dtype, granularity, element), (n, k), parts
    zero_part = scale_by_shape(module, zeros, n, k)[1] if granularity in (TENSOR, CHANNEL) else Rows(zeros)
    if spec.symmetric:
        parts["codes"] = SymmetricCodes(Rows(weight), zero_part)
        return Scheme(weight.dtype, granularity, element), (n, k), parts
    parts["zero_point"] = zero_part
    return Scheme(weight.dtype, granularity, element, zero_point=zeros.dtype), (n, k), parts
