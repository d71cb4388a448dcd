"""Times every linear row that this machine can run, of all activation types, side by side.

    python -m fewbit.kernels.cpu.linear_i8.bench [--threads 16] [--shapes smollm2,llama] [--m 1,8,32,512] [--schemes u4g32o,i8g32]
        [--only avx2] [--rotate-mib 1536] [--repeats 9]

Needs the library and numpy alone. Runs of the rows are interleaved, and the median is printed: ms, GFLOP/s, and GB/s of packed
weights. One plan holds several copies of the weight, so that together they exceed the last cache (--rotate-mib): a decode step
reads each weight from memory.
"""

from __future__ import annotations

import argparse
import ctypes
import re
import statistics
import time

import numpy as np

from fewbit.kernels.cpu import abi, library
from fewbit.kernels.cpu.linear.bench import BLOCK_BYTES, random_weight
from fewbit.kernels.cpu.memory import allocate
from fewbit.kernels.cpu.pool import Pool
from fewbit.registry.table import load_rows
from fewbit.spec.cell import KernelRow

SHAPES = {"smollm2": [(3072, 576), (576, 1536)], "llama": [(14336, 4096)]}


class Case:
    """One row, one shape, one M: a plan over all copies of the weight."""

    def __init__(self, row: KernelRow, weights: list[np.ndarray], n: int, k: int, m: int) -> None:
        self.name, self.library = row.name, library.load()
        kernel = self.library.fb_find(row.name.encode())
        self.x = np.random.default_rng(1).standard_normal((m, k), np.float32)
        self.y, self.rows = np.zeros((m, n), np.float32), np.array([m], np.int32)
        self.weights, self.structs = weights, []
        for weight in weights:
            struct = abi.STRUCTS["linear"]()
            struct.x, struct.x_stride, struct.y, struct.y_stride = (
                self.x.ctypes.data,
                k,
                self.y.ctypes.data,
                n,
            )
            struct.weight, struct.rows, struct.n, struct.k = weight.ctypes.data, self.rows.ctypes.data, n, k
            self.structs.append(struct)
        if kernel.contents.workspace_bytes:
            self.workspace = allocate(kernel.contents.workspace_bytes(ctypes.addressof(self.structs[0]), m))
            for struct in self.structs:
                struct.workspace = self.workspace.ctypes.data
        self.plan = (abi.Step * len(weights))(
            *(abi.Step(kernel, ctypes.addressof(s), 0, 0) for s in self.structs)
        )
        self.seconds: list[float] = []

    def run(self, pool: Pool) -> None:
        start = time.perf_counter()
        self.library.fb_run(pool.handle, self.plan, len(self.structs))
        self.seconds.append((time.perf_counter() - start) / len(self.structs))


def compare(
    rows: list[KernelRow], scheme: str, n: int, k: int, m: int, pool: Pool, options: argparse.Namespace
) -> None:
    k = -(-k // 256) * 256 if scheme.endswith("t") else k
    weight_bytes = -(-n // 32) * -(-k // (256 if scheme.endswith("t") else 32)) * BLOCK_BYTES[scheme]
    copies = max(1, -(-options.rotate_mib * 2**20 // weight_bytes)) if m <= options.rotate_up_to else 1
    weights = [random_weight(scheme, n, k) for _ in range(copies)]
    cases = [Case(row, weights, n, k, m) for row in rows if row.scheme == scheme]
    for repeat in range(options.repeats + 1):
        for case in cases:
            case.run(pool)
            if repeat == 0:
                case.seconds.clear()  # warm-up
    for case in cases:
        seconds = statistics.median(case.seconds)
        rate, bandwidth = 2e-9 * m * n * k / seconds, weight_bytes / seconds / 1e9
        print(
            f"{case.name:46} {n:6}x{k:<6} M={m:<4} {seconds * 1e3:9.3f} ms {rate:8.1f} GFLOP/s {bandwidth:6.1f} GB/s",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--threads", type=int, default=None)
    parser.add_argument("--shapes", default="smollm2,llama")
    parser.add_argument("--m", default="1,4,8,16,32,128,512")
    parser.add_argument("--schemes", default="i4g32,u4g32o,i8g32,u4g32ot,i6g16t")
    parser.add_argument("--only", default="", help="regular expression that row names must hold")
    parser.add_argument("--rotate-mib", type=int, default=64)
    parser.add_argument("--rotate-up-to", type=int, default=32, help="largest M whose weights rotate")
    parser.add_argument("--repeats", type=int, default=9)
    options = parser.parse_args()
    features, compiled = library.cpu_features(), set(library.row_names())
    rows = [
        r
        for r in load_rows()
        if r.op == "linear"
        and r.layout != "n32parts"
        and r.requires
        and r.requires <= features
        and r.name in compiled
    ]
    rows = [r for r in rows if re.search(options.only, r.name)]
    pool = Pool(options.threads)
    for name in options.shapes.split(","):
        for n, k in SHAPES[name]:
            for scheme in options.schemes.split(","):
                for m in map(int, options.m.split(",")):
                    compare(rows, scheme, n, k, m, pool, options)


if __name__ == "__main__":
    main()
