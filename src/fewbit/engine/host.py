"""Runs an engine in a thread of this process. Whoever holds the channel need not know."""

from __future__ import annotations

import threading
from collections.abc import Callable

from fewbit.engine.channel import Channel
from fewbit.engine.engine import Engine, StepRunner
from fewbit.engine.messages import Limits, Shutdown


class EngineThread:
    """`on_start` is called first in the engine's own thread."""

    def __init__(
        self, runner: StepRunner, limits: Limits, on_start: Callable[[], None] | None = None
    ) -> None:
        self.channel = Channel()
        self.limits = limits
        self._engine = Engine(runner, limits, self.channel)
        self._on_start = on_start
        self._thread = threading.Thread(target=self._run, name="fewbit-engine", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def _run(self) -> None:
        if self._on_start:
            self._on_start()
        self._engine.run()

    def stop(self, timeout_s: float = 5.0) -> bool:
        """End the engine after the step that now runs; False if that takes longer than the timeout."""
        self.channel.to_engine.send([Shutdown()])
        self._thread.join(timeout_s)
        return not self._thread.is_alive()
