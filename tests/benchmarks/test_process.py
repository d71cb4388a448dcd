import os
import sys

import pytest

from benchmarks.process import Timing, Worker, WorkerError

ECHO = """
import json, sys
print(json.dumps({"version": "echo 1"}), flush=True)
for line in sys.stdin:
    asked = json.loads(line)
    print(json.dumps({"tokens": asked["prompt"][:asked["tokens"]], "prefill_s": 0.5, "decode_s": 2.0}), flush=True)
"""


def test_a_worker_answers_line_by_line():
    worker = Worker("echo", [sys.executable, "-c", ECHO], dict(os.environ))
    try:
        assert worker.version == "echo 1"
        assert worker.generate([5, 6, 7], 2) == Timing([5, 6], 0.5, 2.0)
    finally:
        worker.close()


def test_a_worker_that_dies_says_what_it_said():
    with pytest.raises(WorkerError, match="status 3:\nno such engine"):
        Worker(
            "broken",
            [sys.executable, "-c", "import sys; print('no such engine', file=sys.stderr); sys.exit(3)"],
            {},
        )
