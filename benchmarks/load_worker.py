"""Loads a checkpoint from the page cache in a process of its own: `python -m benchmarks.load_worker PATH THREADS ROUNDS`.

Answers one JSON object. Where a scheme has no kernel, the same pieces are decoded on the same threads and not packed.
"""

from __future__ import annotations

import hashlib
import json
import sys
import threading
import time
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.load_cases import CHECKED, CHECKED_ROWS
from fewbit import layouts
from fewbit.formats import open_checkpoint
from fewbit.formats.checkpoint import Checkpoint
from fewbit.kernels import storage
from fewbit.kernels.backend import Backend, open_backend
from fewbit.kernels.cpu import library
from fewbit.layers.method import Block
from fewbit.layers.spec import TensorSpec
from fewbit.layouts.n32k32.reference import unpack
from fewbit.layouts.n32parts import layout as n32parts
from fewbit.layouts.n32parts import reference as n32parts_reference
from fewbit.loader import LoadedModel, load_model, prepare
from fewbit.loader.pieces import MOST_THREADS, cut, piece_bytes
from fewbit.loader.workers import each_done
from fewbit.platforms.linux.heap import keeping_freed_memory
from fewbit.platforms.x86.detect import detect
from fewbit.spec.cell import Choice
from fewbit.spec.refusal import RefusedError
from fewbit.spec.scheme import QuantTensor

SAMPLE_S = 0.002


class PeakAnon:
    """The largest anonymous memory of this process above what it had on entering, in bytes."""

    def __enter__(self) -> PeakAnon:
        self.before = self.peak = anonymous_bytes()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def _watch(self) -> None:
        while not self._ended.wait(SAMPLE_S):
            self.peak = max(self.peak, anonymous_bytes())

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        self.peak = max(self.peak, anonymous_bytes()) - self.before


def anonymous_bytes() -> int:
    text = Path("/proc/self/status").read_text()
    return int(text.partition("RssAnon:")[2].split()[0]) << 10


def decode_all(checkpoint: Checkpoint, backend: Backend) -> None:
    threads = min(backend.threads, MOST_THREADS)
    matrices = [TensorSpec(t.name, t.shape) for t in checkpoint.tensors.values() if len(t.shape) == 2]
    blocks = [
        Block((m,), (None,), checkpoint.tensors[m.name].scheme, *m.shape, Choice("", ())) for m in matrices
    ]
    rows = [piece.rows[0] for block in blocks for piece in cut(block, piece_bytes(threads, 0))]

    def job(tensor: TensorSpec, start: int, stop: int) -> None:
        checkpoint.read(tensor.name, start, stop)

    with keeping_freed_memory():
        for _ in each_done([partial(job, *each) for each in rows], threads):
            pass


def digest(tensor: QuantTensor) -> str:
    """Of the canonical parts of the rows that are checked."""
    found = hashlib.sha256()
    for role in sorted(tensor.parts):
        found.update(np.ascontiguousarray(tensor.parts[role]).tobytes())
    return found.hexdigest()


def packed_rows(loaded: LoadedModel) -> QuantTensor:
    """The first rows of CHECKED, out of its packed bytes."""
    linear = loaded.parameters.linears[CHECKED.removesuffix(".weight")]
    weight = linear.blocks[0].weight
    whole = storage.view(weight.data)
    layout, n, k = weight.layout, CHECKED_ROWS, weight.k
    rows = whole[: layouts.packed_bytes(layout, n, k)]
    if layout.name in n32parts.NAMES:
        return n32parts_reference.unpack(rows, layout, n, k)
    return unpack(rows, layout, n, k)


def measure(path: Path, threads: int, rounds: int) -> dict[str, object]:
    backend = open_backend("cpu", detect(), threads)
    checkpoint = open_checkpoint(path)
    size = sum(info.bytes_on_disk for info in checkpoint.tensors.values())
    try:
        prepare(checkpoint, backend.selector)
        packed = True
    except RefusedError:
        packed = False
    seconds, need, found = [], 0, ""
    with PeakAnon() as anon:
        if packed:
            loaded = load_model(checkpoint, backend)
            need, found = loaded.need.weights, digest(packed_rows(loaded))
            del loaded
        else:
            decode_all(checkpoint, backend)
            found = digest(checkpoint.read(CHECKED, 0, CHECKED_ROWS))
    for _ in range(rounds):
        start = time.perf_counter()
        if packed:
            load_model(checkpoint, backend)
        else:
            decode_all(checkpoint, backend)
        seconds.append(time.perf_counter() - start)
    return {
        "bytes": size, "packed_bytes": need, "seconds": seconds, "peak_anon": anon.peak,
        "digest": found, "threads": backend.threads, "library": library.version(),
    }  # fmt: skip


if __name__ == "__main__":
    print(json.dumps(measure(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))))
