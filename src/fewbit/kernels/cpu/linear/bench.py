"""Times linear rows: the matrices of SmolLM2-135M as one decode plan, and products of many rows.

python -m fewbit.kernels.cpu.linear.bench [--threads 2] [--isa avx2] [--decode M] [--rows 1,2,8,512] [--shape 1536x576]
    [--schemes u4g32o,i8g32]
"""

from __future__ import annotations

import argparse
import ctypes
import statistics
import time

import numpy as np

from fewbit.kernels.cpu import abi, library
from fewbit.kernels.cpu.memory import allocate
from fewbit.kernels.cpu.pool import Pool

# bits of a weight in its packed block, scales included
BLOCK_BYTES = {
    "f32": 4096, "f16": 2048, "bf16": 2048, "i4g32": 576, "u4g32o": 640, "i5g32": 704, "u5g32o": 768, "i8g32": 1088,
    "u2g16ot": 3200, "i3g16t": 3648, "u4g32ot": 4736, "u5g32ot": 5760, "i6g16t": 6720,
}  # fmt: skip
LAYERS = [(960, 576), (576, 576), (3072, 576), (576, 1536)]  # qkv merged, out, gate and up merged, down
HEAD = (49152, 576)


def layout_of(scheme: str) -> str:
    return "n32k256" if scheme.endswith("t") else "n32k32"


def random_weight(scheme: str, n: int, k: int) -> np.ndarray:
    """Random bytes whose 16-bit words are small normal floats when read as scales; the timing does not look at values."""
    blocks = -(-n // 32) * -(-k // (256 if scheme.endswith("t") else 32))
    weight = allocate(blocks * BLOCK_BYTES[scheme])
    weight[:] = np.random.default_rng(0).integers(0, 256, weight.size, np.uint8)
    words = weight.view(np.uint16)
    words &= 0x2FFF
    if scheme in ("bf16", "f32"):  # read so, such words would be subnormals, which take an assist each
        words[1 if scheme == "f32" else 0 :: 2 if scheme == "f32" else 1] |= 0x3000
    return weight


class Timer:
    """Plans of linear steps; each call runs a plan once."""

    def __init__(self, pool: Pool, isa: str) -> None:
        self.pool, self.isa, self.lib = pool, isa, library.load()
        self.alive: list[object] = []

    def step(self, scheme: str, n: int, k: int, m: int, activation: str = "f32") -> abi.Step:
        name = f"linear_{scheme}_{activation}_{layout_of(scheme)}_{self.isa}"
        kernel = self.lib.fb_find(name.encode())
        if not kernel:
            raise SystemExit(f"{name} is not compiled into the library")
        x = np.random.default_rng(1).standard_normal((m, k), np.float32)
        y, rows, weight = np.zeros((m, n), np.float32), np.array([m], np.int32), random_weight(scheme, n, k)
        struct = abi.STRUCTS["linear"]()
        struct.x, struct.x_stride, struct.y, struct.y_stride = x.ctypes.data, k, y.ctypes.data, n
        struct.weight, struct.rows, struct.n, struct.k = weight.ctypes.data, rows.ctypes.data, n, k
        if kernel.contents.workspace_bytes:
            space = allocate(kernel.contents.workspace_bytes(ctypes.addressof(struct), m))
            struct.workspace = space.ctypes.data
            self.alive.append(space)
        self.alive += [x, y, rows, weight, struct]
        return abi.Step(kernel, ctypes.addressof(struct), 0, 0)

    def median_s(self, steps: list[abi.Step], repeats: int) -> float:
        plan = (abi.Step * len(steps))(*steps)
        times = []
        for _ in range(repeats + 2):
            start = time.perf_counter()
            self.lib.fb_run(self.pool.handle, plan, len(steps))
            times.append(time.perf_counter() - start)
        return statistics.median(times[2:])


def decode(timer: Timer, m: int, repeats: int) -> None:
    """All matrices of the demo model in one plan: 30 layers of u4g32o and the i8g32 head."""
    layers = [timer.step("u4g32o", n, k, m) for _ in range(30) for n, k in LAYERS]
    head = [timer.step("i8g32", *HEAD, m)]
    parts = {"layers": layers, "head": head, "both": layers + head}
    print(
        f"SmolLM2-135M M={m}: "
        + ", ".join(f"{k} {timer.median_s(v, repeats) * 1e3:.2f} ms" for k, v in parts.items())
    )


def products(
    timer: Timer, schemes: list[str], shape: tuple[int, int], row_counts: list[int], repeats: int
) -> None:
    n, k = shape
    for scheme in schemes:
        size = -(-k // 256) * 256 if scheme.endswith("t") else k
        cells = []
        for m in row_counts:
            seconds = timer.median_s([timer.step(scheme, n, size, m)], repeats)
            cells.append(f"M={m}: {seconds * 1e6:.0f} us {2e-9 * m * n * size / seconds:.0f} GFLOP/s")
        print(f"{scheme} {n}x{size}  " + "  ".join(cells))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--threads", type=int, default=None)
    parser.add_argument("--isa", default="avx2")
    parser.add_argument("--decode", type=int, metavar="M", help="time the whole model at M rows")
    parser.add_argument("--rows", default="1,2,4,8,32,512")
    parser.add_argument("--shape", default="1536x576")
    parser.add_argument("--schemes", default="u4g32o,i8g32")
    parser.add_argument("--repeats", type=int, default=15)
    args = parser.parse_args()
    timer = Timer(Pool(args.threads), args.isa)
    if args.decode:
        decode(timer, args.decode, args.repeats)
        return
    n, k = map(int, args.shape.split("x"))
    rows = [int(m) for m in args.rows.split(",")]
    schemes = list(BLOCK_BYTES) if args.schemes == "all" else args.schemes.split(",")
    products(timer, schemes, (n, k), rows, args.repeats)


if __name__ == "__main__":
    main()
