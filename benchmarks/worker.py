"""fewbit as a measured process: `python -m benchmarks.worker MODEL THREADS ACTIVATIONS`, one JSON object a line.

Asked {"prompt": [ids], "tokens": n} it answers {"tokens": [ids], "prefill_s": s, "decode_s": s}.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from benchmarks.assembly import Assembly, assemble
from fewbit import __version__
from fewbit.platforms.fingerprint import library_build


def generate(assembly: Assembly, prompt: list[int], tokens: int) -> dict[str, object]:
    """Times include scheduling, sampling and messages: all that the engine does for a request."""
    start = time.perf_counter()
    assembly.submit(0, prompt, tokens)
    found: list[int] = []
    first = last = start
    while True:
        new, finished = assembly.turn()
        last = time.perf_counter()
        if new and not found:
            first = last
        found += [token.token_id for token in new]
        if finished:
            return {"tokens": found, "prefill_s": first - start, "decode_s": last - first}


def main() -> None:
    model, threads, activations = sys.argv[1:4]
    assembly = assemble(Path(model), int(threads), activations)
    print(json.dumps({"version": f"{__version__} {library_build()}"}), flush=True)
    for line in sys.stdin:
        print(json.dumps(generate(assembly, **json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
