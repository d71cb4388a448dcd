"""What bounds a matrix product: the bytes of its weight, its operations, and the barriers of its kernel."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from fewbit.kernels.cpu import roofs as probes
from fewbit.registry.grammar import parse_name
from fewbit.spec.cell import KernelRow

Term = Literal["memory", "compute", "overhead"]
UNITS = {"GB/s": 1e9, "GFLOP/s": 1e9, "GOP/s": 1e9, "TFLOP/s": 1e12, "TOP/s": 1e12, "µs": 1e-6}


@dataclass(frozen=True, slots=True)
class Roofs:
    """In bytes/s, operations/s and seconds. A multiply-add is two operations."""

    read: float
    barrier: float
    peaks: Mapping[str, float]

    def peak(self, row: KernelRow) -> tuple[str, float]:
        """Name and operations/s of the unit that a row computes on: tiles with operands from L1, or vectors."""
        isa, eight = parse_name(row.name).isa, row.activation.startswith("i8")
        name = probes.DOT if eight else probes.FMA
        if isa == "amx":
            name = "amx int8 from L1" if eight else "amx bf16 from L1"
        if name not in self.peaks or isa == "scalar":  # a machine without vectors has this one alone
            name = probes.FMA
        return name, self.peaks[name]


def measure(provides: frozenset[str], probe: probes.Probes) -> Roofs:
    found = {roof.name: roof.value * UNITS[roof.unit] for roof in probes.measure(provides, probe)}
    read, barrier = found.pop(probes.READ), found.pop(probes.BARRIER)
    return Roofs(read, barrier, found)


def mean(measured: Iterable[Roofs]) -> Roofs:
    """Of those measured before and after."""
    every = tuple(measured)
    peaks = {name: sum(one.peaks[name] for one in every) / len(every) for name in every[0].peaks}
    read, barrier = (sum(getattr(one, field) for one in every) / len(every) for field in ("read", "barrier"))
    return Roofs(read, barrier, peaks)


@dataclass(frozen=True, slots=True)
class Bound:
    """The least seconds that a product could take, and which of the three it is that takes them."""

    seconds: float
    term: Term


def bound(weight_bytes: int, operations: int, phases: int, roofs: Roofs, peak: float) -> Bound:
    """The weight is read once from memory; activations and results are taken to stay in the caches."""
    terms: dict[Term, float] = {
        "memory": weight_bytes / roofs.read,
        "compute": operations / peak,
        "overhead": phases * roofs.barrier,
    }
    term = max(terms, key=lambda name: terms[name])
    return Bound(terms[term], term)
