"""Times attention rows on shapes of real models: python -m fewbit.kernels.cpu.attention.bench [--threads N] [--rows NAME ...]

Prints, per shape and row, the median of interleaved runs, the arithmetic rate, and the bandwidth of keys and values. Every
answer is compared with the reference first. Keys and values rotate over `layers` caches, so that a decode step finds them where
a real one does.
"""

from __future__ import annotations

import argparse
import ctypes
import statistics
import time
from typing import Any

import numpy as np

from fewbit.kernels.cpu import abi, library
from fewbit.kernels.cpu.memory import allocate
from fewbit.kernels.ops import attention as op
from fewbit.registry.table import load_rows

PAGE = abi.PAGE_TOKENS
SHAPES = {  # name: query tokens, tokens visible, sequences, heads, kv_heads, head_dim, layers
    "smollm2-135m prefill 512": (512, 512, 1, 9, 3, 64, 4),
    "smollm2-135m decode 512": (1, 512, 1, 9, 3, 64, 30),
    "smollm2-135m decode 4096": (1, 4096, 1, 9, 3, 64, 30),
    "smollm2-135m decode 8 x 1024": (1, 1024, 8, 9, 3, 64, 30),
    "llama-8b prefill 512": (512, 512, 1, 32, 8, 128, 1),
    "llama-8b decode 4096": (1, 4096, 1, 32, 8, 128, 8),
}


def make_layer(shape: tuple[int, ...], seed: int) -> dict[str, Any]:
    n, tokens, seqs, heads, kv_heads, head_dim, _ = shape
    rng = np.random.default_rng(seed)
    pages = -(-tokens // PAGE)
    cache = []
    for _ in range(2):
        numbers = rng.standard_normal((seqs * pages + 1, PAGE * kv_heads * head_dim), np.float32)
        cache.append(
            allocate(numbers.size * 2).view(np.uint16).reshape(numbers.shape)
        )  # huge pages, as when serving
        cache[-1][...] = numbers.view(np.uint32) >> 16
    return {
        "q": rng.standard_normal((n * seqs, heads * head_dim), np.float32),
        "k_cache": cache[0],
        "v_cache": cache[1],
        "page_table": (1 + rng.permutation(seqs * pages)).astype(np.int32).reshape(seqs, pages),
        "seqs": np.array([seqs], np.int32),
        "q_start": np.arange(seqs + 1, dtype=np.int32) * n,
        "kv_len": np.full(seqs, tokens, np.int32),
        "out": np.zeros((n * seqs, heads * head_dim), np.float32),
        "heads": heads,
        "kv_heads": kv_heads,
        "head_dim": head_dim,
        "max_kv_len": tokens,
        "scale": head_dim**-0.5,
        "window": 0,
    }


def make_struct(layer: dict[str, Any]) -> Any:
    struct = abi.STRUCTS["attention"]()
    for name, value in layer.items():
        setattr(struct, name, value.ctypes.data if isinstance(value, np.ndarray) else value)
    for name in ("q", "out", "page_table"):
        setattr(struct, f"{name}_stride", layer[name].shape[1])
    struct.max_seqs = len(layer["kv_len"])
    return struct


class Timed:
    """One row over all layers of a shape, as one plan."""

    def __init__(self, name: str, layers: list[dict[str, Any]], pool: Any) -> None:
        self.library, self.pool, self.count = library.load(), pool, len(layers)
        kernel = self.library.fb_find(name.encode())
        self.structs = [make_struct(layer) for layer in layers]
        workspace = kernel.contents.workspace_bytes(ctypes.addressof(self.structs[0]), len(layers[0]["q"]))
        self.workspace = np.zeros(workspace, np.uint8)
        for struct in self.structs:
            struct.workspace = self.workspace.ctypes.data
        self.steps = (abi.Step * self.count)(
            *(abi.Step(kernel, ctypes.addressof(s), 0, 0) for s in self.structs)
        )
        self.seconds: list[float] = []

    def run(self) -> None:
        start = time.perf_counter()
        self.library.fb_run(self.pool, self.steps, self.count)
        self.seconds.append((time.perf_counter() - start) / self.count)


def check(layer: dict[str, Any], bound: float, name: str) -> None:
    expected = np.zeros_like(layer["out"])
    op.reference(**{**layer, "out": expected})
    error = float(np.abs(layer["out"] - expected).max())
    if not error <= bound:
        raise SystemExit(f"{name} is wrong: largest error {error:.3g}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument(
        "--rows", nargs="*", help="default: every row that this machine can run, but scalar ones"
    )
    options = parser.parse_args()
    features = library.cpu_features()
    rows = [r for r in load_rows() if r.op == "attention" and r.backend == "cpu" and r.requires <= features]
    rows = [r for r in rows if (r.name in options.rows if options.rows else r.requires)]
    pool = library.load().fb_pool_create(options.threads, None)
    print(f"{options.threads} threads, median of {options.repeats} interleaved runs")
    for shape_name, shape in SHAPES.items():
        n, tokens, seqs, heads, kv_heads, head_dim, layer_count = shape
        layers = [make_layer(shape, seed) for seed in range(layer_count)]
        timed = {row.name: Timed(row.name, layers, pool) for row in rows}
        for row in rows:
            timed[row.name].run()
            check(layers[0], 1e-4 if row.activation == "f32" else 0.05, row.name)
        for _ in range(options.repeats):
            for runner in timed.values():
                runner.run()
        flop = 4 * head_dim * heads * seqs * sum(tokens - n + i + 1 for i in range(n))
        cache_bytes = 4 * seqs * tokens * kv_heads * head_dim
        for name, runner in timed.items():
            seconds = statistics.median(runner.seconds[1:])
            print(
                f"{shape_name:30} {name:42} {seconds * 1e6:9.1f} us/layer {flop / seconds / 1e9:7.1f} GFLOP/s {cache_bytes / seconds / 1e9:6.1f} GB/s"
            )


if __name__ == "__main__":
    main()
