"""What is wrong with an AutoRound folder is said with file, tensor and rule."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from fewbit.formats import open_checkpoint
from fewbit.formats.auto_round.config import AWQ, FLOATS, FP8, Settings
from fewbit.spec.refusal import CheckpointError
from tests.formats.auto_round.fixture import tiny_auto_round
from tests.formats.gptq.test_malformed import DOWN, keys, put, tensors

Act = Callable[[Path], None]


def side_file(folder: Path) -> None:
    (folder / "quantization_config.json").write_text(json.dumps({"quant_method": "auto-round", "bits": 8}))


CASES: dict[str, tuple[Act, str]] = {
    "an unknown key": (keys(mystery=1), "key 'mystery' is unknown for the format auto_round"),
    "bits 5": (keys(bits=5), "says 5 bits of data_type 'int', which the packing"),
    "no bits": (keys(bits=...), "'bits' is absent"),
    "group 0": (keys(group_size=0), "'group_size' is 0"),
    "another packing": (keys(packing_format="auto_round:mystery"), "'packing_format' is 'auto_round:mystery'"),
    "AWQ of GPTQ's tensors": (keys(packing_format=AWQ), "no multiple of its group size 32"),
    "AWQ of 8 bits": (keys(packing_format=AWQ, bits=8), "says 8 bits of data_type 'int'"),
    "blocks of integers": (keys(group_size=[32, 32]), "'group_size' is [32, 32], which the packing 'auto_round:auto_gptq' does not have"),
    "no blocks of FP8": (keys(packing_format="auto_round:fp8", data_type="fp", bits=8), "it has rows and columns of blocks"),
    "three sizes of a block": (keys(group_size=[32, 32, 32]), "expected a whole number, or two for blocks"),
    "two sizes": (keys(weight_block_size=[64, 64]), "has group_size 32 and weight_block_size [64, 64], which contradict"),
    "integers called blocks": (keys(packing_format="auto_round:fp8", data_type="fp", bits=8, group_size=[32, 32]), "has no tensor 'weight'"),
    "integers called MXFP8": (keys(packing_format=FLOATS, data_type="mx_fp", bits=8), "has no tensor 'weight'"),
    "another data type": (keys(data_type="mystery"), "data_type 'mystery'"),
    "a group of MX": (keys(packing_format=FLOATS, data_type="mx_fp", group_size=64), "'group_size' is 64, expected 32 for mx_fp"),
    "asymmetric MX": (keys(packing_format=FLOATS, data_type="mx_fp", sym=False), "'sym' is false, which mx_fp cannot be"),
    "FP8 of dynamic activations": (keys(packing_format=FP8, data_type="fp", bits=8, group_size=-1, act_dynamic=True), "'act_dynamic' is not false"),
    "integers called NVFP4": (keys(packing_format=FLOATS, data_type="nv_fp", group_size=16), "has no tensor 'weight_packed'"),
    "a side file that differs": (side_file, "key 'bits' is 4, but"),
    "a rule with an unknown key": (keys(extra_config={"x": {"mystery": 1}}), "extra_config 'x': key 'mystery'"),
    "a rule that is no object": (keys(extra_config={"x": 4}), "extra_config 'x': is 4, expected an object"),
    "a rule that is no pattern": (keys(extra_config={"(": {}}), "extra_config '(': is no regular expression"),
    "a rule with bits 5": (keys(extra_config={"x": {"bits": 5}}), "extra_config 'x': says 5 bits"),
    "a rule of other bits": (keys(extra_config={".*down.*": {"bits": 8}}), f"tensor '{DOWN}.scales' (F16 [4, 64]), expected shape"),
    "a plain layer by name": (keys(extra_config={"lm_head": {"bits": 8}}), "module 'lm_head' is plain"),
    "a packed layer of 16 bits": (keys(extra_config={DOWN: {"bits": 16}}), f"module '{DOWN}' is left unquantized by extra_config"),
    "sym of other zero points": (put("qzeros", lambda z: z + 1), "has the zero point"),
    "no scales": (tensors(lambda held: held.pop(f"{DOWN}.scales")), f"module '{DOWN}' has no tensor 'scales'"),
    "scales of another type": (put("scales", lambda s: s.astype(np.int16)), f"tensor '{DOWN}.scales' (I16"),
    "NaN scales": (put("scales", lambda s: s * np.float16(np.nan)), f"tensor '{DOWN}.scales' has a NaN scale"),
    "a tensor too many": (tensors(lambda held: held.update({f"{DOWN}.extra": np.zeros(4, np.int32)})), f"'{DOWN}.extra' (I32 [4]) is taken by nothing"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_refused(tmp_path: Path, case: str) -> None:
    folder = tiny_auto_round(tmp_path / "m", Settings(4, 32))
    act, expected = CASES[case]
    act(folder)
    with pytest.raises(CheckpointError) as refusal:
        open_checkpoint(folder).read(f"{DOWN}.weight")
    assert expected in str(refusal.value) and str(folder) in str(refusal.value)
