"""State of one request in the engine: its tokens, how many of them are in the cache, and the pages that hold those."""

from __future__ import annotations

from dataclasses import dataclass, field

from fewbit.engine.sampling_params import SamplingParams

NO_ROW = -1


@dataclass(slots=True, eq=False)
class Sequence:
    """`arrival` orders sequences and is their name in the page pool; `row` is their place in the batch tables."""

    request_id: int
    arrival: int
    tokens: list[int]  # prompt, then output
    prompt_tokens: int
    sampling: SamplingParams
    limit_tokens: int  # prompt and output together
    stream: int  # of random numbers
    computed: int = 0  # tokens whose keys and values are in the cache
    pages: list[int] = field(default_factory=list)
    row: int = NO_ROW
    scored: int = 1  # prompt tokens whose logprob was sent; the first has none

    @property
    def pending(self) -> int:
        """Tokens to compute before the next can be sampled: 1 in decode, more in prefill."""
        return len(self.tokens) - self.computed

    @property
    def output_tokens(self) -> int:
        return len(self.tokens) - self.prompt_tokens

    @property
    def unscored(self) -> int:
        """Prompt tokens whose logprob is wanted and was not sent."""
        return self.prompt_tokens - self.scored if self.sampling.prompt_logprobs >= 0 else 0


def pages_for(tokens: int, page_tokens: int) -> int:
    return -(-tokens // page_tokens)
