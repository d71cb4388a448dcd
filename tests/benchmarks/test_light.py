"""A bare machine with numpy and msgspec alone can measure: nothing else is imported on the way."""

import subprocess
import sys

from tests.conftest import ROOT, cli_environment

CODE = """
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"rich", "tokenizers", "cyclopts", "starlette", "uvicorn", "psutil", "minijinja", "torch"}:
            raise ImportError(f"{name} is not on this machine")
sys.meta_path.insert(0, Refuse())
import benchmarks.load, benchmarks.load_worker, benchmarks.peers, benchmarks.step, benchmarks.worker, benchmarks.__main__
from benchmarks.report import print_table
print_table("title", ["a", "long"], [["1", "2"]])
"""


def test_measuring_needs_numpy_and_msgspec_alone():
    done = subprocess.run(
        [sys.executable, "-c", CODE], capture_output=True, text=True, cwd=ROOT, env=cli_environment()
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "title\na  long\n1  2\n"
