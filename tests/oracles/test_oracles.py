"""Checkpoints that the formats' own tools wrote: every tensor read or explained, weights and logits as the tool has them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fewbit.loader.report import check_headers
from fewbit.models import FAMILIES, family
from fewbit.spec.dtype import E2M1
from fewbit.spec.refusal import CheckpointError
from tests.oracles.logits import compute_logits
from tests.oracles.oracle import Oracle, rounded, sha256
from tests.oracles.store import Store, stores, whole
from tests.oracles.table import CHECKS, KEPT_WHOLE, NO_REFERENCE, REFUSED, Close

Open = Callable[[Store, str], Oracle]
STORED = [(store, name) for store in stores() for name in store.entries() if name in CHECKS]


def each(stored: list[tuple[Store, str]]) -> Any:
    return pytest.mark.parametrize(
        ("store", "name"), stored, ids=[f"{store.name}-{name}" for store, name in stored]
    )


def test_every_checkpoint_stands_in_one_place() -> None:
    assert not CHECKS.keys() & REFUSED.keys()
    if found := whole():
        assert CHECKS.keys() | REFUSED.keys() == found.entries().keys()
    else:
        pytest.skip("only the subset was tested: the whole folder is not here (FEWBIT_ORACLES says where)")


@each(STORED)
def test_every_tensor_is_consumed_or_explained(store: Store, name: str, oracle: Open) -> None:
    """The format accounts for every tensor of the disk (opening fails otherwise), the model's family for every canonical one."""
    checkpoint = oracle(store, name).checkpoint
    assert checkpoint.format == CHECKS[name].format
    quantized = {n for n, info in checkpoint.tensors.items() if not info.scheme.is_plain}
    assert quantized == oracle(store, name).quantized()
    if checkpoint.model_type in FAMILIES and not oracle(store, name).is_cut:
        module = family(checkpoint.model_type)
        spec = module.describe(
            module.parse(checkpoint.model_type, checkpoint.config, checkpoint.tensors.keys())
        )
        check_headers(spec, checkpoint)


@each([(store, name) for store, name in STORED if name != NO_REFERENCE])
def test_weights(store: Store, name: str, oracle: Open) -> None:
    found, how = oracle(store, name), CHECKS[name].weights
    assert found.weights
    for module, expected in found.weights.items():
        weight = rounded(found.weight(module), how)
        ours, theirs = found.stored_rows(module, weight)
        if isinstance(how, Close):
            allowed = how.relative * np.abs(theirs) + how.absolute
            assert_all(np.abs(ours - theirs) <= allowed, ours, theirs, module)
        else:
            assert_all(ours == theirs, ours, theirs, module)
            fp4 = found.checkpoint.tensors[found.canonicals(module)[0]].scheme.codes == E2M1
            weight = weight + np.float32(0) if how == "zero" and fp4 else weight
            assert sha256(weight) == expected["sha256_f32"], module


def assert_all(good: np.ndarray, ours: np.ndarray, theirs: np.ndarray, module: str) -> None:
    if not good.all():
        at = tuple(int(i) for i in np.argwhere(~good)[0])
        pytest.fail(
            f"{module}{list(at)} is {ours[at]!r}, expected {theirs[at]!r} ({(~good).sum()} of {good.size} differ)"
        )


@each(STORED)
def test_any_cut_of_rows_is_the_same(store: Store, name: str, oracle: Open) -> None:
    checkpoint = oracle(store, name).checkpoint
    for tensor, info in list(checkpoint.tensors.items())[:12]:
        whole, step = checkpoint.read(tensor), info.scheme.block_n
        rows = info.shape[0]
        for start, stop in (
            (0, rows // 2),
            (rows // 3 // step * step, rows),
            (rows // 2 // step * step, rows - 1),
        ):
            assert_same_rows(checkpoint.read(tensor, start, stop), whole, info.scheme, start, stop)


def assert_same_rows(piece: Any, whole: Any, scheme: Any, start: int, stop: int) -> None:
    for role, part in piece.parts.items():
        full = whole.parts[role]
        if part.shape == full.shape and stop - start != whole.shape[0]:
            expected = full  # of the tensor, not of its rows
        else:
            step = -(-whole.shape[0] // full.shape[0])
            expected = full[start // step : -(-stop // step)]
        assert np.array_equal(part, expected), role


@each([(s, name) for s, name in STORED if CHECKS[name].logits and (s.name == "whole" or name in KEPT_WHOLE)])
def test_logits(store: Store, name: str, oracle: Open, reference_backend: Any) -> None:
    check, found = CHECKS[name], oracle(store, name)
    ours = compute_logits(found, check.weights, reference_backend)
    error = np.abs(ours - found.reference[check.logits])
    assert error.max() <= check.logits_within, f"largest difference {error.max():.3g}"


@each([(store, name) for store in stores() for name in store.entries() if name in REFUSED])
def test_refused(store: Store, name: str, oracle: Open) -> None:
    with pytest.raises(CheckpointError, match=REFUSED[name]):
        _ = oracle(store, name).checkpoint
