"""A backend allocates buffers, packs weights and runs plans. Models and layers know it by this protocol alone."""

from __future__ import annotations

from typing import Any, Protocol

from fewbit.kernels.ops.plan import Plan
from fewbit.kernels.selector import Selector
from fewbit.spec.buffer import Buffer
from fewbit.spec.cell import Platform
from fewbit.spec.dtype import DType
from fewbit.spec.layout import Layout, PackedTensor
from fewbit.spec.scheme import QuantTensor, Scheme


class Runnable(Protocol):
    """A compiled plan: each call runs it on what its buffers hold at that moment."""

    def run(self) -> None: ...


class Packer(Protocol):
    """Takes a weight in pieces of rows, each from and to a multiple of the layout's panel (or the last row), in any order and
    from several threads, so that no whole copy exists. `finish` refuses a weight with rows missing."""

    def write(self, row: int, piece: QuantTensor) -> None: ...
    def finish(self) -> PackedTensor: ...


class Backend(Protocol):
    """`threads`: how many are worth having for work beside plans, such as packing."""

    name: str
    selector: Selector
    threads: int

    def empty(self, shape: tuple[int, ...], dtype: DType) -> Buffer: ...
    def upload(self, array: Any, dtype: DType) -> Buffer: ...
    def array(self, buffer: Buffer) -> Any: ...
    def layout(self, name: str, scheme: Scheme) -> Layout: ...
    def packed_bytes(self, layout: Layout, n: int, k: int) -> int: ...
    def packer(self, layout: Layout, n: int, k: int) -> Packer: ...
    def claim_thread(self) -> None: ...  # the calling thread will run plans and little else
    def compile(self, plan: Plan) -> Runnable: ...


def open_backend(name: str, platform: Platform, threads: int | None = None) -> Backend:
    """`auto` or `cpu`: the C++ kernels. `reference`: numpy, slow, to be compared with."""
    match name:
        case "auto" | "cpu":
            from fewbit.kernels.cpu.backend import CpuBackend

            return CpuBackend(platform, threads)
        case "reference":
            from fewbit.kernels.reference.backend import ReferenceBackend

            return ReferenceBackend(platform)
        case _:
            raise ValueError(f"unknown backend {name!r}; known: auto, cpu, reference")
