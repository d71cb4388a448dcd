"""AutoRound's float packings, one module each.

fp8_static      weight e4m3 [N, K]           weight_scale f [N] or [1]       input_scale f [1]
llm_compressor  weight_packed u8 [N, K/2]    weight_scale u8 [N, K/32], e8m0                        (mx_fp)
                weight e4m3 [N, K]           weight_scale u8 [N, K/32], e8m0                        (mx_fp of 8 bits)
                weight_packed u8 [N, K/2]    weight_scale e4m3 [N, K/16], weight_global_scale f [1] (nv_fp; a divisor)
fp8             weight e4m3 [N, K]           weight_scale_inv f by blocks, which multiplies
"""

from __future__ import annotations

from collections.abc import Iterator

from fewbit.formats.auto_round.config import Settings
from fewbit.formats.folder.parts import PackedRows, Part, Rows, Shared
from fewbit.formats.folder.resolve import Auxiliary, Claim, Module, Resolved
from fewbit.formats.folder.safetensors import DiskTensor
from fewbit.formats.folder.scales import Reciprocal, scale_by_shape
from fewbit.spec.dtype import E2M1, E4M3, E8M0, F32
from fewbit.spec.granularity import CHANNEL, TENSOR, group
from fewbit.spec.layer_quant import InputQuant, LayerQuant
from fewbit.spec.scheme import Scheme

SCALES = ("F32", "F16", "BF16")


def fp8_module(module: Module, settings: Settings, rule: str) -> Iterator[Claim]:
    weight = module.need("weight", rule, "F8_E4M3")
    if len(weight.shape) != 2:
        module.wrong(weight, "a matrix")
    n, k = weight.shape
    shared = TENSOR if settings.group_size == 0 else CHANNEL
    scale = module.need("weight_scale", rule, *SCALES, shape=(1,) if shared is TENSOR else (n,))
    part: Part = Shared(scale, (1,)) if shared is TENSOR else Rows(scale, (1,))
    static = module.need("input_scale", rule, *SCALES, shape=(1,))
    yield Auxiliary(static.name, static.dtype, (1,), Shared(static, (1,)))
    layer = LayerQuant(inputs_of("fp", static.name))
    scheme = Scheme(E4M3, shared, scale=scale.dtype)
    yield Resolved(
        f"{module.name}.weight", scheme, (n, k), {"codes": Rows(weight), "scale": part}, rule, layer
    )


def fp8_block_module(module: Module, tile: tuple[int, int], rule: str) -> Iterator[Claim]:
    weight = module.need("weight", rule, "F8_E4M3")
    if len(weight.shape) != 2:
        module.wrong(weight, "a matrix")
    n, k = weight.shape
    scale = module.need("weight_scale_inv", rule, *SCALES)
    shared, part = scale_by_shape(module, scale, n, k, tile)
    layer = LayerQuant(InputQuant(E4M3, group(tile[1])))
    parts: dict[str, Part] = {"codes": Rows(weight), "scale": part}
    yield Resolved(f"{module.name}.weight", Scheme(E4M3, shared, scale.dtype), (n, k), parts, rule, layer)


def mxfp8_module(module: Module, rule: str) -> Iterator[Claim]:
    weight = module.need("weight", rule, "F8_E4M3")
    if len(weight.shape) != 2 or weight.shape[1] % 32:
        module.wrong(weight, "a matrix with groups of 32 along K")
    n, k = weight.shape
    scale = module.need("weight_scale", rule, "U8", "F8_E8M0", shape=(n, k // 32))
    layer = LayerQuant(InputQuant(E4M3, group(32), scale_dtype=E8M0))
    parts: dict[str, Part] = {"codes": Rows(weight), "scale": Rows(scale)}
    yield Resolved(f"{module.name}.weight", Scheme(E4M3, group(32), E8M0), (n, k), parts, rule, layer)


def mxfp4_module(module: Module, rule: str) -> Iterator[Claim]:
    packed, n, k = _packed(module, 32, rule)
    scale = module.need("weight_scale", rule, "U8", "F8_E8M0", shape=(n, k // 32))
    scheme = Scheme(E2M1, group(32), scale=E8M0)
    parts: dict[str, Part] = {"codes": PackedRows(packed, 4, k), "scale": Rows(scale)}
    layer = LayerQuant(inputs_of("mx_fp"))
    yield Resolved(f"{module.name}.weight", scheme, (n, k), parts, rule, layer)


def nvfp4_module(module: Module, rule: str) -> Iterator[Claim]:
    packed, n, k = _packed(module, 16, rule)
    scale = module.need("weight_scale", rule, "F8_E4M3", shape=(n, k // 16))
    divisor = module.need("weight_global_scale", rule, "F32", shape=(1,))
    scheme = Scheme(E2M1, group(16), scale=E4M3, global_scale=F32)
    parts: dict[str, Part] = {
        "codes": PackedRows(packed, 4, k), "scale": Rows(scale), "global_scale": Reciprocal(divisor),
    }  # fmt: skip
    static = module.get("input_global_scale", "F32", shape=(1,))
    if static is not None:
        yield Auxiliary(static.name, F32, (1,), Reciprocal(static))
    name = static.name if static is not None else ""
    layer = LayerQuant(inputs_of("nv_fp", name))
    yield Resolved(f"{module.name}.weight", scheme, (n, k), parts, rule, layer)


def _packed(module: Module, length: int, rule: str) -> tuple[DiskTensor, int, int]:
    packed = module.need("weight_packed", rule, "U8")
    if len(packed.shape) != 2 or packed.shape[1] * 2 % length:
        module.wrong(packed, f"a matrix of pairs of 4-bit codes in groups of {length}")
    return packed, packed.shape[0], packed.shape[1] * 2


def inputs_of(data_type: str, static: str = "") -> InputQuant | None:
    """How inputs are quantized beside weights of that type; `static` names their stored scale."""
    match data_type:
        case "fp":
            return InputQuant(E4M3, TENSOR, scale=static)
        case "mx_fp":
            return InputQuant(E2M1, group(32), scale_dtype=E8M0)
        case "nv_fp":
            return InputQuant(E2M1, group(16), global_scale=static, scale_dtype=E4M3)
    return None
