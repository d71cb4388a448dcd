"""fewbit beside llama.cpp: the same file, the same threads, interleaved in one run, answers checked.

Each round times every engine once, in an order that rotates, so that a machine's slow minute falls on all of them.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from benchmarks import answers
from benchmarks.process import Timing, Worker
from benchmarks.report import print_table, write_csv
from fewbit.platforms.fingerprint import fingerprint

DECODE_TOKENS = 128
PEER, OURS, OURS_8 = "llama.cpp", "fewbit", "fewbit, 8-bit activations"
ROOT = Path(__file__).resolve().parents[1]


@dataclass(slots=True)
class Result:
    """Rates in tokens per second, one a round."""

    decode: list[float] = field(default_factory=list)
    prefill: list[float] = field(default_factory=list)
    decode_answer: answers.Agreement | None = None
    prefill_right: bool = False

    def add(self, decode: Timing, prefill: Timing, golden: list[int], margins: list[float]) -> None:
        self.decode.append((len(decode.tokens) - 1) / decode.decode_s)
        self.prefill.append(answers.PREFILL_TOKENS / prefill.prefill_s)
        self.decode_answer = answers.compare(decode.tokens, golden, margins)
        self.prefill_right = prefill.tokens[0] == answers.PREFILL_NEXT


def commands(model: Path, threads: int, peer_python: Path) -> dict[str, list[str]]:
    ours = [sys.executable, "-m", "benchmarks.worker", str(model), str(threads)]
    peer = [str(peer_python), str(ROOT / "benchmarks/peer_llamacpp.py"), str(model), str(threads)]
    return {PEER: peer, OURS: [*ours, "auto"], OURS_8: [*ours, "8"]}


def environment() -> dict[str, str]:
    paths = [f"{ROOT}/src", str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return os.environ | {"PYTHONPATH": os.pathsep.join(paths)}


def measure(workers: dict[str, Worker], rounds: int) -> dict[str, Result]:
    prompt, golden, margins = answers.decode_case()
    text = answers.prefill_prompt()
    results = {name: Result() for name in workers}
    names = list(workers)
    for i in range(-1, rounds):  # the first round only warms up
        for name in names[i % len(names) :] + names[: i % len(names)]:
            decode = workers[name].generate(prompt, DECODE_TOKENS)
            prefill = workers[name].generate(text, 1)
            if i >= 0:
                results[name].add(decode, prefill, golden, margins)
                print(
                    f"round {i + 1}  {name:26} decode {results[name].decode[-1]:7.1f} tokens/s"
                    f"   prefill {results[name].prefill[-1]:7.1f} tokens/s",
                    file=sys.stderr,
                )
    return results


def report(results: dict[str, Result], versions: dict[str, str], threads: int) -> None:
    rows, lines = [], []
    for name, result in results.items():
        row = {
            "engine": name,
            "version": versions[name],
            "threads": str(threads),
            "rounds": str(len(result.decode)),
        }
        cells = [name]
        for case in ("decode", "prefill"):
            rates, peer = getattr(result, case), getattr(results[PEER], case)
            ratio = median(rates) / median(peer)
            row |= {
                f"{case}_tokens_per_s": f"{median(rates):.2f}",
                f"{case}_least": f"{min(rates):.2f}",
                f"{case}_most": f"{max(rates):.2f}",
                f"{case}_ratio": f"{ratio:.3f}",
            }
            cells += [f"{median(rates):.1f}", f"{min(rates):.1f}-{max(rates):.1f}", f"{ratio:.2f}x"]
        row |= {"decode_answer": str(result.decode_answer), "prefill_answer": str(result.prefill_right)}
        rows.append(row)
        lines.append([*cells, f"{result.decode_answer}; {'right' if result.prefill_right else 'other'}"])
    facts = fingerprint()
    title = (
        f"Demo model, batch 1, {threads} threads: decode of {DECODE_TOKENS} and prefill of {answers.PREFILL_TOKENS}, tokens/s\n"
        f"medians, range and ratio over {rows[0]['rounds']} interleaved rounds; {versions[PEER]}\n"
        f"{facts['cpu']}, {facts['cores']} cores, {facts['platform']}; library {facts['library']}, load {facts['load']}"
    )
    print_table(title, ["engine", "decode", "range", "ratio", "prefill", "range", "ratio", "answers"], lines)
    print(f"wrote {write_csv('peers', rows, facts).relative_to(ROOT)}")


def run(model: Path, threads: int, peer_python: Path, rounds: int) -> int:
    """Exit status 1 when fewbit's default answers wrongly: a fast wrong answer is no result."""
    workers = {}
    try:
        for name, command in commands(model, threads, peer_python).items():
            workers[name] = Worker(name, command, environment())
        results = measure(workers, rounds)
        report(results, {name: worker.version for name, worker in workers.items()}, threads)
    finally:
        for worker in workers.values():
            worker.close()
    ours = results[OURS]
    return 0 if ours.decode_answer and ours.decode_answer.right and ours.prefill_right else 1
