"""msModelSlim on a CPU: its files say (weight - weight_offset) * weight_scale."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import common
from msmodelslim.pytorch.llm_ptq.llm_ptq_tools import Calibrator, QuantConfig


def write(folder: Path, case: dict[str, Any]) -> common.Weights:
    model = common.llama(case, "f32")
    rows = [[row[None]] for row in common.token_ids(case, 4, 32)]
    config = QuantConfig(disable_names=["lm_head"], dev_type="cpu", **case["settings"])
    calibrator = Calibrator(model, config, calib_data=rows, disable_level="L0")
    calibrator.run()
    made = folder.with_name(f"{folder.name}-made")
    made.mkdir()
    calibrator.save(str(made), save_type=["safe_tensor"])
    shutil.copytree(made, folder, copy_function=shutil.copyfile)
    (folder / "config.json").write_text(json.dumps(common.llama_config(case)))
    return dequantized(folder)


def dequantized(folder: Path) -> common.Weights:
    stored, found = common.stored_tensors(folder), {}
    for name in stored:
        if name.endswith(".weight_scale"):
            weight = stored[name.removesuffix("_scale")].float()
            scale, offset = stored[name].float(), stored[f"{name.removesuffix('scale')}offset"].float()
            length = weight.shape[1] // (scale.numel() // weight.shape[0])
            by_column = [
                part.reshape(weight.shape[0], -1).repeat_interleave(length, 1) for part in (scale, offset)
            ]
            found[name.removesuffix("_scale")] = (weight - by_column[1]) * by_column[0]
    return found


common.main(write=write)
