"""2:4 sparse integers in the order of the Marlin kernel, against a writer that walks the layout place by place."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fewbit.formats import open_checkpoint
from fewbit.formats.compressed_tensors.encode import args_of
from fewbit.formats.folder.packing import pack_bits
from fewbit.formats.folder.writer import DiskArray
from fewbit.spec.dtype import F16, dtype
from fewbit.spec.granularity import CHANNEL, Granularity, group
from fewbit.spec.refusal import CheckpointError
from fewbit.spec.scheme import Scheme
from tests.formats.compressed_tensors.test_checkpoint import DOWN, folder_of
from tests.formats.tiny import tiny_config

INNER = 512
N, K = 64, INNER


def tensor_of(bits: int, grain: Granularity) -> tuple[Scheme, dict[str, np.ndarray]]:
    rng = np.random.default_rng(bits)
    scheme = Scheme(dtype(f"i{bits}"), grain, F16, mask=True)
    mask = (rng.random((N, K // 4, 4)).argsort(axis=2) < 2).reshape(N, K)
    codes = rng.integers(scheme.codes.lowest, scheme.codes.highest + 1, (N, K)).astype(np.int8)
    groups = 1 if grain is CHANNEL else K // grain.k
    return scheme, {
        "codes": np.where(mask, codes, 0).astype(np.int8),
        "scale": rng.random((N, groups)).astype(np.float16),
        "mask": mask.astype(np.uint8),
    }


def written(scheme: Scheme, parts: dict[str, np.ndarray]) -> dict[str, DiskArray]:
    bits, mask = scheme.codes.bits, parts["mask"].astype(bool)
    kept = (parts["codes"][mask].reshape(N, K // 2).astype(np.int64) + (1 << (bits - 1))).T  # K / 2, N
    order = []
    for thread in range(32):
        for part in range(4):
            for block in range(2):
                for row in (
                    2 * (thread % 4),
                    2 * (thread % 4) + 1,
                    2 * (thread % 4) + 8,
                    2 * (thread % 4) + 9,
                ):
                    column = thread // 4
                    order.append(16 * row + column // 2 * 256 + 8 * (column % 2) + 4 * block + part)
    lanes = [0, 2, 4, 6, 1, 3, 5, 7] if bits == 4 else [0, 2, 1, 3]
    shuffle = np.array(order).reshape(-1, len(lanes))[:, lanes].reshape(-1)
    tiles = kept.reshape(K // 32, 16, N // 16, 16).transpose(0, 2, 1, 3).reshape(K // 32, -1, 1024)
    codes = tiles[:, :, shuffle].reshape(K // 32, -1).astype(np.uint8)

    quads = np.argwhere(mask.reshape(N, K // 4, 4))[:, 2].reshape(N, K // 16, 4, 2)
    words = (quads[..., 0] | quads[..., 1] << 2) @ (1 << np.arange(0, 16, 4))
    meta = np.zeros(N * K // 16, np.uint16)
    for row in range(N):
        for column in range(K // 16):
            to_row = row // 64 * 64 + row % 2 * 2 + row % 8 // 4 + row % 4 // 2 * 32 + row % 64 // 8 * 4
            to_column = column
            if to_row % 2 == 0 and column % 2 == 1:
                to_row, to_column = to_row + 1, column - 1
            elif to_row % 2 == 1 and column % 2 == 0:
                to_row, to_column = to_row - 1, column + 1
            meta[to_column // 2 * 2 * N + to_row * 2 + to_column % 2] = words[row, column]
    scale = parts["scale"].T
    if scheme.granularity is not CHANNEL:
        scale = scale.reshape(-1, 8, 8)[:, :, [0, 4, 1, 5, 2, 6, 3, 7]].reshape(scale.shape)
    return {
        "weight_packed": DiskArray("I32", pack_bits(codes, bits).view(np.int32)),
        "meta": DiskArray("I16", meta.view(np.int16).reshape(K // 32, 2 * N)),
        "scale_packed": DiskArray("F16", np.ascontiguousarray(scale)),
    }


def declared(scheme: Scheme) -> dict[str, object]:
    linear = {"targets": [DOWN], "weights": args_of(scheme)}
    return {"quant_method": "compressed-tensors", "format": "marlin-24", "config_groups": {"group_0": linear}}


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("grain", [CHANNEL, group(128), group(32)], ids=str)
def test_what_was_written_is_read(tmp_path: Path, bits: int, grain: Granularity) -> None:
    scheme, parts = tensor_of(bits, grain)
    folder = folder_of(tmp_path / "m", written(scheme, parts), declared(scheme), intermediate_size=INNER)
    assert tiny_config(intermediate_size=INNER)["hidden_size"] == N
    checkpoint = open_checkpoint(folder)
    found, piece = checkpoint.read(f"{DOWN}.weight"), checkpoint.read(f"{DOWN}.weight", 5, 29)
    assert found.scheme == scheme
    for role, part in parts.items():
        assert np.array_equal(found.parts[role], part), role
        assert np.array_equal(piece.parts[role], part[5:29]), role


CASES = {
    "a column kept twice": ("meta", lambda a: a * 0, "keeps a column twice in row 0 at column 0"),
    "meta of another shape": ("meta", lambda a: a[:-1], "expected shape [16, 128]"),
    "words of other rows": ("weight_packed", lambda a: a[:, :-1], "of a multiple of 64 output rows"),
    "scales of another shape": ("scale_packed", lambda a: a[:-1], "expected shape [4, 64]"),
    "NaN scales": ("scale_packed", lambda a: a * np.float16(np.nan), "has a NaN scale"),
}


@pytest.mark.parametrize("case", CASES)
def test_refused(tmp_path: Path, case: str) -> None:
    leaf, change, expected = CASES[case]
    scheme, parts = tensor_of(4, group(128))
    leaves = written(scheme, parts)
    leaves[leaf] = DiskArray(leaves[leaf].kind, np.ascontiguousarray(change(leaves[leaf].array)))
    folder = folder_of(tmp_path / "m", leaves, declared(scheme), intermediate_size=INNER)
    with pytest.raises(CheckpointError) as refusal:
        open_checkpoint(folder).read(f"{DOWN}.weight")
    assert expected in str(refusal.value) and str(folder) in str(refusal.value)


@pytest.mark.parametrize("leaf", ["meta", "scale_packed", "weight_packed"])
def test_every_tensor_is_needed(tmp_path: Path, leaf: str) -> None:
    scheme, parts = tensor_of(4, group(128))
    leaves = {name: array for name, array in written(scheme, parts).items() if name != leaf}
    folder = folder_of(tmp_path / "m", leaves, declared(scheme), intermediate_size=INNER)
    with pytest.raises(CheckpointError, match=f"has no tensor '{leaf}'"):
        open_checkpoint(folder)
