"""Interprets plans with the references that define the ops. Weights are held dequantized, [n, k] f32."""

from __future__ import annotations

from typing import Any

import numpy as np

from fewbit.kernels import storage
from fewbit.kernels.ops import REFERENCES
from fewbit.kernels.ops.plan import Plan, Step
from fewbit.kernels.selector import Selector
from fewbit.schemes.reference import dequantize
from fewbit.spec.buffer import Buffer
from fewbit.spec.cell import Platform
from fewbit.spec.dtype import F32, DType
from fewbit.spec.layout import Layout, PackedTensor
from fewbit.spec.scheme import QuantTensor, Scheme


class ReferenceBackend:
    name = "reference"
    threads = 1

    def __init__(self, platform: Platform) -> None:
        self.selector = Selector(platform, "reference")

    def empty(self, shape: tuple[int, ...], dtype: DType) -> Buffer:
        return storage.wrap(np.zeros(storage.byte_count(shape, dtype), np.uint8), shape, dtype)

    def upload(self, array: np.ndarray, dtype: DType) -> Buffer:
        buffer = self.empty(array.shape, dtype)
        storage.view(buffer)[...] = array
        return buffer

    def array(self, buffer: Buffer) -> np.ndarray:
        return storage.view(buffer)

    def layout(self, name: str, scheme: Scheme) -> Layout:
        return Layout(name, scheme, panel_n=1, block_k=1)

    def packed_bytes(self, layout: Layout, n: int, k: int) -> int:
        return 4 * n * k

    def packer(self, layout: Layout, n: int, k: int) -> DequantizingPacker:
        return DequantizingPacker(layout, self.empty((n, k), F32))

    def claim_thread(self) -> None:
        pass

    def compile(self, plan: Plan) -> Interpreter:
        return Interpreter(plan)


class DequantizingPacker:
    def __init__(self, layout: Layout, data: Buffer) -> None:
        self.layout, self.data, self.rows = layout, data, 0

    def write(self, row: int, piece: QuantTensor) -> None:
        storage.view(self.data)[row : row + piece.shape[0]] = dequantize(piece)
        self.rows += piece.shape[0]

    def finish(self) -> PackedTensor:
        n, k = self.data.shape
        if self.rows != n:
            raise ValueError(f"packed {self.rows} of {n} rows")
        return PackedTensor(self.layout, n, k, self.data)


class Interpreter:
    """Arrays are bound once; each run calls the references in order."""

    def __init__(self, plan: Plan) -> None:
        self.calls = [(REFERENCES[step.op], _bind(step)) for step in plan.steps]

    def run(self) -> None:
        for reference, args in self.calls:
            reference(**args)


def _bind(step: Step) -> dict[str, Any]:
    def bind(value: Any) -> Any:
        if isinstance(value, PackedTensor):
            value = value.data
        return storage.view(value) if isinstance(value, Buffer) else value

    return {name: bind(value) for name, value in step.args.items()}
