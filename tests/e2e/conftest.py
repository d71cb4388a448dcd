from __future__ import annotations

import re
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from tests.conftest import ROOT, cli_environment

START_S = 120


class Server:
    """`fewbit serve demo` on a free port. `printed` is its standard output up to the curl line."""

    def __init__(self, *args: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "fewbit.cli.app", "serve", "demo", "--port", "0", "--context", "1024", *args],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT, env=cli_environment(),
        )  # fmt: skip
        self.printed = self._until_curl()
        found = re.search(r"curl (http://[^/]+)/", self.printed)
        assert found, self.printed
        self.url = found[1]

    def _until_curl(self) -> str:
        assert self.process.stdout and self.process.stderr
        text, guard = "", threading.Timer(START_S, self.process.kill)
        guard.start()
        while "curl " not in text:
            line = self.process.stdout.readline()
            if not line:
                pytest.fail(f"no curl line came: {text!r} {self.process.stderr.read()!r}")
            text += line
        guard.cancel()
        return text

    @property
    def curl(self) -> str:
        return self.printed[self.printed.index("curl ") :].strip()

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture(scope="module")
def server(demo_model: object) -> Iterator[Server]:
    started = Server()
    yield started
    started.end()


@pytest.fixture
def own_server(demo_model: object) -> Iterator[Server]:
    """For a test that ends it."""
    started = Server()
    yield started
    started.end()
