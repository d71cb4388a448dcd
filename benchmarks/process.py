"""A measured engine as a process of its own, spoken to by one JSON object a line, so that ours and peers are alike."""

from __future__ import annotations

import json
import subprocess
import tempfile
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Timing:
    """`prefill_s` up to the first token, `decode_s` for all the others."""

    tokens: list[int]
    prefill_s: float
    decode_s: float


class WorkerError(Exception):
    """A worker that ended or did not start; the text is the end of what it said."""


class Worker:
    """Starts `command`; its first line tells its version. Its standard error goes to a file, shown if it fails."""

    def __init__(self, name: str, command: list[str], environ: dict[str, str]) -> None:
        self.name = name
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed by close()
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, text=True, env=environ
        )
        self.version: str = self._answer()["version"]

    def generate(self, prompt: list[int], tokens: int) -> Timing:
        assert self._process.stdin
        try:
            self._process.stdin.write(json.dumps({"prompt": prompt, "tokens": tokens}) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # the answer below says what it ended with
        return Timing(**self._answer())

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout
        line = self._process.stdout.readline()
        if not line:
            self._process.wait()
            self._log.seek(0)
            tail = self._log.read()[-2000:]
            raise WorkerError(f"{self.name} ended with status {self._process.returncode}:\n{tail}")
        return json.loads(line)

    def close(self) -> None:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.close()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        self._log.close()
