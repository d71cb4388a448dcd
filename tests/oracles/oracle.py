"""One stored checkpoint: opened, dequantized, and its reference beside it."""

from __future__ import annotations

import hashlib
import shutil
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file

from fewbit.formats import open_checkpoint
from fewbit.schemes.arrays import round_bf16, widen_bf16
from fewbit.schemes.reference import dequantize
from tests.formats.gguf.fixture import to_disk_rows
from tests.oracles.store import Store

NOT_THE_TOOLS = ("reference.safetensors", "oracle.json")


@dataclass
class Oracle:
    """`folder` holds the tool's files alone: the reference would count as a second weight file."""

    name: str
    entry: dict[str, Any]
    folder: Path
    stored: Path

    @staticmethod
    def open(store: Store, name: str, scratch: Path) -> Oracle:
        stored, folder = store.checkpoint(name), scratch / store.name / name
        shutil.copytree(stored, folder, ignore=shutil.ignore_patterns(*NOT_THE_TOOLS))
        return Oracle(name, store.entries()[name], folder, stored)

    @property
    def is_cut(self) -> bool:
        """Some modules of a checkpoint only: not a model."""
        return bool(self.entry.get("cut"))

    @cached_property
    def checkpoint(self) -> Any:
        files = list(self.folder.glob("*.gguf"))
        return open_checkpoint(files[0] if files else self.folder)

    @cached_property
    def reference(self) -> dict[str, np.ndarray]:
        return load_file(self.stored / "reference.safetensors")

    @property
    def weights(self) -> dict[str, dict[str, Any]]:
        """Reference name to shape and sha256 of the whole f32 weight."""
        found: dict[str, dict[str, Any]] = self.entry["reference"].get("weights", {})
        return found

    def canonicals(self, name: str) -> list[str]:
        """The weights that one reference covers: of stacked experts one each, gate before up."""
        if self.checkpoint.format != "mxfp4":
            return [self.canonical(name)]
        module, _, stack = name.rpartition(".")
        projections = ("gate_proj", "up_proj") if stack == "gate_up_proj" else (stack,)
        names = [f"{module}.{e}.{p}.weight" for e in range(self.experts(module)) for p in projections]
        assert all(n in self.checkpoint.tensors for n in names)
        return names

    def experts(self, module: str) -> int:
        return sum(
            n.startswith(f"{module}.") and n.endswith("down_proj.weight") for n in self.checkpoint.tensors
        )

    def stack(self, name: str) -> np.ndarray:
        """[experts, in, out], as transformers holds them: gate and up in turn along the outputs."""
        weights = [dequantize(self.checkpoint.read(n)) for n in self.canonicals(name)]
        step = len(weights) // self.experts(name.rpartition(".")[0])
        runs = [np.stack(weights[i : i + step], axis=1) for i in range(0, len(weights), step)]
        return np.stack([run.reshape(-1, run.shape[-1]).T for run in runs])

    def canonical(self, name: str) -> str:
        """Of a reference's name; a GGUF's references have the file's own names."""
        if self.checkpoint.format != "gguf":
            return f"{name}.weight"
        return self.gguf_members(name)[0]

    def gguf_members(self, name: str) -> list[str]:
        """The canonical names of a GGUF's tensor: one, or one an expert in their order."""
        disk_name = name if name.endswith(".bias") else f"{name}.weight"
        return [n for n, info in self.checkpoint.tensors.items() if info.disk_name == disk_name]

    def quantized(self) -> set[str]:
        """Canonical names of what the manifest lists as quantized; a converter's lists every matrix, plain ones too."""
        if not self.name.startswith("gguf-convert-"):
            return {member for name in self.weights for member in self.canonicals(name)}
        members = {member for name in self.weights for member in self.gguf_members(name)}
        return {member for member in members if not self.checkpoint.tensors[member].scheme.is_plain}

    def weight(self, name: str) -> np.ndarray:
        """f32, in the row order of the reference; stacked experts whole."""
        if self.checkpoint.format == "gguf" and "_exps" in name:
            return np.stack([dequantize(self.checkpoint.read(member)) for member in self.gguf_members(name)])
        if self.checkpoint.format == "mxfp4":
            return self.stack(name)
        canonical = self.canonical(name)
        value = dequantize(self.checkpoint.read(canonical))
        permuted = self.checkpoint.format == "gguf" and self.checkpoint.model_type == "llama"
        if permuted and ("q_proj" in canonical or "k_proj" in canonical):
            value = to_disk_rows(value, self.checkpoint.config["head_dim"])
        return value

    def stored_rows(self, name: str, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Ours and theirs of the rows that the reference holds."""
        if f"weight.{name}" in self.reference:
            return weight, self.reference[f"weight.{name}"].reshape(weight.shape)
        return sampled_rows(weight), self.reference[f"weight_rows.{name}"]

    def reference_rows(self, name: str) -> np.ndarray:
        """The sampled rows of the tool's weight."""
        stored = self.reference.get(f"weight_rows.{name}")
        return sampled_rows(self.reference[f"weight.{name}"]) if stored is None else stored


def sampled_rows(weight: np.ndarray) -> np.ndarray:
    """The rows that a reference holds of a weight that is too large to keep; stacked experts count as more rows."""
    weight = weight.reshape(-1, weight.shape[-1])
    n = len(weight)
    return weight[sorted({0, 1, n // 3, n // 2, n - 2, n - 1})]


def rounded(weight: np.ndarray, how: Any) -> np.ndarray:
    """As the tool rounds its own dequantized weight."""
    match how:
        case "f16":
            return weight.astype(np.float16).astype(np.float32)
        case "f16 product":
            return weight.astype(np.float16).astype(np.float32) + np.float32(0)  # -0 + 0 = 0
        case "bf16":
            return widen_bf16(round_bf16(weight))
    return weight


def sha256(weight: np.ndarray) -> str:
    return hashlib.sha256(np.ascontiguousarray(weight, np.float32).tobytes()).hexdigest()
