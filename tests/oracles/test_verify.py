"""`fewbit inspect --verify` of stored checkpoints: sound as they are, and a lost, renamed or retyped tensor is named."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from fewbit.formats import open_checkpoint
from fewbit.formats.files import CheckedFile
from fewbit.formats.folder.checkpoint import FolderCheckpoint
from fewbit.formats.folder.safetensors import DTYPES, read_header, read_metadata
from fewbit.formats.folder.writer import DiskArray, safetensors_bytes
from fewbit.loader.verify import verify
from fewbit.models import FAMILIES
from fewbit.schemes.arrays import array_dtype
from fewbit.spec.refusal import CheckpointError
from tests.oracles.oracle import Oracle
from tests.oracles.store import Store
from tests.oracles.table import CHECKS
from tests.oracles.test_oracles import STORED, each

Open = Callable[[Store, str], Oracle]
UNLIKE = {  # a type that no format allows in place of another
    "F32": "F64", "F16": "F64", "BF16": "F64", "F64": "F32", "F8_E4M3": "F16", "U8": "F16", "I8": "F16", "I16": "F16",
    "I32": "F32", "U32": "F32", "I64": "F64",
}  # fmt: skip
SILENT = {
    ("mo-int4-awq", "pre_quant_scale"): "with one layer, it may have been folded into what comes before",
    ("mo-w4a8-awq", "pre_quant_scale"): "with one layer, it may have been folded into what comes before",
    (
        "ar-mixed-bits",
        "qzeros",
    ): "the config says sym, so zero points are the middle; the only module of its rule",
}
"""Tensors whose loss nothing can show: what they say is known without them, or may rightly lie elsewhere."""
LONELY = frozenset({
    "input_scale", "input_scale_2", "input_global_scale", "input_zero_point", "weight_zero_point", "pre_quant_scale", "qzeros",
    "g_idx", "weight_format", "k_scale", "v_scale", "output_scale", "weight_scale_2",
})  # fmt: skip
"""Optional leaves, whose loss shows beside other modules: where a checkpoint was cut to one module, nothing shows it."""
FOLDERS = [(store, name) for store, name in STORED if CHECKS[name].format not in ("gguf", "plain")]


@each(STORED)
def test_a_stored_checkpoint_is_complete(store: Store, name: str, oracle: Open) -> None:
    found = oracle(store, name)
    checkpoint = found.checkpoint
    told = verify(checkpoint)
    served = checkpoint.model_type in FAMILIES and not found.is_cut
    assert _but_cut(told.faults, found) == [] and not told.zero
    assert told.parameters == (len(checkpoint.tensors) if served else None)
    assert sum(kind.tensors for kind in told.kinds) == len(checkpoint.tensors)
    assert told.bytes_read == sum(info.bytes_on_disk for info in checkpoint.tensors.values()) > 0


@each(FOLDERS)
def test_a_lost_renamed_or_retyped_tensor_is_named(
    store: Store, name: str, oracle: Open, tmp_path: Path
) -> None:
    """One tensor of each leaf and role that a quantized weight or its surroundings are made of."""
    found, folder = oracle(store, name), tmp_path / name
    shutil.copytree(found.folder, folder)
    weights = next(folder.glob("*.safetensors"))
    good, header = _read(weights)
    for tensor, names in _leaves(found.checkpoint):
        leaf, kind = tensor.rpartition(".")[2], good[tensor].kind
        cases = {
            "lost": {n: t for n, t in good.items() if n != tensor},
            "renamed": {f"{n}_old" if n == tensor else n: t for n, t in good.items()},
            f"as {UNLIKE[kind]}": good | {tensor: _zeros(good[tensor], UNLIKE[kind])},
        }
        for what, tensors in cases.items():
            weights.write_bytes(safetensors_bytes(tensors, header))
            faults = _but_cut(_faults(folder), found)
            if what == "lost" and (name, leaf) in SILENT:
                assert not faults
                continue
            if found.is_cut and leaf in LONELY and not what.startswith("as ") and not faults:
                continue
            assert faults, f"{tensor} {what}: nothing is said"
            assert any(_names(one, fault) for one in names for fault in faults), f"{tensor} {what}: {faults}"


def _faults(folder: Path) -> list[str]:
    try:
        checkpoint = open_checkpoint(folder)
    except CheckpointError as error:
        return [str(error)]
    try:
        return verify(checkpoint).faults
    finally:
        checkpoint.close()


def _but_cut(faults: list[str], found: Oracle) -> list[str]:
    """Without the one that says of a part of a checkpoint that it is a part."""
    return [fault for fault in faults if not (found.is_cut and "does not fit its config" in fault)]


def _read(path: Path) -> tuple[dict[str, DiskArray], dict[str, str]]:
    file = CheckedFile(path)
    try:
        tensors = {name: DiskArray(t.kind, t.whole().copy()) for name, t in read_header(file).items()}
        return tensors, read_metadata(file)
    finally:
        file.close()


def _leaves(checkpoint: FolderCheckpoint) -> Iterator[tuple[str, list[str]]]:
    """A disk tensor of each kind, with the names that an error may call it by."""
    found: dict[tuple[str, str, str], tuple[str, list[str]]] = {}
    for resolved in checkpoint._resolution.tensors.values():
        for role, part in resolved.parts.items():
            for tensor in part.tensors if not resolved.scheme.is_plain else ():
                key = (role, tensor.name.rpartition(".")[2], tensor.kind)
                found.setdefault(key, (tensor.name, [tensor.name]))
    for name, auxiliary in checkpoint.auxiliary.items():
        tensor = auxiliary.part.tensors[0]
        key = ("beside", tensor.name.rpartition(".")[2], tensor.kind)
        found.setdefault(key, (tensor.name, [tensor.name, name]))
    for name in checkpoint.explained:
        found.setdefault(("explained", name.rpartition(".")[2], ""), (name, [name]))
    for tensor_name, names in found.values():
        shared = re.sub(
            r"^.*\.(?=(v_input|u_output)\.weight$)", "", tensor_name
        )  # one matrix for all modules
        yield tensor_name, [*names, shared]


def _names(tensor: str, text: str) -> bool:
    """Whole, or as a module and its leaf."""
    parts = tensor.split(".")
    cuts = [(".".join(parts[:i]), ".".join(parts[i:])) for i in range(1, len(parts))]
    return tensor in text or any(f"'{module}'" in text and leaf in text for module, leaf in cuts)


def _zeros(tensor: DiskArray, kind: str) -> DiskArray:
    array: Any = np.zeros(tensor.array.shape, array_dtype(DTYPES[kind]))
    return DiskArray(kind, array)
