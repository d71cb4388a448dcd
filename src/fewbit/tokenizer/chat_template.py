"""Renders a conversation by the checkpoint's chat template, in a child process that can be killed."""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fewbit.spec.refusal import FewbitError

WORKER = Path(__file__).with_name("template_worker.py")
TIME_S = 1.25
OUTPUT_BYTES = 16 << 20
KWARGS = {"enable_thinking": bool}  # what a request may pass on to the template, and its type


class ChatTemplateError(FewbitError):
    """The template could not be compiled, or refused these messages, or took more than its limits."""


class ChatTemplate:
    """One template in one child process. Renderings take turns; a dead child is replaced at the next."""

    def __init__(self, source: str, constants: Mapping[str, Any], time_s: float = TIME_S) -> None:
        """`constants`: bos_token, eos_token and the like. ChatTemplateError when the template does not compile."""
        self._source = source
        self._constants = dict(constants)
        self._time_s = time_s
        self._lock = threading.Lock()
        self._child: subprocess.Popen[bytes] | None = None
        with self._lock:
            self._start()

    def render(self, messages: Sequence[Mapping[str, Any]], kwargs: Mapping[str, Any] | None = None) -> str:
        """The text to continue, generation prompt included. Not on an event loop: it waits up to `time_s`."""
        request = {
            "tools": None,
            "documents": None,
            **(kwargs or {}),
            **self._constants,
            "messages": list(messages),
            "add_generation_prompt": True,
        }
        with self._lock:
            if self._child is None:
                self._start()
            return self._ask(request)

    def close(self) -> None:
        with self._lock:
            self._kill()

    def _start(self) -> None:
        self._child = subprocess.Popen(
            [sys.executable, "-I", str(WORKER)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is for the server, which then closes the child
        )
        assert self._child.stdin and self._child.stdout
        os.set_blocking(self._child.stdin.fileno(), False)
        os.set_blocking(self._child.stdout.fileno(), False)
        try:
            self._ask({"source": self._source}, extra_s=10.0)  # starting Python counts here, and only here
        except ChatTemplateError:
            self._kill()
            raise

    def _ask(self, request: Mapping[str, Any], extra_s: float = 0.0) -> str:
        try:
            line = self._exchange(
                json.dumps(request, ensure_ascii=False).encode(errors="replace") + b"\n",
                time.monotonic() + self._time_s + extra_s,
            )
        except ChatTemplateError:
            self._kill()
            raise
        answer = json.loads(line)
        if "error" in answer:
            raise ChatTemplateError(f"the chat template failed: {answer['error']}")
        return str(answer["text"])

    def _exchange(self, data: bytes, deadline: float) -> bytes:
        child = self._child
        assert child and child.stdin and child.stdout
        stdin, stdout = child.stdin.fileno(), child.stdout.fileno()
        answer = bytearray()
        with selectors.DefaultSelector() as selector:
            selector.register(stdout, selectors.EVENT_READ)
            selector.register(stdin, selectors.EVENT_WRITE)
            while not answer.endswith(b"\n"):
                events = selector.select(max(deadline - time.monotonic(), 0))
                if not events:
                    raise ChatTemplateError(
                        f"the chat template took more than {self._time_s:g} s and was stopped"
                    )
                for key, _ in events:
                    if key.fd == stdout:
                        piece = os.read(stdout, 1 << 16)
                        if not piece:
                            raise ChatTemplateError(
                                "the chat template used more than its memory limit and was stopped"
                            )
                        answer += piece
                        if len(answer) > OUTPUT_BYTES:
                            raise ChatTemplateError(
                                f"the chat template wrote more than {OUTPUT_BYTES >> 20} MiB"
                            )
                    else:
                        try:
                            data = data[os.write(stdin, data) :]
                        except BrokenPipeError:
                            data = b""  # the child's end shows at its stdout
                        if not data:
                            selector.unregister(stdin)
        return bytes(answer)

    def _kill(self) -> None:
        if self._child:
            self._child.kill()
            self._child.wait()
            for pipe in (self._child.stdin, self._child.stdout):
                assert pipe
                pipe.close()
            self._child = None
