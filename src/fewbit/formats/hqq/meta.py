"""What HQQ stores of a module beside its weights: numbers and flags as tensors of one element, words as the bytes of their letters."""

from __future__ import annotations

from dataclasses import dataclass

from fewbit.formats.folder.resolve import Module
from fewbit.formats.folder.safetensors import DiskTensor
from fewbit.formats.hqq.config import Settings
from fewbit.formats.hqq.decode import PACKING_OF

MAX_WORD = 32
NUMBERS = ("nbits", "group_size", "axis")
FLAGS = ("channel_wise", "view_as_float", "quant_scale", "quant_zero", "offload_meta")
LEAVES = frozenset(
    {*NUMBERS, *FLAGS, "shape", "packing", "unpack_view_dtype", "compute_dtype", "encoded_state_dict",
     "stores_quant_config", "optimize", "round_zero"}
)  # fmt: skip
RULE = "quant_method hqq"


@dataclass(frozen=True, slots=True)
class Meta:
    """Of one module: its true shape and how it is stored."""

    n: int
    k: int
    settings: Settings


def read_meta(module: Module) -> Meta:
    numbers = {leaf: _number(module, module.need(leaf, RULE, "I32", "I64", "F32")) for leaf in NUMBERS}
    flags = {leaf: _flag(module, leaf) for leaf in FLAGS}
    for leaf in ("quant_scale", "quant_zero", "offload_meta"):
        if flags[leaf]:
            module.fail(
                f"has {leaf} true, which is not supported; quantize the model with plain scales and zero points"
            )
    shape = module.need("shape", RULE, "I64", "I32", shape=(2,))
    n, k = (int(v) for v in shape.whole())
    if not (0 < n < 1 << 31 and 0 < k < 1 << 31):
        module.wrong(shape, f"two numbers of rows and columns, not {n} and {k}")
    nbits = next((bits for bits in PACKING_OF if abs(bits - numbers["nbits"]) < 1e-3), 0)
    packing = _word(module, module.need("packing", RULE, "U8"))
    if not nbits or PACKING_OF[nbits] != packing:
        module.fail(
            f"has nbits {numbers['nbits']:g} and packing {packing!r}, expected one of "
            f"{', '.join(f'{bits:g} with {name}' for bits, name in PACKING_OF.items())}"
        )
    axis, size = numbers["axis"], numbers["group_size"]
    if axis not in (0, 1):
        module.wrong(module.leaves["axis"], f"0 or 1, not {axis:g}")
    if size < 1 or size % 1 or n * k % int(size):
        module.wrong(module.leaves["group_size"], f"a divisor of the {n} x {k} weights, not {size:g}")
    settings = Settings(nbits, int(size), int(axis), flags["channel_wise"], flags["view_as_float"])
    return Meta(n, k, settings)


def _number(module: Module, tensor: DiskTensor) -> float:
    if tensor.shape not in ((), (1,)):
        module.wrong(tensor, "a single number")
    return float(tensor.whole().reshape(()))


def _flag(module: Module, leaf: str) -> bool:
    """An absent flag has the writer's default."""
    tensor = module.get(leaf, "U8", "I32", "BOOL")
    return leaf == "channel_wise" if tensor is None else bool(_number(module, tensor))


def _word(module: Module, tensor: DiskTensor) -> str:
    if len(tensor.shape) != 1 or tensor.shape[0] > MAX_WORD:
        module.wrong(tensor, f"the letters of a word, at most {MAX_WORD}")
    return bytes(tensor.whole()).decode("latin-1")
