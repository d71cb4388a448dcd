"""Which modules of an FP-Quant folder are quantized, and where their parts come from: y = W (H^T x), run by run of x.

qweight              u8 [N, K / 2]         FP4, the even column in the low nibble
scales               u8 [N, K / 32]        e8m0 of mxfp4; [N, K / 16] e4m3 of nvfp4
weight_global_scale  f  [1]                divides               act_global_scale  f [1]   divides, of activations
dqweight             f  [N, K]             instead of these three, with pseudoquantization: divided already
forward_hadamard_matrix   f [h, h]         H: runs x of h activations become x H
backward_hadamard_matrix  f [h, h]         of gradients
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from fewbit.formats.folder.parts import PackedRows, Part, Rows
from fewbit.formats.folder.resolve import (
    Auxiliary,
    Claim,
    Explained,
    Module,
    Resolved,
    Unquantized,
    split_name,
)
from fewbit.formats.folder.safetensors import DiskTensor
from fewbit.formats.folder.scales import FLOATS, Reciprocal
from fewbit.formats.fp_quant.config import METHOD, Settings
from fewbit.schemes.arrays import Array
from fewbit.schemes.floats.table import widen
from fewbit.spec.dtype import E2M1, E4M3, E8M0, F32
from fewbit.spec.granularity import group
from fewbit.spec.layer_quant import InputQuant, LayerQuant
from fewbit.spec.scheme import Scheme

FORWARD, BACKWARD = "forward_hadamard_matrix", "backward_hadamard_matrix"
PACKED = ("qweight", "scales")
SIGNS = frozenset({*PACKED, "dqweight", "weight_global_scale", "act_global_scale", FORWARD, BACKWARD})
SCHEMES = {
    "mxfp4": Scheme(E2M1, group(32), E8M0, global_scale=F32),
    "nvfp4": Scheme(E2M1, group(16), E4M3, global_scale=F32),
}


class FpQuantResolver:
    signs = SIGNS
    notes = frozenset({BACKWARD})

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    def split(self, name: str) -> tuple[str, str]:
        return split_name(name)

    def resolve(self, module: Module) -> Iterable[Claim]:
        entry = module.rule(self.settings.rule_of)
        if entry:
            yield Unquantized(f"the entry {entry!r} of modules_to_not_convert")
        elif SIGNS & module.leaves.keys():
            yield from self._quantized(module)
        elif module.plain_weight is not None and len(module.plain_weight.shape) == 2:
            yield Unquantized("it is stored as a plain float")

    def _quantized(self, module: Module) -> Iterator[Claim]:
        settings, rule = self.settings, f"{METHOD} ({self.settings.element})"
        scheme, shape, parts = self._plain(module, rule) if settings.plain else self._packed(module, rule)
        if shape[1] % settings.rotated:
            module.fail(f"has K={shape[1]}, no multiple of hadamard_group_size {settings.rotated}")
        square = (settings.rotated, settings.rotated)
        backward = module.get(BACKWARD, *FLOATS, shape=square)
        if backward is not None:
            yield Explained(backward, "the rotation of gradients")
        if settings.plain and (unused := module.get("weight_global_scale", *FLOATS, shape=(1,))) is not None:
            yield Explained(unused, "the stored weights are divided by it already")
        matrix = module.need(FORWARD, rule, *FLOATS, shape=square)
        if np.array_equal(widen(matrix.whole(), matrix.dtype), np.eye(settings.rotated)):
            yield Explained(matrix, "the identity")
            rotation = ""
        else:
            rotation = matrix.name
            yield Auxiliary(rotation, F32, matrix.shape, Transposed(matrix))
        overall = module.need("act_global_scale", rule, *FLOATS, shape=(1,))
        yield Auxiliary(overall.name, F32, (1,), Reciprocal(overall))
        powers = SCHEMES[settings.element].scale
        inputs = InputQuant(E2M1, group(settings.group), global_scale=overall.name, scale_dtype=powers)
        layer = LayerQuant(inputs, pre_rotation=rotation)
        yield Resolved(f"{module.name}.weight", scheme, shape, parts, rule, layer)

    def _packed(self, module: Module, rule: str) -> tuple[Scheme, tuple[int, int], dict[str, Part]]:
        qweight = module.need("qweight", rule, "U8")
        if len(qweight.shape) != 2 or qweight.shape[1] * 2 % self.settings.group:
            module.wrong(qweight, f"a matrix of pairs of FP4 codes in groups of {self.settings.group}")
        n, k = qweight.shape[0], qweight.shape[1] * 2
        scales = module.need("scales", rule, "U8", shape=(n, k // self.settings.group))
        overall = module.need("weight_global_scale", rule, *FLOATS, shape=(1,))
        parts: dict[str, Part] = {
            "codes": PackedRows(qweight, 4, k), "scale": Rows(scales), "global_scale": Reciprocal(overall),
        }  # fmt: skip
        return SCHEMES[self.settings.element], (n, k), parts

    def _plain(self, module: Module, rule: str) -> tuple[Scheme, tuple[int, int], dict[str, Part]]:
        weight = module.need("dqweight", f"{rule}, pseudoquantization", *FLOATS)
        if len(weight.shape) != 2:
            module.wrong(weight, "a matrix")
        return Scheme(weight.dtype), (weight.shape[0], weight.shape[1]), {"codes": Rows(weight)}


@dataclass(frozen=True, slots=True)
class Transposed:
    """f32 of a stored rotation whose rows become columns: of x H as of a matrix before x."""

    tensor: DiskTensor

    @property
    def tensors(self) -> tuple[DiskTensor, ...]:
        return (self.tensor,)

    def read(self, start: int, stop: int) -> Array:
        return np.ascontiguousarray(widen(self.tensor.whole(), self.tensor.dtype).T)
