"""Integer weights: w = (weight - weight_offset) * weight_scale, two factors in a scale where there is a second one.

8 bits          weight i8 [N, K]          weight_scale, weight_offset f [N, K / group] or [N, 1]
W4A16, W4A4     weight i8 [N, K], values of 4 bits         the same
W4A8_DYNAMIC    weight i8 [N / 2, K], two rows a byte, the even one low; in older files [N, K]
                weight_scale, weight_offset f [N, 1]       weight_scale_second, weight_offset_second [N, K / group]
                scale_bias f [N, ..]: 8 times sums of weights, for kernels that take the codes as unsigned
W8A8 may lack weight_scale and weight_offset: then weight_scale is deq_scale / input_scale.
"""

from __future__ import annotations

from fewbit.formats.folder.parts import Part, Rows
from fewbit.formats.folder.resolve import Explained, Module
from fewbit.formats.folder.safetensors import DiskTensor
from fewbit.formats.modelopt.decode import RowPairs
from fewbit.formats.modelslim.config import KINDS, Description
from fewbit.formats.modelslim.decode import Ranged, UndoneProduct
from fewbit.formats.modelslim.found import Found
from fewbit.formats.modelslim.static import STATIC, product_tensors
from fewbit.spec.dtype import F32, I4, I8
from fewbit.spec.granularity import CHANNEL, Granularity, group
from fewbit.spec.scheme import Scheme

FLOATS = ("F32", "F16", "BF16")


def integers(module: Module, description: Description, kind: str, rule: str) -> Found:
    weight = module.need("weight", rule, "I8")
    if len(weight.shape) != 2:
        module.wrong(weight, f"a matrix ({rule})")
    if kind == "W4A8_DYNAMIC":
        return _two_levels(module, description, weight, rule)
    four, (n, k) = KINDS[kind] == 4, weight.shape
    parts: dict[str, Part] = {"codes": Ranged(weight) if four else Rows(weight)}
    if kind in STATIC and not {"weight_scale", "weight_offset"} & module.leaves.keys():
        product, single = product_tensors(module, n, rule)
        parts["scale"] = UndoneProduct(product, single)
        return Found(Scheme(I8, CHANNEL, scale=F32), (n, k), parts)
    scale = module.need("weight_scale", rule, *FLOATS)
    shared = _granularity(module, description, scale, n, k, kind not in STATIC, rule)
    offset = module.need("weight_offset", rule, *FLOATS, shape=scale.shape)
    symmetric = shared == CHANNEL and not offset.whole().any()
    parts["scale"] = Rows(scale)
    if not symmetric:
        parts["zero_point"] = Rows(offset)
    zero = None if symmetric else offset.dtype
    scheme = Scheme(I4 if four else I8, shared, scale=scale.dtype, zero_point=zero)
    return Found(scheme, (n, k), parts, (Explained(offset, "zero in every row"),) if symmetric else ())


def _granularity(
    module: Module, description: Description, scale: DiskTensor, n: int, k: int, grouped: bool, rule: str
) -> Granularity:
    groups = scale.shape[1] if len(scale.shape) == 2 else 0
    if scale.shape != (n, groups) or not groups or k % groups or (groups > 1 and not grouped):
        module.wrong(
            scale, f"shape [{n}, 1]{f' or [{n}, G] with G dividing {k}' if grouped else ''} ({rule})"
        )
    if groups > 1 and description.group_size and k // groups != description.group_size:
        module.wrong(scale, f"groups of {description.group_size}, as {description.where} says")
    return CHANNEL if groups == 1 else group(k // groups)


def _two_levels(module: Module, description: Description, weight: DiskTensor, rule: str) -> Found:
    scale = module.need("weight_scale", rule, *FLOATS)
    n, k = scale.shape[0] if scale.shape else 0, weight.shape[1]
    if scale.shape != (n, 1) or weight.shape[0] not in (n, n // 2) or n % 2:
        module.wrong(
            scale, f"shape [N, 1], the weight having N rows or N / 2 of two rows a byte, N even ({rule})"
        )
    packed = weight.shape[0] != n
    explained = [_zero(module, module.need("weight_offset", rule, *FLOATS, shape=(n, 1)), rule)]
    correction = module.get("scale_bias", *FLOATS)
    if correction is not None:
        why = "sums of the row's weights, for kernels that take the codes as unsigned"
        explained.append(Explained(correction, why))
    codes: Part = RowPairs(weight) if packed else Ranged(weight)
    second = module.get("weight_scale_second", *FLOATS)
    if second is None:
        scheme = Scheme(I4, CHANNEL, scale=scale.dtype)
        return Found(scheme, (n, k), {"codes": codes, "scale": Rows(scale)}, tuple(explained))
    shared = _granularity(module, description, second, n, k, True, rule)
    length = shared.k or k
    offset = module.get("weight_offset_second", *FLOATS, "I64", shape=second.shape)
    if offset is not None:
        explained.append(_zero(module, offset, rule))
    scheme = Scheme(I4, group(length), scale=second.dtype, super_scale=scale.dtype, super_block=k)
    parts: dict[str, Part] = {"codes": codes, "scale": Rows(second), "super_scale": Rows(scale)}
    return Found(scheme, (n, k), parts, tuple(explained))


def _zero(module: Module, offset: DiskTensor, rule: str) -> Explained:
    if offset.whole().any():
        module.wrong(offset, f"0 everywhere, since these weights are symmetric ({rule})")
    return Explained(offset, "zero in every row")
