"""Runs a row on all cases of its op and compares: with the op's reference, and with the bits that the row promises."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fewbit import layouts
from fewbit.kernels.cpu.lower import find
from fewbit.kernels.cpu.packer import PiecePacker
from fewbit.layouts.n32k32.reference import pack as pack_reference
from fewbit.layouts.n32parts.reference import pack as pack_apart
from fewbit.spec.cell import KernelRow
from tests.matrix.cases import CASES
from tests.matrix.problem import Problem, error, run, same_bits


@dataclass(frozen=True, slots=True)
class Result:
    """`fault` is one sentence, or empty."""

    case: str
    error: float
    allowed: float
    fault: str = ""


def results(row: KernelRow, rows: Iterable[KernelRow], backend: Any) -> Iterator[Result]:
    """One for each case. KeyError when the op has no cases."""
    base = base_of(row, rows)
    for problem in CASES[row.op](row):
        yield (
            _pack_result(problem, row, backend) if row.op == "pack" else _result(problem, row, base, backend)
        )


def base_of(row: KernelRow, rows: Iterable[KernelRow]) -> KernelRow | None:
    """The row whose bits this one must have: the one of its result class that needs least of a machine."""
    if row.exactness != "bitwise":
        return None
    peers = [r for r in rows if (r.op, r.scheme, r.layout) == (row.op, row.scheme, row.layout)]
    peers = [
        r
        for r in peers
        if r.result_class == row.result_class and r.backend == row.backend and r.exactness == "bitwise"
    ]
    base = min(peers, key=lambda r: (len(r.requires), bool(r.emulates), r.name))
    return None if base.name == row.name else base


def _result(problem: Problem, row: KernelRow, base: KernelRow | None, backend: Any) -> Result:
    found = run(problem, row, backend)
    off = error(problem, found, problem.expected())
    fault = "" if off <= problem.allowed else f"error {off:.3g}, allowed {problem.allowed:.3g}"
    if base and not fault and _takes(base, problem):
        fault = _first_difference(problem, found, run(problem, base, backend), base.name)
    if row.result_class and not fault and "rows" in problem.args and int(problem.args["rows"][0]) > 1:
        fault = _alone(problem, row, backend, found)
    return Result(problem.case, off, problem.allowed, fault)


def _takes(row: KernelRow, problem: Problem) -> bool:
    """Whether the row, too, norms as many rows as the problem has, if it has a norm."""
    return problem.args.get("norm") is None or int(problem.args["rows"][0]) <= row.norm_rows


def _alone(problem: Problem, row: KernelRow, backend: Any, found: dict[str, np.ndarray]) -> str:
    """The first activations alone, or as few as the row serves, give the bits that they gave among the others."""
    few = row.m_range[0]
    if few >= int(problem.args["rows"][0]):
        return ""
    fewer = replace(problem, args=problem.args | {"rows": np.array([few], np.int32)})
    alone = run(fewer, row, backend)
    per_row = [name for name in found if found[name].shape[0] == _capacity(problem)]
    first = {name: found[name][:few] for name in per_row}
    defined = {name: mask[:few] for name, mask in problem.defined.items()}
    cut = replace(problem, outputs=dict.fromkeys(per_row, 1.0), defined=defined)
    return _first_difference(
        cut, first, {name: alone[name][:few] for name in per_row}, f"itself at {few} rows"
    )


def _capacity(problem: Problem) -> int:
    """Rows of the buffers that have one for each row of activations (a cache does not)."""
    name = {"kv_store": "k", "attention": "q", "sample": "ids"}.get(problem.op, "y")
    return len(problem.args.get(name, problem.args.get("x", problem.args.get("cos"))))  # type: ignore[arg-type]


def _first_difference(
    problem: Problem, found: dict[str, np.ndarray], other: dict[str, np.ndarray], name: str
) -> str:
    for output in problem.outputs:
        differs = ~same_bits(found[output], other[output]) & problem.defined.get(output, True)
        if differs.any():
            at = tuple(int(i) for i in np.argwhere(differs)[0])
            return f"{output}{list(at)} is {found[output][at]!r}, but {other[output][at]!r} of {name}"
    return ""


def _pack_result(problem: Problem, row: KernelRow, backend: Any) -> Result:
    weight = problem.args["weight"]
    layout = layouts.layout(row.layout, weight.scheme)
    packer = PiecePacker(backend, layout, *weight.shape)
    packer.run = find(row, backend.library).contents.run
    packer.write(0, weight)
    found, expected = (
        packer.finish().data.handle,
        (pack_apart if row.layout == "n32parts" else pack_reference)(weight, layout),
    )
    wrong = np.flatnonzero(found != expected)
    fault = f"byte {wrong[0]} is {found[wrong[0]]}, expected {expected[wrong[0]]}" if wrong.size else ""
    return Result(problem.case, float(wrong.size > 0), 0.0, fault)
