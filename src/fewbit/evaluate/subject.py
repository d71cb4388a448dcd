"""A model that is read, window by window: logits of consecutive rows, one sequence at a time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from fewbit.engine.runner import PAGE_TOKENS, BatchInput, Runner
from fewbit.evaluate.windows import BLOCK_ROWS, Window
from fewbit.kernels.backend import open_backend
from fewbit.loader import LoadOptions, load_model
from fewbit.loader.memory import Capacity
from fewbit.loader.open import open_model
from fewbit.platforms.x86.detect import detect
from fewbit.spec.dtype import BF16, F32

HEAD_ROWS = 16  # logits that the runner itself holds at once


class Subject:
    """Pages 1, 2, ... hold the window at hand; page 0 is nobody's."""

    def __init__(
        self,
        path: Path,
        chunk: int,
        *,
        activations: str = "auto",
        exact: bool = False,
        threads: int | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        """`exact`: weights dequantized to f32, f32 activations, keys and values in f32, by numpy."""
        pages = -(-chunk // PAGE_TOKENS)
        capacity = Capacity(BLOCK_ROWS, HEAD_ROWS, pages + 1, pages)
        backend = open_backend("reference" if exact else "auto", detect(), threads)
        checkpoint = open_model(path)
        try:
            loaded = load_model(checkpoint, backend, LoadOptions(activations, capacity, progress))
        finally:
            checkpoint.close()
        self.vocab = loaded.model.shape.vocab_size
        self.notes = loaded.prepared.notes
        self._pages = np.arange(1, pages + 1, dtype=np.int32)
        self._runner = Runner(
            loaded.model,
            backend,
            max_rows=BLOCK_ROWS,
            max_sequences=HEAD_ROWS,
            pages=pages + 1,
            max_pages_per_sequence=pages,
            cache_dtype=F32 if exact else BF16,
        )

    def logits(self, window: Window, start: int, stop: int) -> np.ndarray:
        """f32 [stop - start, vocabulary]; the rows before `start` must have been read already, in order."""
        positions = np.arange(start, stop, dtype=np.int32)
        page, offset = np.divmod(positions, PAGE_TOKENS)
        nothing = np.zeros(0, np.float32)  # nothing is sampled
        return self._runner.logits(
            BatchInput(
                token_ids=np.array(window.tokens[start:stop], np.int32),
                positions=positions,
                slots=self._pages[page] * PAGE_TOKENS + offset,
                q_start=np.array([0, stop - start], np.int32),
                kv_len=np.array([stop], np.int32),
                page_table=self._pages[None, :],
                sample_rows=np.arange(stop - start, dtype=np.int32),
                temperature=nothing,
                top_k=nothing,
                top_p=nothing,
                min_p=nothing,
                uniform=nothing,
                top_n=nothing,
            )
        )
