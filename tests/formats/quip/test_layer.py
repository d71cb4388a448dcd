"""A QuIP# layer by its formula with whole Hadamard matrices, against what the named transforms make of its codes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fewbit.formats import open_checkpoint
from fewbit.formats.folder.writer import DiskArray
from fewbit.formats.quip.encode import encode
from fewbit.schemes.arrays import Array
from fewbit.schemes.reference import dequantize
from tests.formats.altered import keys, tensors
from tests.formats.quip.fixture import beside, tiny_quip, tiny_tensor
from tests.oracles.logits import fold

DOWN = "model.layers.0.mlp.down_proj"


def sylvester(size: int) -> Array:
    """Entry (i, j) is minus where i & j has an odd number of bits; over the root."""
    at = np.arange(size)
    signs: Array = 1.0 - 2 * (np.bitwise_count(at[:, None] & at) % 2)
    return signs / np.sqrt(size)


def paley(order: int) -> Array:
    """A Hadamard matrix of ones that is not symmetric, of order q + 1 for a prime q = 3 mod 4: 12 of 11."""
    q = order - 1
    squares = {i * i % q for i in range(1, q)}
    residue = np.array(
        [[0 if i == j else 1 if (j - i) % q in squares else -1 for j in range(q)] for i in range(q)]
    )
    found = np.ones((order, order))
    found[1:, 1:] = residue + np.eye(q)
    found[1:, 0] = -1
    return found


def open_with(folder: Path, n: int, k: int, more: dict[str, DiskArray]) -> tuple[object, dict[str, Array]]:
    """down_proj made n x k, with further leaves; the checkpoint and what the module stores, in f64."""
    leaves = encode(tiny_tensor((n, k))) | beside(n, k) | more
    tensors(lambda held: held.update({f"{DOWN}.{leaf}": array for leaf, array in leaves.items()}))(folder)
    return open_checkpoint(folder), {leaf: a.array.astype(np.float64) for leaf, a in leaves.items()}


@pytest.mark.parametrize("rescaled", [False, True])
@pytest.mark.parametrize("stored", ["nothing", "ones", "a rotation"])
def test_the_whole_layer(tmp_path: Path, stored: str, rescaled: bool) -> None:
    n, k, q = (192, 192, 12) if stored == "ones" else (96, 320, 0) if stored == "a rotation" else (32, 128, 1)
    rng, folder = (
        np.random.default_rng(1),
        tiny_quip(tmp_path / "m", num_hidden_layers=1, keys={"rescale_WH": rescaled}),
    )
    left, right = np.ones((1, 1)), np.ones((1, 1))
    more: dict[str, DiskArray] = {}
    if stored == "ones":
        left, right = paley(q), paley(q)[::-1]
        assert np.array_equal(left @ left.T, q * np.eye(q)) and not np.array_equal(left, left.T)
    elif stored == "a rotation":
        left, right = (np.linalg.qr(rng.standard_normal((size, size)))[0] for size in (5, 3))
    if stored != "nothing":
        more = {
            "had_left": DiskArray("F32", left.astype(np.float32)),
            "had_right": DiskArray("F32", right.astype(np.float32)),
        }
    if rescaled:
        for name in {
            f"{m}.{p}" for m, ps in {"self_attn": "qkvo", "mlp": ("gate", "up", "down")}.items() for p in ps
        }:
            size = 128 if name == "mlp.down" else 64
            scale = DiskArray("F32", np.ones(size, np.float32))
            tensors(lambda held, n=name, s=scale: held.update({f"model.layers.0.{n}_proj.scaleWH": s}))(
                folder
            )
        more["scaleWH"] = DiskArray("F32", np.linspace(0.5, 2, k).astype(np.float32))
    checkpoint, held = open_with(folder, n, k, more)
    rotate = [
        np.kron(m / np.sqrt(q if stored == "ones" else 1), sylvester(size // len(m)))
        for m, size in ((left, k), (right, n))
    ]
    info = checkpoint.tensors[f"{DOWN}.weight"]  # type: ignore[attr-defined]
    weight = dequantize(checkpoint.read(f"{DOWN}.weight"))  # type: ignore[attr-defined]
    x = rng.standard_normal((k, 3))
    inner = rotate[0].T @ (held["SU"] / held.get("scaleWH", np.ones(k)) * x.T).T
    expected = held["SV"][:, None] * held["Wscale"] * (rotate[1] @ (weight @ inner))
    got = fold(checkpoint, weight, info.layer) @ x
    assert np.abs(expected).max() > 0.3 and np.abs(got - expected).max() < 1e-5
    plain = weight @ x
    assert np.abs(plain * 0.03 - expected).max() > 0.1


def test_a_zero_divides_nothing(tmp_path: Path) -> None:
    folder = tiny_quip(tmp_path / "m", num_hidden_layers=1)
    keys(inside="quip_params", rescale_WH=True)(folder)

    def change(held: dict[str, DiskArray]) -> None:
        for name in [name for name in held if name.endswith(".SU")]:
            held[f"{name.removesuffix('SU')}scaleWH"] = DiskArray(
                "F32", np.zeros(held[name].array.shape, np.float32)
            )

    tensors(change)(folder)
    with pytest.raises(
        Exception, match=r"scaleWH.* expected finite numbers other than 0, since inputs are divided by them"
    ):
        open_checkpoint(folder).read_auxiliary(f"{DOWN}.SU")  # type: ignore[attr-defined]
