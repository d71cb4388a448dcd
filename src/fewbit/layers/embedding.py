"""Token embedding: rows decoded from packed tiles, the head's own when the two are tied."""

from __future__ import annotations

from dataclasses import dataclass

from fewbit.kernels.ops.recorder import Ops
from fewbit.spec.buffer import Buffer
from fewbit.spec.layout import PackedTensor


@dataclass(frozen=True, slots=True)
class Embedding:
    weight: PackedTensor

    def record(self, ops: Ops, ids: Buffer, y: Buffer, rows: Buffer) -> None:
        ops.embedding(ids, self.weight, y, rows)
