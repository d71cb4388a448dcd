"""A contract is one line of text that says what an op takes: names, types and shapes over shared symbols.

    "x:f32[rows_max,k] weight:packed[n,k] bias:f32[n]? y:f32[rows_max,n] rows:i32[1] accumulate:int"

`?` marks an argument that may be None. An extent is a product, quotient or sum of symbols and integers; a symbol is bound by the
first extent that is nothing else, or by the `int` argument of that name. The last axis of a buffer is always contiguous.
`cache` is a float buffer of whatever type the key/value cache has.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fewbit.spec.buffer import Buffer
from fewbit.spec.layout import PackedTensor

_ARG = re.compile(r"(\w+):(\w+)(?:\[([^\]]*)\])?(\??)")


class ContractError(ValueError):
    """An op was given arguments that its contract excludes: a fault of the caller, not of the user."""


@dataclass(frozen=True, slots=True)
class Arg:
    name: str
    kind: str
    extents: tuple[str, ...]
    optional: bool


@dataclass(frozen=True, slots=True)
class Contract:
    op: str
    text: str
    args: tuple[Arg, ...]

    def check(self, values: Mapping[str, Any]) -> dict[str, int]:
        """The sizes bound to the symbols; ContractError naming argument, expected and found."""
        names = [arg.name for arg in self.args]
        if set(values) != set(names):
            raise ContractError(f"{self.op}: takes {', '.join(names)}; got {', '.join(values)}")
        for arg in self.args:
            if values[arg.name] is None and not arg.optional:
                raise ContractError(
                    f"{self.op}: {arg.name} must be {arg.kind}[{', '.join(arg.extents)}], got None"
                )
        sizes = {arg.name: values[arg.name] for arg in self.args if arg.kind == "int"}
        present = [arg for arg in self.args if values[arg.name] is not None]
        for arg in (
            present
        ):  # plain symbols first, so that expressions may stand before the argument that binds them
            for extent, found in zip(arg.extents, shape_of(values[arg.name]), strict=False):
                if extent.isidentifier():
                    sizes.setdefault(extent, found)
        for arg in present:
            self._check_arg(arg, values[arg.name], sizes)
        return sizes

    def _check_arg(self, arg: Arg, value: Any, sizes: Mapping[str, int]) -> None:
        expected = tuple(evaluate(extent, sizes) for extent in arg.extents)
        want = f"{arg.kind}[{', '.join(arg.extents)}] = {list(expected)}"
        match arg.kind:
            case "int":
                right = isinstance(value, int)
            case "float":
                right = isinstance(value, (int, float))
            case "packed":
                right = isinstance(value, PackedTensor) and shape_of(value) == expected
            case _:
                right = isinstance(value, Buffer) and value.shape == expected and value.strides[-1] == 1
                right = right and (
                    value.dtype.is_float if arg.kind == "cache" else value.dtype.name == arg.kind
                )
        if not right:
            found = f"{value.dtype}{list(value.shape)}" if isinstance(value, Buffer) else value
            found = f"{value.layout.scheme}{[value.n, value.k]}" if isinstance(value, PackedTensor) else found
            raise ContractError(f"{self.op}: {arg.name} must be {want}, got {found}")


def shape_of(value: Any) -> tuple[int, ...]:
    if isinstance(value, Buffer):
        return value.shape
    return (value.n, value.k) if isinstance(value, PackedTensor) else ()


def parse(op: str, text: str) -> Contract:
    args = []
    for word in text.split():
        match = _ARG.fullmatch(word)
        if not match:
            raise ValueError(f"contract of {op}: cannot read {word!r}")
        name, kind, extents, optional = match.groups()
        args.append(Arg(name, kind, tuple(extents.split(",")) if extents else (), bool(optional)))
    return Contract(op, text, tuple(args))


def evaluate(extent: str, sizes: Mapping[str, int]) -> int:
    """`a*b/c+d`, from left to right within a term."""
    total = 0
    for term in extent.split("+"):
        value = 1
        for sign, factor in re.findall(r"([*/]?)(\w+)", term):
            size = int(factor) if factor.isdigit() else sizes[factor]
            value = value // size if sign == "/" else value * size
        total += value
    return total
