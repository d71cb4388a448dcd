"""Lowers a plan to the C structs that fb_run takes. The struct's own field names say where each value comes from."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

from fewbit.kernels import storage
from fewbit.kernels.cpu import abi
from fewbit.kernels.ops.plan import Plan, Step
from fewbit.spec.buffer import Buffer
from fewbit.spec.cell import KernelRow
from fewbit.spec.layout import PackedTensor
from fewbit.spec.refusal import FewbitError

Pointer = Any  # ctypes pointer to abi.Kernel


@dataclass(slots=True)
class Lowered:
    """`steps` for fb_run. `args` and `plan` keep alive what it points into; `wants` is (struct, first byte) of workspaces."""

    steps: Any
    args: list[ctypes.Structure]
    plan: Plan
    wants: list[tuple[ctypes.Structure, int]]
    workspace_bytes: int


def lower(plan: Plan, library: ctypes.CDLL) -> Lowered:
    steps = (abi.Step * len(plan.steps))()
    structs: list[ctypes.Structure] = []
    wants: list[tuple[ctypes.Structure, int]] = []
    start = largest = 0
    for index, step in enumerate(plan.steps):
        kernel = find(step.row, library)
        struct = fill(step)
        structs.append(struct)
        overlap = step.overlap and kernel.contents.phases == 1
        steps[index] = abi.Step(kernel, ctypes.addressof(struct), int(overlap), 0)
        if kernel.contents.workspace_bytes:
            wanted = kernel.contents.workspace_bytes(ctypes.addressof(struct), step.sizes["rows_max"])
            wants.append((struct, start))
            start += -(-wanted // 64) * 64
        largest = max(largest, start)
        start = start if overlap else 0  # steps that run side by side do not share
    return Lowered(steps, structs, plan, wants, largest)


def find(row: KernelRow, library: ctypes.CDLL) -> Pointer:
    kernel = library.fb_find(row.name.encode())
    if not kernel:
        raise FewbitError(
            f"kernel {row.name} is declared but not compiled into the library; build it with FEWBIT_ISAS=all (`make setup`)"
        )
    return kernel


def fill(step: Step) -> ctypes.Structure:
    struct = abi.STRUCTS[step.op]()
    for name, *_ in struct._fields_:
        setattr(struct, name, _value(step, name))
    return struct


def _value(step: Step, field: str) -> int | float | None:
    """A pointer, a stride in elements, a number of the call, or a size that the contract bound."""
    if field in step.args:
        value = step.args[field]
        value = value.data if isinstance(value, PackedTensor) else value
        return storage.address(value) if isinstance(value, Buffer) else value
    base = field.removesuffix("_stride")
    if base in step.args:
        return step.args[base].strides[0] if step.args[base] is not None else 0
    return 0 if field in ("workspace", "reserved") else step.sizes[field]
