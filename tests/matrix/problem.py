"""A problem is one call of an op with its data; it runs on any backend, with a row given by name. Needs numpy alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fewbit.kernels.ops import CONTRACTS, REFERENCES
from fewbit.kernels.ops.plan import Plan, Step
from fewbit.schemes import SCHEMES
from fewbit.schemes.arrays import round_bf16
from fewbit.schemes.named import named
from fewbit.schemes.reference import dequantize
from fewbit.spec.cell import KernelRow
from fewbit.spec.dtype import BF16, F32, I32, DType
from fewbit.spec.scheme import QuantTensor
from tests.matrix.named import random_tensor

ELEMENTS: dict[str, DType] = {"float32": F32, "int32": I32, "uint16": BF16}
CANARY = np.float32(
    -7.25
)  # what outputs hold beforehand; rows and columns that are not asked for must keep it


@dataclass(frozen=True, slots=True)
class Problem:
    """`args` as the op's contract names them; arrays are inputs, a QuantTensor is packed for the row.

    outputs   name -> the part of it that the op defines, and what its error is measured in: |found - expected| / unit
    allowed   the largest error tolerated; 0: no other bit
    """

    case: str
    op: str
    args: Mapping[str, Any]
    outputs: Mapping[str, Any]
    allowed: float = 0.0
    defined: Mapping[str, np.ndarray] = field(default_factory=dict)

    def expected(self) -> dict[str, np.ndarray]:
        """What the op's reference gives."""
        args = {
            name: np.array(value) if isinstance(value, np.ndarray) else value
            for name, value in self.args.items()
        }
        for name, value in args.items():
            if isinstance(value, QuantTensor):
                args[name] = dequantize(value)
        REFERENCES[self.op](**args)
        return {name: args[name] for name in self.outputs}


def run(problem: Problem, row: KernelRow, backend: Any) -> dict[str, np.ndarray]:
    """The outputs of one plan of one step on a backend."""
    args = {name: _give(value, row, backend) for name, value in problem.args.items()}
    sizes = CONTRACTS[problem.op].check(args)
    backend.compile(Plan((Step(problem.op, row, args, sizes),))).run()
    return {name: backend.array(args[name]).copy() for name in problem.outputs}


def _give(value: Any, row: KernelRow, backend: Any) -> Any:
    if isinstance(value, QuantTensor):
        packer = backend.packer(backend.layout(row.layout, value.scheme), *value.shape)
        packer.write(0, value)
        return packer.finish()
    return backend.upload(value, ELEMENTS[value.dtype.name]) if isinstance(value, np.ndarray) else value


def error(problem: Problem, found: Mapping[str, np.ndarray], expected: Mapping[str, np.ndarray]) -> float:
    """The largest over all outputs, in their units; infinite where one is NaN and the other not."""
    worst = 0.0
    for name, unit in problem.outputs.items():
        a, b = found[name], expected[name]
        if problem.allowed == 0:
            same = same_bits(a, b)
            difference = np.where(same, 0.0, np.inf)
        else:
            with np.errstate(invalid="ignore", divide="ignore"):
                difference = np.abs(a.astype(np.float64) - b) / unit
            difference = np.where(same_bits(a, b), 0.0, np.nan_to_num(difference, nan=np.inf))
        difference = np.where(problem.defined.get(name, True), difference, 0.0)
        worst = max(worst, float(difference.max(initial=0.0)))
    return worst


def same_bits(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Where two arrays agree bit for bit, any NaN being equal to any NaN."""
    word = f"u{a.itemsize}"
    same = a.view(word) == b.view(word)
    return same | (np.isnan(a) & np.isnan(b)) if a.dtype.kind == "f" else same


def random_weight(row: KernelRow, n: int, k: int, rng: np.random.Generator) -> QuantTensor:
    """Codes over their whole range; scales and offsets of both signs, some of them zero."""
    scheme = row.scheme
    if row.layout == "n32parts":
        return random_tensor(named(scheme, row.scale_dtypes[k // 32 % len(row.scale_dtypes)], k), n, k, rng)
    s = SCHEMES[scheme]
    if s.is_plain:
        values = (rng.standard_normal((n, k)) * 0.05).astype(np.float32)
        codes = round_bf16(values) if scheme == "bf16" else values.astype(f"f{s.codes.bits // 8}")
        return QuantTensor(s, (n, k), {"codes": codes})
    parts, types = {}, s.part_dtypes()
    for role, shape in s.part_shapes(n, k).items():
        kind = types[role]
        if kind.is_float:
            values = rng.standard_normal(shape) * (0.01 if s.super_scale is None else 0.001)
            parts[role] = np.where(rng.random(shape) < 0.05, 0, values).astype(np.float16)
        else:
            values = rng.integers(kind.lowest, kind.highest, shape, endpoint=True)
            parts[role] = values.astype(np.int8 if kind.kind == "signed" else np.uint8)
    return QuantTensor(s, (n, k), parts)
