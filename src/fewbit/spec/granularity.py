"""Which elements of a weight or activation share one scale."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Sharing = Literal["none", "tensor", "channel", "token", "group", "block"]


@dataclass(frozen=True, slots=True)
class Granularity:
    """`group` is a 1-D run of `k` elements along K; `block` a 2-D tile of n x k; `channel` one row of the weight."""

    sharing: Sharing
    n: int = 0
    k: int = 0

    def __post_init__(self) -> None:
        if self.sharing == "group" and self.k <= 0:
            raise ValueError(f"group granularity needs a positive length along K, got {self.k}")
        if self.sharing == "block" and (self.n <= 0 or self.k <= 0):
            raise ValueError(f"block granularity needs positive n and k, got {self.n}x{self.k}")

    def __str__(self) -> str:
        match self.sharing:
            case "none":
                return ""
            case "group":
                return f"g{self.k}"
            case "block":
                return f"b{self.n}x{self.k}"
            case _:
                return self.sharing

    def scale_shape(self, n: int, k: int) -> tuple[int, ...]:
        """Shape of the scale part for a weight of n rows and k columns; a partial last block counts as one."""
        match self.sharing:
            case "none":
                return ()
            case "tensor":
                return (1,)
            case "channel" | "token":
                return (n, 1)
            case "group":
                return (n, -(-k // self.k))
            case _:
                return (-(-n // self.n), -(-k // self.k))


NONE = Granularity("none")
TENSOR = Granularity("tensor")
CHANNEL = Granularity("channel")
TOKEN = Granularity("token")


def group(k: int) -> Granularity:
    return Granularity("group", k=k)


def block(n: int, k: int) -> Granularity:
    return Granularity("block", n=n, k=k)
