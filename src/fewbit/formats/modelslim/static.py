"""What a W8A8 module holds for activations that are quantized statically.

input_scale, input_offset f [1]
quant_bias  i32 [N]  bias / deq_scale - sum(weight row) * input_offset, in units of deq_scale
deq_scale   f [N], or i64 [N] whose low 32 bits are those of the float: input_scale * weight_scale
"""

from __future__ import annotations

from collections.abc import Generator

import numpy as np

from fewbit.formats.folder.parts import Rows, Shared
from fewbit.formats.folder.resolve import Auxiliary, Claim, Explained, Module
from fewbit.formats.folder.safetensors import DiskTensor
from fewbit.formats.modelslim.decode import low_floats
from fewbit.schemes.arrays import Array
from fewbit.schemes.floats.table import widen
from fewbit.spec.dtype import I8
from fewbit.spec.granularity import TENSOR
from fewbit.spec.layer_quant import InputQuant, LayerQuant

STATIC = ("W8A8", "W8A8S", "W8A8_MIX")
SIGNS = frozenset({"input_scale", "input_offset", "quant_bias", "deq_scale"})
FLOATS = ("F32", "F16", "BF16")


def product_tensors(module: Module, n: int, rule: str) -> tuple[DiskTensor, DiskTensor]:
    """deq_scale, and the input_scale that is a factor of it."""
    product = module.need("deq_scale", rule, "I64", "F32", shape=(n,))
    return product, module.need("input_scale", rule, *FLOATS, shape=(1,))


def static_claims(module: Module, rule: str) -> Generator[Claim, None, LayerQuant]:
    n = module.need("weight", rule).shape[0]
    product, scale = product_tensors(module, n, rule)
    offset = module.need("input_offset", rule, *FLOATS, shape=(1,))
    for tensor in (scale, offset):
        yield Auxiliary(tensor.name, tensor.dtype, (1,), Shared(tensor, (1,)))
    bias = module.need("quant_bias", rule, "I32", shape=(n,))
    yield Auxiliary(bias.name, bias.dtype, (n,), Rows(bias))
    weight_scale = module.get("weight_scale", *FLOATS, shape=(n, 1))
    if weight_scale is not None:
        expected = _floats(scale) * _floats(weight_scale)[:, 0]
        if not np.allclose(
            low_floats(product.whole()), expected, rtol=1e-2 if scale.kind != "F32" else 1e-6, atol=0
        ):
            module.wrong(product, "input_scale * weight_scale in every row")
        yield Explained(product, "input_scale * weight_scale, which are there themselves")
    return LayerQuant(InputQuant(I8, TENSOR, scale=scale.name, zero_point=offset.name), quant_bias=bias.name)


def _floats(tensor: DiskTensor) -> Array:
    return widen(tensor.whole(), tensor.dtype)
