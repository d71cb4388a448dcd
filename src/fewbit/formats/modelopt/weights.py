"""The weights of each algorithm as canonical parts: types and shapes checked against what the algorithm says."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from fewbit.formats.folder.parts import PackedRows, Part, Rows, Shared
from fewbit.formats.folder.resolve import Module
from fewbit.formats.folder.safetensors import DiskTensor
from fewbit.formats.folder.scales import FLOATS, ONE, scale_by_shape, scale_of_groups
from fewbit.formats.modelopt.algorithms import Algorithm
from fewbit.formats.modelopt.decode import RowPairs
from fewbit.spec.dtype import E2M1, E8M0, I4
from fewbit.spec.granularity import CHANNEL, TENSOR
from fewbit.spec.scheme import Scheme

Found = tuple[Scheme, tuple[int, int], Mapping[str, Part]]
POWERS = ("U8", "F8_E8M0")


def _weight(module: Module, rule: str, *kinds: str) -> DiskTensor:
    weight = module.need("weight", rule, *kinds)
    if len(weight.shape) != 2:
        module.wrong(weight, "a matrix")
    return weight


def _scale(module: Module, rule: str, *kinds: str) -> DiskTensor:
    other = "weight_scale_inv"
    return module.need(other if other in module.leaves else "weight_scale", rule, *kinds)


def bytes_of(module: Module, algorithm: Algorithm, size: int, rule: str) -> Found:
    """FP8 and INT8: one code a byte; a scale for the tensor, each row or each block."""
    weight = _weight(module, rule, "F8_E4M3" if algorithm.weights == "fp8" else "I8")
    (n, k), scale = weight.shape, _scale(module, rule, *FLOATS)
    granularity, part = scale_by_shape(module, scale, n, k, algorithm.tile)
    if algorithm.tile is None and granularity != (CHANNEL if algorithm.by_row else TENSOR):
        module.wrong(scale, f"{f'{n} scales, one a row' if algorithm.by_row else 'one scale'} ({rule})")
    return Scheme(weight.dtype, granularity, scale.dtype), (n, k), {"codes": Rows(weight), "scale": part}


def mxfp8(module: Module, algorithm: Algorithm, size: int, rule: str) -> Found:
    weight = _weight(module, rule, "F8_E4M3")
    n, k = weight.shape
    granularity, part = scale_of_groups(module, _scale(module, rule, *POWERS), n, k, size)
    return Scheme(weight.dtype, granularity, E8M0), (n, k), {"codes": Rows(weight), "scale": part}


def fp4(module: Module, algorithm: Algorithm, size: int, rule: str) -> Found:
    """NVFP4: scales e4m3 times one number. MXFP4: powers of two."""
    weight, two_level = _weight(module, rule, "U8"), algorithm.weights == "nvfp4"
    n, k = weight.shape[0], weight.shape[1] * 2
    scale = _scale(module, rule, *(("F8_E4M3",) if two_level else POWERS))
    granularity, part = scale_of_groups(module, scale, n, k, size)
    parts: dict[str, Part] = {"codes": PackedRows(weight, 4, k), "scale": part}
    if not two_level:
        return Scheme(E2M1, granularity, E8M0), (n, k), parts
    overall = module.need("weight_scale_2", rule, *FLOATS)
    if overall.shape not in ONE:
        module.wrong(overall, "a single number")
    parts["global_scale"] = Shared(overall, (1,))
    return Scheme(E2M1, granularity, scale.dtype, global_scale=overall.dtype), (n, k), parts


def int4(module: Module, algorithm: Algorithm, size: int, rule: str) -> Found:
    weight = _weight(module, rule, "U8")
    n, k = weight.shape[0] * 2, weight.shape[1]
    scale = _scale(module, rule, *FLOATS)
    granularity, part = scale_of_groups(module, scale, n, k, size)
    return Scheme(I4, granularity, scale.dtype), (n, k), {"codes": RowPairs(weight), "scale": part}


WEIGHTS: dict[str, Callable[[Module, Algorithm, int, str], Found]] = {
    "fp8": bytes_of, "int8": bytes_of, "mxfp8": mxfp8, "nvfp4": fp4, "mxfp4": fp4, "int4": int4,
}  # fmt: skip
