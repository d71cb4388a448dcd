"""Which modules of an MLX folder are quantized, and where their parts come from.

weight  u32 [N, K * bits / 32]    one bit stream along K        scales  float [N, K / group], or u8: e8m0 (mx), e4m3 (nv)
biases  float [N, K / group]      affine only: w = scale * code + bias
Experts are stacked as `switch_mlp`: every tensor has one dimension more, the first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from fewbit.formats.folder.parts import PackedRows, Part, Rows
from fewbit.formats.folder.resolve import Claim, Module, Resolved, Unquantized, split_name
from fewbit.formats.folder.safetensors import DiskTensor
from fewbit.formats.mlx.config import MlxConfig, Settings
from fewbit.spec.dtype import E2M1, E4M3, E8M0, DType, dtype
from fewbit.spec.granularity import group
from fewbit.spec.scheme import Scheme

FLOATS = ("F16", "BF16", "F32")
SIGNS = frozenset({"scales", "biases"})
STACK = "switch_mlp"


class SmallFloats(NamedTuple):
    codes: DType
    scale: DType


MODES = {"mxfp4": SmallFloats(E2M1, E8M0), "nvfp4": SmallFloats(E2M1, E4M3), "mxfp8": SmallFloats(E4M3, E8M0)}


class MlxResolver:
    signs = SIGNS

    def __init__(self, config: MlxConfig) -> None:
        self.config = config

    def split(self, name: str) -> tuple[str, str]:
        return split_name(name)

    def resolve(self, module: Module) -> Iterable[Claim]:
        overrides = self.config.overrides
        named = next((name for name in (module.name, *module.spellings) if name in overrides), None)
        settings = self.config.settings if named is None else overrides[named]
        weight = module.leaves.get("weight")
        packed = bool(SIGNS & module.leaves.keys()) or (weight is not None and not weight.is_plain)
        if settings is None:
            if packed:
                module.fail(
                    f"is packed (it has {', '.join(module.leaves)}), but {self.config.where} says false of it, so not "
                    "quantized; they contradict each other"
                )
            yield Unquantized(f"{self.config.where}, which says false of it")
        elif packed:
            said = "its own settings" if named else "the config"
            yield from packed_module(module, settings, f"{said} ({settings})")
        elif named:
            module.fail(
                f"is plain ({weight or ', '.join(module.leaves)}), but {self.config.where} gives it settings ({settings}); they "
                "contradict each other"
            )
        elif weight is not None and len(weight.shape) >= 2:
            yield Unquantized("it is stored as a plain float, without scales")


def packed_module(module: Module, settings: Settings, rule: str) -> Iterator[Claim]:
    bits, size = settings.bits, settings.group_size
    weight = module.need("weight", rule, "U32")
    if len(weight.shape) not in (2, 3) or weight.shape[-1] * 32 % bits:
        module.wrong(weight, f"a matrix (or a stack of them) of words that hold {bits}-bit codes ({rule})")
    k = weight.shape[-1] * 32 // bits
    if k % size:
        module.fail(
            f"has K={k}, no multiple of its group size {size} ({rule}); the config does not fit the tensors"
        )
    shape = (*weight.shape[:-1], k // size)
    small = MODES.get(settings.mode)
    scales = module.need("scales", rule, *(("U8",) if small else FLOATS), shape=shape)
    biases = None if small else module.need("biases", rule, *FLOATS, shape=shape)
    scheme = Scheme(
        small.codes if small else dtype(f"u{bits}"),
        group(size),
        scale=small.scale if small else scales.dtype,
        offset=biases.dtype if biases else None,
    )
    for name, index in _matrices(module, weight):
        w, s, b = (t if index is None or t is None else t.at(index) for t in (weight, scales, biases))
        assert w is not None and s is not None
        parts: dict[str, Part] = {"codes": PackedRows(w, bits, k), "scale": Rows(s)}
        if b is not None:
            parts["offset"] = Rows(b)
        yield Resolved(name, scheme, (w.shape[0], k), parts, rule)


def _matrices(module: Module, weight: DiskTensor) -> Iterator[tuple[str, int | None]]:
    """The name of each matrix and where it lies in the stack: `switch_mlp.up_proj` holds `experts.0.up_proj` and on."""
    if len(weight.shape) == 2:
        yield f"{module.name}.weight", None
        return
    parent, _, projection = module.name.rpartition(".")
    if not parent.endswith(STACK):
        module.wrong(weight, f"a matrix, since the module is no part of {STACK!r}")
    for index in range(weight.shape[0]):
        yield f"{parent.removesuffix(STACK)}experts.{index}.{projection}.weight", index
