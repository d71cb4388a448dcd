"""What the readers of weights give."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fewbit.formats.folder.parts import Part
from fewbit.formats.folder.resolve import Explained
from fewbit.spec.scheme import Scheme


@dataclass(frozen=True, slots=True)
class Found:
    """`explained`: offsets that are 0, and what only other libraries' kernels need."""

    scheme: Scheme
    shape: tuple[int, int]
    parts: Mapping[str, Part]
    explained: tuple[Explained, ...] = ()
