"""QQQ folders: the 8-bit codes that two levels of scales make, and what is wrong said with file, tensor and rule."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from fewbit.formats import open_checkpoint
from fewbit.spec.refusal import CheckpointError
from tests.formats.gptq.test_malformed import DOWN, keys
from tests.formats.modelslim.test_malformed import disk, put
from tests.formats.qqq.fixture import GROUP, SIZES, tiny_parts, tiny_qqq
from tests.formats.tiny import tiny_config, tiny_weights


def test_what_was_written_is_read(tmp_path: Path) -> None:
    checkpoint = open_checkpoint(tiny_qqq(tmp_path / "m", seed=3))
    assert checkpoint.format == "qqq"
    for name, weight in tiny_weights(tiny_config(**SIZES, num_hidden_layers=1), 3).items():
        found = checkpoint.read(name)
        if "proj" not in name:
            assert found.scheme.is_plain
            continue
        codes, groups, channel = tiny_parts(weight.shape, 3)
        steps = (codes.astype(np.float32) - 8) * groups.astype(np.float32).repeat(GROUP, axis=1)
        expected = np.clip(np.round(steps), -128, 127)
        assert (np.abs(steps) > 128).any() and set(np.unique(codes)) == set(range(16))
        assert str(found.scheme) == "i8channel" and np.array_equal(found.parts["codes"], expected)
        assert np.array_equal(found.parts["scale"], channel)
        piece = checkpoint.read(name, 70, 131)
        assert np.array_equal(piece.parts["codes"], expected[70:131])
        assert np.array_equal(piece.parts["scale"], channel[70:131])


CASES: dict[str, tuple[Callable[[Path], None], str]] = {
    "an unknown key": (keys(mystery=1), "key 'mystery' is unknown for the format qqq"),
    "bits 8": (keys(bits=8), "'bits' is 8, which is not supported"),
    "one group": (keys(group_size=-1), "'group_size' is -1, which is not supported"),
    "no group": (keys(group_size=...), "'group_size' is absent"),
    "activation order": (keys(desc_act=True), "'desc_act' is True, which is not supported"),
    "lm_head true": (keys(lm_head=True), "module 'lm_head' is plain"),
    "no scales": (disk(lambda held: held.pop(f"{DOWN}.s_group")), f"module '{DOWN}' has no tensor 's_group'"),
    "scales of another type": (put("s_group", lambda s: s.astype(np.float32), "F32"), f"tensor '{DOWN}.s_group' (F32"),
    "scales of another shape": (put("s_channel", lambda s: s[:, :-1]), f"tensor '{DOWN}.s_channel' (F32 [1, 255]), expected shape [1, 256]"),
    "NaN scales of groups": (put("s_group", lambda s: s * np.float16(np.nan)), f"tensor '{DOWN}.s_group' (F16 [2, 256]) has a NaN"),
    "NaN scales": (put("s_channel", lambda s: s * np.float32(np.nan)), f"tensor '{DOWN}.s_channel' has a NaN scale"),
    "words cut": (put("B", lambda w: w[:, :-1]), "64 outputs at a time"),
    "one group of words": (put("B", lambda w: w[:8]), "has K=128, expected at least two groups of 128"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_refused(tmp_path: Path, case: str) -> None:
    folder = tiny_qqq(tmp_path / "m")
    act, expected = CASES[case]
    act(folder)
    with pytest.raises(CheckpointError) as refusal:
        open_checkpoint(folder).read(f"{DOWN}.weight")
    assert expected in str(refusal.value) and str(folder) in str(refusal.value)
