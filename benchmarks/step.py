"""Time of a decode step outside the kernels: scheduling, Python, messages. Needs numpy and msgspec, nothing else."""

from __future__ import annotations

import os
import time
from pathlib import Path
from statistics import median

from benchmarks import answers
from benchmarks.assembly import assemble
from benchmarks.report import print_table, write_csv
from fewbit.platforms.fingerprint import fingerprint

LIMIT_US = 1000.0


def outside(
    model: Path, threads: int, batch: int, steps: int
) -> tuple[list[float], list[float], list[list[int]]]:
    """Microseconds outside and inside the kernels, for each step in which the whole batch decodes; and the tokens."""
    assembly = assemble(model, threads, max_sequences=batch)
    prompt, _, _ = answers.decode_case()
    for request in range(batch):
        assembly.submit(request, prompt, steps)
    tokens: list[list[int]] = [[] for _ in range(batch)]
    out, inside, finished = [], [], 0
    while finished < batch:
        assembly.clock.seconds = 0.0
        start = time.perf_counter()
        new, ended = assembly.turn()
        spent = time.perf_counter() - start
        finished += ended
        for token in new:
            tokens[token.request_id].append(token.token_id)
        if len(new) == batch and min(map(len, tokens)) > 2:
            out.append((spent - assembly.clock.seconds) * 1e6)
            inside.append(assembly.clock.seconds * 1e6)
    return out, inside, tokens


def run(model: Path, threads: int, steps: int, batches: list[int]) -> int:
    """Exit status 1 when the answer is wrong or a median passes the limit."""
    _, golden, margins = answers.decode_case()
    facts, rows, failed = fingerprint(), [], False
    processors = os.sched_getaffinity(0)
    for batch in batches:
        os.sched_setaffinity(0, processors)  # the pool of the batch before has pinned this thread to one
        out, inside, tokens = outside(model, threads, batch, steps)
        agreements = [answers.compare(each, golden, margins) for each in tokens]
        worst = next((each for each in agreements if not each.right), agreements[0])
        failed |= not worst.right or median(out) > LIMIT_US
        ordered = sorted(out)
        rows.append(
            {
                "batch": str(batch),
                "threads": str(threads),
                "steps": str(len(out)),
                "outside_us": f"{median(out):.0f}",
                "outside_p95_us": f"{ordered[int(0.95 * len(ordered))]:.0f}",
                "kernels_us": f"{median(inside):.0f}",
                "answer": str(worst),
            }
        )
    title = f"A decode step, medians; {facts['cpu']}, {facts['platform']}, library {facts['library']}"
    print_table(title, list(rows[0]), [list(row.values()) for row in rows])
    print(f"wrote {write_csv('step', rows, facts)}")
    return 1 if failed else 0
