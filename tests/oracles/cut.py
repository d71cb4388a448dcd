"""Cuts the subset of checkpoints that a clone carries out of the whole folder.

usage: python -m tests.oracles.cut WHOLE_FOLDER DESTINATION

Of most checkpoints one module of every scheme in them stays (with the attention's cache scales), each tensor with the bytes
that the tool wrote; of those in KEPT_WHOLE every file stays as it is. What names every tensor (an index, a description, the
container's header) is cut alike. References: sha256 of whole weights in the manifest, some rows, and the logits compared.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

from tests.oracles.cut_files import cut_gguf, cut_json, cut_safetensors
from tests.oracles.oracle import Oracle
from tests.oracles.store import Store
from tests.oracles.table import CHECKS, KEPT_WHOLE, NO_REFERENCE

LEFT_OUT = {"recipe.yaml", "quant_log.csv", "generation_config.json"}  # no part of what is read
NEEDED = "token_embd"  # without it a GGUF holds no model
OWNERS = {"ct-w4a16-quip-hadamard": "model.layers.0.self_attn.q_proj"}  # of tensors that modules share


def cut(whole: Store, destination: Path) -> None:
    entries = []
    with tempfile.TemporaryDirectory() as scratch:
        for name in sorted(CHECKS.keys() - {NO_REFERENCE}):
            oracle = Oracle.open(whole, name, Path(scratch))
            modules = list(oracle.weights) if name in KEPT_WHOLE else one_of_each_scheme(oracle)
            folder = destination / "checkpoints" / name
            folder.mkdir(parents=True)
            for file in sorted(oracle.folder.iterdir()):
                if name in KEPT_WHOLE:
                    shutil.copyfile(file, folder / file.name)
                elif file.name not in LEFT_OUT:
                    cut_file(file, folder / file.name, modules)
            save_file(reference(oracle, modules), folder / "reference.safetensors")
            entries.append(entry(oracle, modules))
    (destination / "manifest.json").write_text(json.dumps({"checkpoints": entries}, indent=1) + "\n")


def one_of_each_scheme(oracle: Oracle) -> list[str]:
    """Names of references: for each scheme of weights and inputs the smallest module, an expert apart."""
    found: dict[Any, str] = {}
    first = OWNERS.get(oracle.name, NEEDED)
    for name in sorted(oracle.weights, key=lambda n: (n != first, np.prod(oracle.weights[n]["shape"]), n)):
        info = oracle.checkpoint.tensors[oracle.canonicals(name)[0]]
        inputs = info.layer.input_quant
        expert = "exp" in name and (
            name.rpartition(".")[2] if oracle.checkpoint.format == "mxfp4" else "numbered"
        )
        key = (info.scheme, inputs and (inputs.codes, inputs.granularity), bool(info.layer.pre_scale), expert)
        if not info.scheme.is_plain:
            found.setdefault(key, name)
    return sorted(found.values())


def cut_file(source: Path, target: Path, modules: list[str]) -> None:
    match source.suffix:
        case ".gguf":
            cut_gguf(source, target, lambda name: belongs(name, modules))
        case ".safetensors":
            cut_safetensors(source, target, lambda name: belongs(name, modules))
        case ".json":
            cut_json(source, target, lambda name: belongs(name, modules))
        case _:
            raise ValueError(f"{source}: no rule says whether this file is cut, copied or left out")


def belongs(tensor: str, modules: Iterable[str]) -> bool:
    """Of a module, or a cache scale of a module's attention."""
    if tensor == f"{NEEDED}.weight" or any(
        tensor == m or tensor.startswith((f"{m}.", f"{m}_")) for m in modules
    ):
        return True
    attention, _, leaf = tensor.rpartition(".")
    return leaf in ("k_scale", "v_scale", "output_scale") and any(
        m.startswith(f"{attention.removesuffix('.k_proj').removesuffix('.v_proj')}.") for m in modules
    )


def reference(oracle: Oracle, modules: list[str]) -> dict[str, np.ndarray]:
    """Rows of each weight, and for a checkpoint kept whole the logits that are compared."""
    held = {f"weight_rows.{name}": oracle.reference_rows(name) for name in modules}
    if oracle.name in KEPT_WHOLE:
        names = ("input_ids", CHECKS[oracle.name].logits)
        held |= {name: oracle.reference[name] for name in names if name}
    return held


def entry(oracle: Oracle, modules: list[str]) -> dict[str, Any]:
    """Of the manifest: by what it was written, and the whole weights' sha256."""
    kept = {key: oracle.entry[key] for key in ("name", "tool", "versions", "format", "scheme")}
    weights = {name: oracle.weights[name] for name in modules}
    return kept | {"cut": oracle.name not in KEPT_WHOLE, "reference": {"weights": weights}}


def main() -> None:
    whole, destination = map(Path, sys.argv[1:])
    cut(Store("whole", whole), destination)


if __name__ == "__main__":
    main()
