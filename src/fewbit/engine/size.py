"""How large the cache and the context become: what was asked for if it fits, else a share of the memory that is left."""

from __future__ import annotations

from dataclasses import dataclass

from fewbit.config import EngineConfig, format_bytes, parse_bytes
from fewbit.engine.sequence import pages_for
from fewbit.spec.refusal import FewbitError

CACHE_SHARE = 0.5  # of what is left beside the weights, unless asked for
SCRATCH_PAGES = 1


class SizeError(FewbitError):
    """The sizes asked for contradict each other, the model or the memory."""


@dataclass(frozen=True, slots=True)
class Size:
    """`pages` includes the scratch page. `why` says what bounded the context and the cache, for people."""

    context_tokens: int
    pages: int
    why: str


def size_cache(
    config: EngineConfig, model_context: int, page_bytes: int, page_tokens: int, left_bytes: int
) -> Size:
    """`left_bytes`: memory without the weights and working buffers; `model_context`: the longest the model was made for."""
    if config.max_sequences < 1 or config.queue < 0:
        raise SizeError(
            f"--max-sequences {config.max_sequences} and --queue {config.queue} must be at least 1 and 0; type --max-sequences 1 "
            "and --queue 0, or more"
        )
    if config.batch_tokens < config.max_sequences:
        raise SizeError(
            f"--batch-tokens {config.batch_tokens} is below --max-sequences {config.max_sequences}, but a step holds a token of "
            f"each; type --batch-tokens {config.max_sequences} or more, or --max-sequences {max(config.batch_tokens, 1)}"
        )
    if config.context is not None and not 2 <= config.context <= model_context:
        raise SizeError(
            f"--context {config.context} must lie between 2 and the model's own limit; type --context {model_context} or less"
        )
    wanted_context = config.context or model_context
    full = config.max_sequences * pages_for(wanted_context, page_tokens) + SCRATCH_PAGES
    if config.kv_memory is not None:
        try:
            pages = parse_bytes(config.kv_memory) // page_bytes
        except ValueError as error:
            raise SizeError(f"--kv-memory: {error}") from None
        why = f"--kv-memory {config.kv_memory}"
    else:
        pages = max(0, int(left_bytes * CACHE_SHARE)) // page_bytes
        why = f"half of the {format_bytes(max(left_bytes, 0))} left beside the weights"
    if pages >= full:
        pages, why = full, f"{config.max_sequences} sequences of the whole context"
    room = (pages - SCRATCH_PAGES) * page_tokens
    if room < (config.context or min(model_context, page_tokens)):
        need = pages_for(config.context or page_tokens, page_tokens) + SCRATCH_PAGES
        raise SizeError(
            f"one context of {config.context or page_tokens} tokens takes {format_bytes(need * page_bytes)} of keys and values, "
            f"but only {format_bytes(max(pages, 0) * page_bytes)} may be used ({why}); ask for a smaller --context or more "
            "--kv-memory"
        )
    return Size(min(wanted_context, room), pages, why)
