"""Weights replaced in a running engine: as if the new checkpoint had been loaded, or as if nothing had been asked."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fewbit.engine.channel import Channel
from fewbit.engine.engine import Engine
from fewbit.engine.host import EngineThread
from fewbit.engine.messages import CommitWeights, Finished, Limits, Submit, Token, WeightRows
from fewbit.engine.runner import PAGE_TOKENS, Runner
from fewbit.engine.sampling_params import SamplingParams
from fewbit.engine.update import WeightSender
from fewbit.formats import open_checkpoint
from fewbit.formats.checkpoint import Checkpoint
from fewbit.kernels.backend import Backend, open_backend
from fewbit.kernels.storage import address
from fewbit.loader import load_model
from fewbit.loader.update import Weights
from fewbit.platforms.x86.detect import detect
from fewbit.schemes.reference import dequantize
from fewbit.spec.refusal import FewbitError
from fewbit.spec.scheme import QuantTensor
from tests.formats.gguf.fixture import tiny_gguf
from tests.formats.plain.fixture import tiny_folder
from tests.models.tiny import Driver

TOKENS = {0: list(range(20, 60)), 1: [3]}
CAPACITY = {"max_rows": 64, "max_sequences": 8, "pages": 32, "max_pages_per_sequence": 6}
UNALIGNED: dict[str, Any] = {
    "num_key_value_heads": 1,
    "intermediate_size": 160,
}  # k and v end inside a panel of 32


@pytest.fixture(scope="module")
def cpu() -> Backend:
    return open_backend("cpu", detect(), 2)


class Served:
    """A loaded model behind an engine that runs."""

    def __init__(self, checkpoint: Checkpoint, backend: Backend) -> None:
        self.loaded = load_model(checkpoint, backend)
        self.runner = Runner(self.loaded.model, backend, **CAPACITY)
        limits = Limits(128, 8, 8, 64, 32, PAGE_TOKENS, self.loaded.model.shape.vocab_size)
        self.engine = EngineThread(self.runner, limits, weights=Weights(self.loaded, backend))
        self.engine.start()

    def logits(self) -> np.ndarray:
        return np.concatenate(Driver(self.runner).logits(TOKENS))


def tensors(checkpoint: Checkpoint, seed: int = 0) -> Iterator[tuple[str, QuantTensor]]:
    """All of them, in an order of their own."""
    for name in np.random.default_rng(seed).permutation(list(checkpoint.tensors)):
        yield str(name), checkpoint.read(str(name))


def gguf(path: Path, seed: int, **changes: Any) -> Checkpoint:
    return open_checkpoint(tiny_gguf(path / f"{seed}.gguf", "u4g32o", seed=seed, **changes))


def plain(path: Path, seed: int, **changes: Any) -> Checkpoint:
    return open_checkpoint(tiny_folder(path / f"{seed}", "bf16", seed=seed, **changes))


@pytest.mark.parametrize(
    ("write", "changes"),
    [(gguf, {}), (gguf, {"tie_word_embeddings": True}), (plain, {}), (plain, {"model_type": "qwen2"}), (plain, UNALIGNED)],
    ids=["blocks", "tied", "floats", "biases", "unaligned"],
)  # fmt: skip
@pytest.mark.parametrize("seed", [1, 2])
def test_as_if_the_new_checkpoint_had_been_loaded(
    tmp_path: Path, cpu: Backend, write: Any, changes: dict[str, Any], seed: int
) -> None:
    old, new = write(tmp_path, 0, **changes), write(tmp_path, seed, **changes)
    served, fresh = Served(old, cpu), Served(new, cpu)
    before, wanted = served.logits(), fresh.logits()
    places = [
        address(b.weight.data) for linear in served.loaded.parameters.linears.values() for b in linear.blocks
    ]
    plans = served.runner.plans()
    assert served.engine.update_weights(tensors(new, seed)) == len(new.tensors)
    found = served.logits()
    assert not np.array_equal(before, wanted)
    np.testing.assert_array_equal(found.view(np.uint32), wanted.view(np.uint32))
    assert places == [
        address(b.weight.data) for linear in served.loaded.parameters.linears.values() for b in linear.blocks
    ]
    assert served.runner.plans() == plans
    assert served.engine.update_weights(tensors(old)) == len(old.tensors)
    np.testing.assert_array_equal(served.logits().view(np.uint32), before.view(np.uint32))
    for each in (served, fresh):
        assert each.engine.stop()


def test_large_tensors_come_in_several_messages(
    tmp_path: Path, cpu: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fewbit.engine.update.MESSAGE_BYTES", 5000)
    old, new = plain(tmp_path, 0, **UNALIGNED), plain(tmp_path, 1, **UNALIGNED)
    served = Served(old, cpu)
    served.engine.update_weights(tensors(new))
    np.testing.assert_array_equal(served.logits(), Served(new, cpu).logits())


def test_names_of_the_file_and_plain_arrays_do_as_well(tmp_path: Path, cpu: Backend) -> None:
    old, new = gguf(tmp_path, 0), gguf(tmp_path, 1)
    served = Served(old, cpu)
    norms = [name for name in old.tensors if "norm" in name]
    by_file = {new.tensors[name].disk_name: dequantize(new.read(name)) for name in norms}
    assert "blk.1.ffn_norm.weight" in by_file
    assert served.engine.update_weights(by_file.items()) == len(norms)
    expected = Served(old, cpu)
    expected.engine.update_weights((name, new.read(name)) for name in norms)
    np.testing.assert_array_equal(served.logits(), expected.logits())


def _broken(part: str, at: tuple[int, ...], value: Any) -> Any:
    def breaks(name: str, tensor: QuantTensor) -> tuple[str, QuantTensor]:
        parts = {role: array.copy() for role, array in tensor.parts.items()}
        parts[part][at] = value
        return name, replace(tensor, parts=parts)

    return breaks


def _rows(name: str, tensor: QuantTensor) -> tuple[str, QuantTensor]:
    half = tensor.shape[0] // 2
    return name, QuantTensor(
        tensor.scheme, (half, tensor.shape[1]), {role: part[:half] for role, part in tensor.parts.items()}
    )


UP = "model.layers.1.mlp.up_proj.weight"
REFUSED = {
    "a NaN": (_broken("scale", (3, 1), np.nan), r"'model.layers.1.mlp.up_proj.weight' has a NaN scale at row 3"),
    "a code too large": (_broken("codes", (3, 1), 16), r"codes from 0 to 16, but u4 goes from 0 to 15"),
    "half its rows": (_rows, r"rows of model.layers.1.mlp.up_proj.weight are missing; they share a matrix with"),
    "floats": (lambda name, tensor: (name, dequantize(tensor)), r"is f32 \(codes f32\), but the model serves it as u4g32o"),
    "no such name": (lambda name, tensor: ("model.up", tensor), r"the model has no tensor 'model.up'"),
    "integers": (lambda name, tensor: (name, np.zeros(3, np.int64)), r"an array of int64, expected float32"),
    "a vector": (lambda name, tensor: ("model.norm.weight", np.ones(65, np.float32)), r"rows 0 to 65 after 0 of 64"),
}  # fmt: skip


@pytest.mark.parametrize("fault", list(REFUSED))
def test_a_refused_update_leaves_the_old_weights(tmp_path: Path, cpu: Backend, fault: str) -> None:
    old, new = gguf(tmp_path, 0), gguf(tmp_path, 1)
    breaks, message = REFUSED[fault]
    served = Served(old, cpu)
    before = served.logits()
    with pytest.raises(FewbitError, match=message):
        served.engine.update_weights(
            breaks(name, tensor) if name == UP else (name, tensor) for name, tensor in tensors(new)
        )
    np.testing.assert_array_equal(served.logits().view(np.uint32), before.view(np.uint32))
    assert served.engine.update_weights(tensors(new)) == len(new.tensors), "nothing of it is left behind"
    np.testing.assert_array_equal(served.logits(), Served(new, cpu).logits())


def test_an_iterator_that_fails_leaves_the_old_weights(tmp_path: Path, cpu: Backend) -> None:
    served, new = Served(gguf(tmp_path, 0), cpu), gguf(tmp_path, 1)
    before = served.logits()

    def ends_early() -> Iterator[tuple[str, QuantTensor]]:
        yield from list(tensors(new))[:9]
        raise OSError("the trainer went away")

    with pytest.raises(OSError, match="the trainer went away"):
        served.engine.update_weights(ends_early())
    name = "model.norm.weight"
    assert served.engine.update_weights([(name, gguf(tmp_path, 0).read(name))]) == 1
    np.testing.assert_array_equal(served.logits().view(np.uint32), before.view(np.uint32))


def test_one_of_merged_projections_alone_is_refused(tmp_path: Path, cpu: Backend) -> None:
    served, new = Served(gguf(tmp_path, 0), cpu), gguf(tmp_path, 1)
    with pytest.raises(FewbitError, match=r"rows of .*gate_proj.weight are missing; they share a matrix"):
        served.engine.update_weights([(UP, new.read(UP))])


def test_a_stopped_engine_says_so(tmp_path: Path, cpu: Backend) -> None:
    served = Served(gguf(tmp_path, 0), cpu)
    assert served.engine.stop()
    with pytest.raises(FewbitError, match="the engine has stopped"):
        served.engine.update_weights(tensors(gguf(tmp_path, 0)))


def test_requests_go_on_with_the_new_weights(tmp_path: Path, cpu: Backend) -> None:
    """Between two decode steps: what follows is what the new weights say of all tokens so far."""
    old, new = gguf(tmp_path, 0), gguf(tmp_path, 1)
    loaded = load_model(old, cpu)
    channel = Channel()
    limits = Limits(128, 8, 8, 64, 32, PAGE_TOKENS, loaded.model.shape.vocab_size)
    engine = Engine(Runner(loaded.model, cpu, **CAPACITY), limits, channel, weights=Weights(loaded, cpu))
    prompt = list(range(20, 57))
    channel.to_engine.send([Submit(0, prompt, SamplingParams(max_tokens=60))])
    seen: list[int] = []

    def turn() -> bool:
        engine.turn()
        messages = channel.from_engine.receive()
        seen.extend(m.token_id for m in messages if isinstance(m, Token))
        return any(isinstance(m, Finished) for m in messages)

    while len(seen) < 5:
        assert not turn()

    class Stepping(WeightSender):
        """The engine takes a turn, with a step, after each message."""

        def _ask(self, message: WeightRows | CommitWeights) -> int:
            channel.to_engine.send([message])
            turn()
            (answer,) = channel.weights.receive()
            assert answer.ticket == message.ticket and not answer.error
            return answer.tensors

    Stepping(channel, lambda: True).send((name, new.read(name)) for name in new.tensors)
    before = list(seen)
    while not turn():
        pass
    fresh = Driver(Runner(load_model(new, cpu).model, cpu, **CAPACITY))
    tokens = prompt + seen[:-1]
    logits = np.concatenate([fresh.logits({0: part})[0] for part in (tokens[:64], tokens[64:])])
    assert len(seen) == 60 and 20 < len(before) < 50
    np.testing.assert_array_equal(seen[len(before) :], logits[len(prompt) + len(before) - 1 :].argmax(axis=1))
    engine.scheduler.check()
