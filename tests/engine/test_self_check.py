"""A model that loads and would answer nonsense does not start."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from fewbit.config import EngineConfig, ModelConfig
from fewbit.engine.load import load
from fewbit.engine.self_check import TOKENS, check_model
from fewbit.formats.folder.writer import DiskArray
from fewbit.spec.refusal import FewbitError
from tests.bugs.guard import guarded
from tests.bugs.model import REFERENCE
from tests.formats.altered import tensors
from tests.formats.plain.fixture import tiny_folder
from tests.formats.tiny import VOCAB
from tests.models.tiny import runner_of

SMALL = EngineConfig(context=64, max_sequences=1, kv_memory="1MiB")
END = 2
Held = dict[str, DiskArray]


def _set(held: Held, part: str, value: float) -> None:
    for name, tensor in held.items():
        if part in name:
            tensor.array[...] = value


def nothing(held: Held) -> None:
    """What a lost scale gives."""
    _set(held, "model.norm.weight", 0)


def overflow(held: Held) -> None:
    """What a scale used twice gives."""
    _set(held, "model.norm.weight", 3e38)
    _set(held, "lm_head.weight", 3e38)


def one_word(held: Held) -> None:
    _set(held, "embed_tokens", 1)


def only_ends(held: Held) -> None:
    """The empty answers of a server that seems healthy."""
    _set(held, "o_proj", 0)
    _set(held, "down_proj", 0)
    held["model.embed_tokens.weight"].array[...] += 8
    _set(held, "lm_head.weight", 0)
    held["lm_head.weight"].array[END] = 1


FAULTS: list[tuple[Callable[[Held], None], str]] = [
    (nothing, "all logits after token 0 are 0, so no token is likelier"),
    (overflow, "9 of 9 tokens hold NaN or infinity, those of token 0 first"),
    (one_word, "the same after each of 9 tokens, so the model does not read its input"),
    (only_ends, "the likeliest is 2, which ends the text"),
]


@pytest.mark.parametrize(("fault", "says"), FAULTS, ids=[fault.__name__ for fault, _ in FAULTS])
@guarded("fewbit.engine.load:check_model", lambda *args: None, "DID NOT RAISE")
def test_a_model_that_would_answer_nonsense_does_not_start(
    tmp_path: Path, fault: Callable[[Held], None], says: str
) -> None:
    folder = tiny_folder(tmp_path / "m", "f32")
    tensors(fault)(folder)
    with pytest.raises(FewbitError) as refusal:
        load(folder, ModelConfig(threads=2), SMALL).close()
    assert says in str(refusal.value) and str(folder) in str(refusal.value)


@pytest.mark.parametrize("tokens", [[], [1], [5, 6], list(range(40)), [VOCAB, VOCAB + 1, 3]], ids=len)
@pytest.mark.parametrize("most", [1, 2, 64])
@pytest.mark.parametrize("rows", [1, 4, 64])
def test_any_text_and_any_size_are_checked(tmp_path: Path, tokens: list[int], most: int, rows: int) -> None:
    from fewbit.formats import open_checkpoint

    checkpoint = open_checkpoint(tiny_folder(tmp_path / "m"))
    runner = runner_of(checkpoint, REFERENCE, max_rows=rows, max_sequences=1)
    taken = []
    run = runner.logits

    def logits(batch: object) -> np.ndarray:
        taken.append(run(batch))  # type: ignore[arg-type]
        return taken[-1]

    runner.logits = logits  # type: ignore[method-assign, assignment]
    check_model(runner, tokens, most, [END], "m")
    counts = [len(rows_of) for rows_of in taken]
    assert sum(counts) <= min(TOKENS, most) and counts[0] <= rows and all(count == 1 for count in counts[1:])
    checkpoint.close()
