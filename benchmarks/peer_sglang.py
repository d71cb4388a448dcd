"""SGLang's CPU linear kernels as a measured process, through the operators of an installed `sgl_kernel`, or of a library given.

usage: PEER_PYTHON peer_sglang.py THREADS [LIBRARY.so]

One JSON object a line: {"scheme", "n", "k", "rows": [..], "weight_bytes", "repeats"} is answered by {"seconds": {rows: [..]},
"error": relative error against a product in f32, "bytes": of one weight}. Weights are random, and enough of them are rotated to
exceed the caches.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import torch

GROUP = 128


class Case:
    """One scheme: random weights, packed as the peer packs them."""

    def __init__(self, scheme: str, n: int, k: int, weight_bytes: int) -> None:
        self.n, self.k = n, k
        make: Callable[[], tuple[Any, ...]] = getattr(self, f"_{scheme}")
        self.first = make()
        self.bytes = sum(part.nbytes for part in self.first if isinstance(part, torch.Tensor))
        copies = max(1, -(-weight_bytes // self.bytes))
        self.weights = [self.first, *(self._copy() for _ in range(copies - 1))]
        self.call: Callable[..., torch.Tensor] = getattr(self, f"_run_{scheme}")
        self.turn = 0

    def _copy(self) -> tuple[Any, ...]:
        return tuple(part.clone() if isinstance(part, torch.Tensor) else part for part in self.first)

    def _random(self) -> torch.Tensor:
        return torch.randn(self.n, self.k) / self.k**0.5

    def _bf16(self) -> tuple[Any, ...]:
        weight = self._random().bfloat16()
        self.exact = weight.float()
        return (OPS.convert_weight_packed(weight),)

    def _run_bf16(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return OPS.weight_packed_linear(x, weight, None, True)

    def _int8(self) -> tuple[Any, ...]:
        weight = self._random()
        scale = weight.abs().amax(1) / 127
        codes = (weight / scale[:, None]).round().clamp(-127, 127).to(torch.int8)
        self.exact = codes.float() * scale[:, None]
        return OPS.convert_weight_packed(codes), scale

    def _run_int8(self, x: torch.Tensor, weight: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        return OPS.int8_scaled_mm_with_quant(x, weight, scale, None, torch.bfloat16, True)

    def _fp8(self) -> tuple[Any, ...]:
        weight = self._random()
        blocks = weight.view(self.n // GROUP, GROUP, self.k // GROUP, GROUP)
        scale = blocks.abs().amax((1, 3)) / 448
        codes = (blocks / scale[:, None, :, None]).view(self.n, self.k).to(torch.float8_e4m3fn)
        wide = scale.repeat_interleave(GROUP, 0).repeat_interleave(GROUP, 1)
        self.exact = codes.float() * wide
        return OPS.convert_weight_packed(codes), scale

    def _run_fp8(self, x: torch.Tensor, weight: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        return OPS.fp8_scaled_mm_cpu(x, weight, scale, [GROUP, GROUP], None, torch.bfloat16, True)

    def _mxfp4(self) -> tuple[Any, ...]:
        codes = torch.randint(0, 16, (self.n, self.k), dtype=torch.uint8)
        exponent = torch.randint(118, 122, (self.n, self.k // 32), dtype=torch.uint8)
        table = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])
        self.exact = table[codes.long()] * torch.exp2(exponent.float() - 127).repeat_interleave(32, 1)
        packed = codes[:, 0::2] | (codes[:, 1::2] << 4)
        return OPS.convert_weight_packed(packed), OPS.convert_scale_packed(exponent)

    def _run_mxfp4(self, x: torch.Tensor, weight: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        return OPS.mxfp4_scaled_mm_cpu(x, weight, scale, None, True)

    def _int4(self) -> tuple[Any, ...]:
        """AWQ's storage: eight codes of a row of K in a word, in the order 0 2 4 6 1 3 5 7."""
        codes = torch.randint(0, 16, (self.k, self.n), dtype=torch.int32)
        zeros = torch.randint(6, 10, (self.k // GROUP, self.n), dtype=torch.int32)
        scales = ((torch.rand(self.k // GROUP, self.n) + 0.5) / 8 / self.k**0.5).bfloat16()
        wide = [part.repeat_interleave(GROUP, 0) for part in (zeros, scales)]
        self.exact = ((codes - wide[0]).float() * wide[1].float()).T.contiguous()

        def words(values: torch.Tensor) -> torch.Tensor:
            parts = values.view(values.shape[0], -1, 8)
            word = torch.zeros(parts.shape[:2], dtype=torch.int64)
            for place, column in enumerate((0, 2, 4, 6, 1, 3, 5, 7)):
                word |= parts[:, :, column].long() << (4 * place)
            return word.to(torch.int32)

        weight, zero, scale = OPS.convert_weight_packed_scale_zp(words(codes), words(zeros), scales, 0)
        return weight, zero, scale

    def _run_int4(
        self, x: torch.Tensor, weight: torch.Tensor, zero: torch.Tensor, scale: torch.Tensor
    ) -> torch.Tensor:
        return OPS.int4_scaled_mm_cpu(x, weight, zero, scale, None)

    def error(self) -> float:
        x = torch.randn(8, self.k).bfloat16()
        found, expected = self.call(x, *self.first).float(), x.float() @ self.exact.T
        return float((found - expected).norm() / expected.norm())

    def seconds(self, rows: int, repeats: int) -> list[float]:
        x = torch.randn(rows, self.k).bfloat16()
        times = []
        for _ in range(repeats + 1):
            weight = self.weights[self.turn % len(self.weights)]
            self.turn += 1
            start = time.perf_counter()
            self.call(x, *weight)
            times.append(time.perf_counter() - start)
        return times[1:]


def main() -> None:
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    torch.set_num_threads(int(sys.argv[1]))
    if len(sys.argv) > 2:
        torch.ops.load_library(sys.argv[2])
    else:
        import sgl_kernel  # noqa: F401
    print(json.dumps({"version": f"sgl_kernel, torch {torch.__version__}"}), file=answers)
    case: Case | None = None
    name: tuple[Any, ...] = ()
    for line in sys.stdin:
        asked = json.loads(line)
        wanted = (asked["scheme"], asked["n"], asked["k"], asked["weight_bytes"])
        if wanted != name or case is None:
            case = None  # before the next one takes its memory
            case, name = Case(*wanted), wanted
        found = {rows: case.seconds(rows, asked["repeats"]) for rows in asked["rows"]}
        print(json.dumps({"seconds": found, "error": case.error(), "bytes": case.bytes}), file=answers)


OPS = torch.ops.sgl_kernel

if __name__ == "__main__":
    main()
