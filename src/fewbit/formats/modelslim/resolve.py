"""Which modules of a ModelSlim folder are quantized, and where their parts come from: w = (weight - weight_offset) * weight_scale.

W8A8             weight i8 [N, K]    weight_scale, weight_offset f [N, 1], and what static.py reads
W8A8_DYNAMIC, W8A16                  the same alone
W4A16, W4A4_DYNAMIC                  4-bit values in an i8 weight, scale and offset f [N, K/group] or [N, 1]
W8A8_MXFP8       weight e4m3 [N, K]        weight_scale u8 [N, K/32], e8m0
W4A4_MXFP4, W4A8_MXFP    weight u8 [N, K/2], low nibble first, with the same scale
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from fewbit.formats.folder.parts import PackedRows, Part, Rows
from fewbit.formats.folder.resolve import Claim, Explained, Module, Resolved, Unquantized, split_name
from fewbit.formats.modelslim.config import FLOAT, KINDS, Description
from fewbit.formats.modelslim.decode import Ranged
from fewbit.formats.modelslim.static import SIGNS as STATIC_SIGNS
from fewbit.formats.modelslim.static import static_claims
from fewbit.spec.dtype import E2M1, E4M3, E8M0, I4, I8
from fewbit.spec.granularity import CHANNEL, TOKEN, group
from fewbit.spec.layer_quant import NO_LAYER_QUANT, InputQuant, LayerQuant
from fewbit.spec.scheme import Scheme

FLOATS = ("F32", "F16", "BF16")
INPUTS = {
    "W8A8_DYNAMIC": InputQuant(I8, TOKEN),
    "W4A4_DYNAMIC": InputQuant(I4, TOKEN),
    "W8A8_MXFP8": InputQuant(E4M3, group(32), scale_dtype=E8M0),
    "W4A4_MXFP4": InputQuant(E2M1, group(32), scale_dtype=E8M0),
    "W4A8_MXFP": InputQuant(E4M3, group(32), scale_dtype=E8M0),
}


class ModelSlimResolver:
    signs = frozenset({"weight_scale", "weight_offset"}) | STATIC_SIGNS

    def __init__(self, description: Description) -> None:
        self.description = description

    def split(self, name: str) -> tuple[str, str]:
        return split_name(name)

    def resolve(self, module: Module) -> Iterable[Claim]:
        weight = module.leaves.get("weight")
        kinds = {leaf: self.description.kinds[t.name] for leaf, t in module.leaves.items()}
        kind = kinds["weight"] if weight is not None else FLOAT
        rule = f"{self.description.where} (type {kind})"
        for leaf, said in kinds.items():
            if said not in (kind, FLOAT) or (said != kind and leaf in self.signs):
                module.fail(
                    f"has tensor {module.leaves[leaf]} of type {said!r} beside a weight of type {kind!r}; they contradict each other"
                )
        if kind == FLOAT:
            if weight is not None and len(weight.shape) == 2:
                yield Unquantized(rule)
        elif "_MXFP" in kind:
            yield _mx(module, kind, rule)
        else:
            yield from self._integers(module, kind, rule)

    def _integers(self, module: Module, kind: str, rule: str) -> Iterator[Claim]:
        weight = module.need("weight", rule, "I8")
        if len(weight.shape) != 2:
            module.wrong(weight, f"a matrix ({rule})")
        n, k = weight.shape
        bits = KINDS[kind]
        scale = module.need("weight_scale", rule, *FLOATS)
        groups = scale.shape[1] if len(scale.shape) == 2 else 0
        if scale.shape != (n, groups) or not groups or k % groups or (bits == 8 and groups > 1):
            module.wrong(
                scale, f"shape [{n}, 1]{f' or [{n}, G] with G dividing {k}' if bits == 4 else ''} ({rule})"
            )
        length = self.description.group_size
        if bits == 4 and groups > 1 and length and k // groups != length:
            module.wrong(scale, f"groups of {length}, as {self.description.where} says")
        offset = module.need("weight_offset", rule, *FLOATS, shape=(n, groups))
        symmetric = groups == 1 and not offset.whole().any()
        codes = I8 if bits == 8 else I4
        shared = CHANNEL if groups == 1 else group(k // groups)
        scheme = Scheme(codes, shared, scale=scale.dtype, zero_point=None if symmetric else offset.dtype)
        parts: dict[str, Part] = {
            "codes": Rows(weight) if bits == 8 else Ranged(weight),
            "scale": Rows(scale),
        }
        if symmetric:
            yield Explained(offset, "zero in every row")
        else:
            parts["zero_point"] = Rows(offset)
        layer = LayerQuant(INPUTS[kind]) if kind in INPUTS else NO_LAYER_QUANT
        if kind == "W8A8":
            layer = yield from static_claims(module, scale, rule)
        yield Resolved(f"{module.name}.weight", scheme, (n, k), parts, rule, layer)


def _mx(module: Module, kind: str, rule: str) -> Resolved:
    four = KINDS[kind] == 4
    weight = module.need("weight", rule, "U8" if four else "F8_E4M3")
    if len(weight.shape) != 2 or weight.shape[1] * (2 if four else 1) % 32:
        module.wrong(weight, f"a matrix with groups of 32 along K ({rule})")
    n, k = weight.shape[0], weight.shape[1] * (2 if four else 1)
    scale = module.need("weight_scale", rule, "U8", "F8_E8M0", shape=(n, k // 32))
    scheme = Scheme(E2M1 if four else E4M3, group(32), scale=E8M0)
    parts: dict[str, Part] = {
        "codes": PackedRows(weight, 4, k) if four else Rows(weight),
        "scale": Rows(scale),
    }
    return Resolved(f"{module.name}.weight", scheme, (n, k), parts, rule, LayerQuant(INPUTS[kind]))
