"""python -m benchmarks peers | step | ops | load"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from fewbit.platforms.linux.threads import plan_threads
from fewbit.source import resolve_model
from fewbit.spec.refusal import FewbitError


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    peers = commands.add_parser("peers", help="decode and prefill of the demo model beside llama.cpp")
    peers.add_argument("--peer-python", type=Path, default=os.environ.get("FEWBIT_PEER_PYTHON"))
    peers.add_argument("--rounds", type=int, default=5)
    step = commands.add_parser("step", help="time of a decode step outside the kernels")
    step.add_argument("--steps", type=int, default=200)
    step.add_argument("--batch", type=int, nargs="+", default=[1, 8])
    load = commands.add_parser(
        "load", help="checkpoints of every format from the page cache into packed weights"
    )
    load.add_argument("--rounds", type=int, default=5)
    load.add_argument(
        "--layers", type=int, default=3, help="of 218 million weights each, in the files it writes"
    )
    load.add_argument("--only", nargs="+", default=[""], help="formats whose name has one of these in it")
    load.add_argument("--folder", type=Path, default=None, help="where the files are written, one at a time")
    load.add_argument("--model", default="", help="a checkpoint of one's own instead")
    load.add_argument("--threads", type=int, default=None)
    ops = commands.add_parser("ops", help="a step's time by kernel")
    ops.add_argument(
        "--rows", type=int, nargs="+", default=[1, 512], help="of a step: 1 decodes, more prefill"
    )
    ops.add_argument("--rounds", type=int, default=5)
    ops.add_argument("--activations", default="auto", choices=("auto", "16", "8"))
    for each in (peers, step, ops):
        each.add_argument("--model", default="demo")
        each.add_argument("--threads", type=int, default=None)
    options = parser.parse_args()
    try:
        threads = plan_threads(threads=options.threads).threads
        if options.command == "load":
            from benchmarks import load as measured_load

            own = resolve_model(options.model).path if options.model else None
            return measured_load.run(
                own, threads, options.rounds, options.layers, options.only, options.folder
            )
        model = resolve_model(options.model).path
        if options.command == "step":
            from benchmarks import step as measured

            return measured.run(model, threads, options.steps, options.batch)
        if options.command == "ops":
            from benchmarks import ops as measured_ops

            return measured_ops.run(model, threads, options.rows, options.rounds, options.activations)
        if options.peer_python is None or not options.peer_python.is_file():
            parser.error("peers needs --peer-python, a Python that has xllamacpp; `make bench` makes one")
        from benchmarks import peers as measured_peers

        return measured_peers.run(model, threads, options.peer_python, options.rounds)
    except FewbitError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
