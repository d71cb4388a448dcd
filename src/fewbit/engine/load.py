"""From a path to a running engine: open, choose kernels, size the cache, load, and start the thread."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from fewbit.config import EngineConfig, ModelConfig, format_bytes
from fewbit.engine.host import EngineThread
from fewbit.engine.messages import Limits
from fewbit.engine.runner import Runner
from fewbit.engine.self_check import TEXT, check_model
from fewbit.engine.sequence import pages_for
from fewbit.engine.size import Size, size_cache
from fewbit.formats.checkpoint import Checkpoint
from fewbit.kernels.backend import Backend, open_backend
from fewbit.loader import LoadOptions, Prepared, load_model, prepare
from fewbit.loader.memory import Capacity, check_memory, estimate, kv_bytes_per_page
from fewbit.loader.open import open_model
from fewbit.loader.update import Weights
from fewbit.platforms.linux.memory import read_memory
from fewbit.platforms.x86.detect import detect
from fewbit.spec.cell import Platform
from fewbit.spec.refusal import CheckpointError, FewbitError, RefusedError
from fewbit.tokenizer.tokenizer import Tokenizer

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Loaded:
    """`facts`: name and value of what was decided, to be printed."""

    engine: EngineThread
    tokenizer: Tokenizer
    facts: list[tuple[str, str]]

    def close(self) -> None:
        self.engine.stop()
        self.tokenizer.close()


def load(path: Path, model: ModelConfig, config: EngineConfig, progress: Progress | None = None) -> Loaded:
    """Everything that can be refused is refused before weights are read; what is loaded answers a short text before it serves."""
    if model.backend == "reference" and not model.allow_reference:
        raise FewbitError(
            "the reference backend is slow and meant for comparison; add --allow-reference to use it"
        )
    checkpoint = open_model(path, model.quantization)
    try:
        if checkpoint.tokenizer is None:
            raise CheckpointError(
                f"{path}: has no tokenizer, so text can't be served; put its tokenizer.json beside it"
            )
        tokenizer = Tokenizer(checkpoint.tokenizer)
        platform = detect()
        backend, prepared = _choose_backend(checkpoint, platform, model)
        shape = prepared.shape
        small = Capacity(config.batch_tokens, config.max_sequences, 0, 0)
        bare = estimate(prepared.linears, prepared.embedding, prepared.spec, shape, backend, small)
        memory = read_memory()
        check_memory(bare, memory)  # before a size of the cache is blamed
        page_bytes = kv_bytes_per_page(shape)
        left = memory.available_bytes - bare.total
        size = size_cache(config, shape.max_position_embeddings, page_bytes, Runner.page_tokens, left)
        capacity = Capacity(
            config.batch_tokens,
            config.max_sequences,
            size.pages,
            pages_for(size.context_tokens, Runner.page_tokens),
        )
        loaded = load_model(checkpoint, backend, LoadOptions(model.activations, capacity, progress))
    finally:
        checkpoint.close()
    runner = Runner(
        loaded.model,
        backend,
        max_rows=capacity.max_rows,
        max_sequences=capacity.max_sequences,
        pages=capacity.pages,
        max_pages_per_sequence=capacity.max_pages_per_sequence,
    )
    check_model(runner, tokenizer.encode(TEXT), size.context_tokens, tokenizer.eos_ids, path)
    limits = Limits(
        max_context_tokens=size.context_tokens,
        max_sequences=config.max_sequences,
        max_waiting=config.queue,
        max_batch_tokens=config.batch_tokens,
        pages=size.pages,
        page_tokens=Runner.page_tokens,
        vocab=shape.vocab_size,
    )
    engine = EngineThread(runner, limits, runner.claim_thread, Weights(loaded, backend))
    engine.start()
    on = f"{platform.name}, reference backend (slow)" if backend.name == "reference" else platform.name
    return Loaded(engine, tokenizer, _facts(limits, size, page_bytes, loaded.need.weights, on))


def _facts(
    limits: Limits, size: Size, page_bytes: int, weight_bytes: int, platform: str
) -> list[tuple[str, str]]:
    tokens = (limits.pages - 1) * limits.page_tokens
    return [
        ("platform", platform),
        ("weights", format_bytes(weight_bytes)),
        ("context", f"{limits.max_context_tokens} tokens"),
        ("cache", f"{format_bytes(limits.pages * page_bytes)} for {tokens} tokens ({size.why})"),
        ("at once", f"{limits.max_sequences} sequences, {limits.max_waiting} more may wait"),
    ]


def _choose_backend(
    checkpoint: Checkpoint, platform: Platform, model: ModelConfig
) -> tuple[Backend, Prepared]:
    """The backend asked for; with --allow-reference, the reference backend where no other runs some layer."""
    backend = open_backend(model.backend, platform, model.threads)
    try:
        return backend, prepare(checkpoint, backend.selector, model.activations)
    except RefusedError:
        if model.backend != "auto" or not model.allow_reference:
            raise
    backend = open_backend("reference", platform, model.threads)
    return backend, prepare(checkpoint, backend.selector, model.activations)
