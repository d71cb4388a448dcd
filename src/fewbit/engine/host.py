"""Runs an engine in a thread of this process. Whoever holds the channel need not know."""

from __future__ import annotations

import threading
from collections.abc import Callable

from fewbit.engine.channel import Channel
from fewbit.engine.engine import Engine, StepRunner
from fewbit.engine.messages import Limits, Shutdown
from fewbit.engine.update import Tensors, WeightSender, WeightStore


class EngineThread:
    """`on_start` is called first in the engine's own thread."""

    def __init__(
        self,
        runner: StepRunner,
        limits: Limits,
        on_start: Callable[[], None] | None = None,
        weights: WeightStore | None = None,
    ) -> None:
        self.channel = Channel()
        self.limits = limits
        self._engine = Engine(runner, limits, self.channel, weights=weights)
        self._on_start = on_start
        self._weights, self._updating = WeightSender(self.channel, self.is_alive), threading.Lock()
        self._thread = threading.Thread(target=self._run, name="fewbit-engine", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def _run(self) -> None:
        if self._on_start:
            self._on_start()
        self._engine.run()

    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def update_weights(self, tensors: Tensors) -> int:
        """Replace weights by (name, tensor) pairs: canonical names, or those of the checkpoint; tensors in the schemes that are
        served, merged projections all together. All are replaced between the same two steps, or none, with a FewbitError;
        requests go on, and what they have in the cache is computed anew. Returns how many were replaced."""
        with self._updating:
            return self._weights.send(tensors)

    def stop(self, timeout_s: float = 5.0) -> bool:
        """End the engine after the step that now runs; False if that takes longer than the timeout."""
        self.channel.to_engine.send([Shutdown()])
        self._thread.join(timeout_s)
        return not self._thread.is_alive()
