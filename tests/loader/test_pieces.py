"""How weights are cut for loading, and what happens when a piece of work fails."""

from __future__ import annotations

import threading
import time
from functools import partial

import numpy as np
import pytest

from fewbit.formats.checkpoint import Checkpoint
from fewbit.kernels.backend import Backend, open_backend
from fewbit.layers.method import Block
from fewbit.layers.spec import TensorSpec
from fewbit.loader import LoadOptions, load_model
from fewbit.loader.pieces import ALL_BYTES, MOST_BYTES, cut, piece_bytes
from fewbit.loader.workers import each_done
from fewbit.platforms.x86.detect import detect
from fewbit.schemes import SCHEMES
from fewbit.spec.cell import Choice
from fewbit.spec.dtype import E4M3, F32
from fewbit.spec.granularity import block as tile
from fewbit.spec.refusal import CheckpointError
from fewbit.spec.scheme import QuantTensor, Scheme
from tests.models.tiny import ArrayCheckpoint, plain_llama

BLOCKS = Scheme(E4M3, tile(128, 128), F32)


def block_of(heights: list[int], k: int, scheme: Scheme) -> Block:
    weights = tuple(TensorSpec(f"w{i}", (n, k)) for i, n in enumerate(heights))
    return Block(weights, (None,) * len(weights), scheme, sum(heights), k, Choice("", ()))


@pytest.mark.parametrize("threads", [1, 2, 16, 32])
@pytest.mark.parametrize("k", [256, 4096, 16384])
@pytest.mark.parametrize(
    ("heights", "scheme"),
    [([4096, 1024, 1024], SCHEMES["i4g32"]), ([14336, 14336], SCHEMES["bf16"]), ([16, 8, 8, 40, 1], SCHEMES["i4g32"]),
     ([1], SCHEMES["f32"]), ([1000], BLOCKS)],
)  # fmt: skip
def test_pieces_cover_each_row_once(heights: list[int], scheme: Scheme, k: int, threads: int) -> None:
    block = block_of(heights, k, scheme)
    pieces = list(cut(block, piece_bytes(threads, 0)))
    rows = [(tensor.name, row) for piece in pieces for tensor, a, b in piece.rows for row in range(a, b)]
    assert rows == [(f"w{i}", row) for i, n in enumerate(heights) for row in range(n)]
    at = 0
    for piece in pieces:
        unit = 128 if scheme is BLOCKS else 32
        size = sum(stop - start for _, start, stop in piece.rows)
        assert piece.row == at and at % unit == 0
        least = unit * k * max(scheme.codes.bits, 8) // 8
        assert size * k * max(scheme.codes.bits, 8) // 8 <= max(min(MOST_BYTES, ALL_BYTES // threads), least)
        at += size


def test_tensors_that_end_with_a_panel_are_not_joined_in_a_piece() -> None:
    pieces = cut(block_of([96, 64, 40, 24], 256, SCHEMES["i4g32"]), MOST_BYTES)
    assert [[tensor.name for tensor, _, _ in piece.rows] for piece in pieces] == [
        ["w0"],
        ["w1"],
        ["w2", "w3"],
    ]


def test_pieces_grow_with_the_weights_and_with_fewer_threads() -> None:
    assert piece_bytes(16, 0) == 1 << 20 and piece_bytes(16, 80 << 20) == (17 << 20) // 16
    assert piece_bytes(2, 0) == piece_bytes(16, 8 << 30) == MOST_BYTES


def test_the_first_error_ends_the_work() -> None:
    begun: list[int] = []

    def job(number: int) -> None:
        begun.append(number)
        time.sleep(0.01)
        if number == 3:
            raise CheckpointError("the third")

    with pytest.raises(CheckpointError, match="the third"):
        list(each_done([partial(job, i) for i in range(500)], 2))
    assert len(begun) < 100 and not [t for t in threading.enumerate() if t.name.startswith("fewbit-load")]


def test_an_interrupt_ends_the_work() -> None:
    begun: list[int] = []

    def job(number: int) -> None:
        begun.append(number)
        time.sleep(0.01)

    with pytest.raises(KeyboardInterrupt):
        for _ in each_done([partial(job, i) for i in range(500)], 2):
            raise KeyboardInterrupt
    assert len(begun) < 100


class Failing(ArrayCheckpoint):
    def read(self, name: str, start: int = 0, stop: int | None = None) -> QuantTensor:
        if name.endswith("layers.1.mlp.up_proj.weight"):
            raise ZeroDivisionError("a fault of ours")
        return super().read(name, start, stop)


def test_a_fault_of_ours_says_which_tensor_it_was(cpu: Backend) -> None:
    whole = plain_llama()
    with pytest.raises(ZeroDivisionError) as error:
        load_model(Failing(whole.model_type, whole.config, whole.held), cpu)
    assert "rows of model.layers.1.mlp.up_proj.weight of arrays" in error.value.__notes__[0]


@pytest.fixture(scope="module")
def cpu() -> Backend:
    return open_backend("cpu", detect(), 3)


def weights_of(checkpoint: Checkpoint, backend: Backend) -> list[np.ndarray]:
    loaded = load_model(checkpoint, backend)
    linears = loaded.parameters.linears.values()
    return [backend.array(b.weight.data).copy() for linear in linears for b in linear.blocks]


def test_the_same_bytes_on_any_number_of_threads(cpu: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint = plain_llama({"mlp": SCHEMES["i4g32"], "attn": SCHEMES["u4g32o"]})
    alone = weights_of(checkpoint, open_backend("cpu", detect(), 1))
    monkeypatch.setattr("fewbit.loader.pieces.ALL_BYTES", 1)
    for a, b in zip(alone, weights_of(checkpoint, cpu), strict=True):
        np.testing.assert_array_equal(a, b)


def test_progress_never_goes_back(cpu: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fewbit.loader.pieces.ALL_BYTES", 1)
    seen: list[int] = []
    here = threading.get_ident()
    load_model(
        plain_llama(),
        cpu,
        LoadOptions(progress=lambda done, total: seen.append(done * (threading.get_ident() == here))),
    )
    assert seen == sorted(seen) and seen[0] > 0 and len(seen) > 20
