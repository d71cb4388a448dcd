"""Tiny QuIP# and QuIP-for-all folders for tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from fewbit.formats.folder.writer import DiskArray, as_disk, write_json, write_weights
from fewbit.formats.quip.encode import config_of, encode, encode_in_order, params_of
from fewbit.schemes.arrays import Array
from fewbit.schemes.lattice.scheme import E8P12, E8P12RVQ3B, E8P12RVQ4B
from fewbit.schemes.plain.scheme import BF16
from fewbit.schemes.reference import quantize
from fewbit.spec.scheme import QuantTensor, Scheme
from tests.formats.plain.fixture import write_tiny_files
from tests.formats.tiny import tiny_config, tiny_weights

SCHEMES = {"2 bits": E8P12, "3 bits": E8P12RVQ3B, "4 bits": E8P12RVQ4B}
FUSED = {"qkv_proj": ("q_proj", "k_proj", "v_proj"), "upgate_proj": ("up_proj", "gate_proj")}


def tiny_tensor(shape: tuple[int, int], scheme: Scheme = E8P12, seed: int = 0) -> QuantTensor:
    """Random codes."""
    rng, parts = np.random.default_rng((seed, *shape)), {}
    for role, extents in scheme.part_shapes(*shape).items():
        bits = scheme.part_dtypes()[role].bits
        if role == "residual_scale":
            parts[role] = np.array([1 / 3.25], np.float32)
        else:
            parts[role] = rng.integers(0, 1 << bits, extents).astype(f"u{bits // 8}")
    return QuantTensor(scheme, shape, parts)


def beside(n: int, k: int, seed: int = 0) -> dict[str, DiskArray]:
    """Scales of a module: not only signs, as after fine tuning."""
    rng = np.random.default_rng((seed, n, k, 1))

    def vector(length: int) -> DiskArray:
        signs = rng.choice([-1, 1], length) * (1 + 0.1 * rng.standard_normal(length))
        return DiskArray("F16", signs.astype(np.float16))

    return {"SU": vector(k), "SV": vector(n), "Wscale": DiskArray("F32", np.array(0.03, np.float32))}


def rows(weights: dict[str, Array], fused: bool) -> dict[str, tuple[int, int]]:
    """Shapes of the quantized modules; `fused`: of what QuIP# quantizes as one."""
    shapes = {n.removesuffix(".weight"): w.shape for n, w in weights.items() if "proj" in n}
    if not fused:
        return {name: (shape[0], shape[1]) for name, shape in shapes.items()}
    found: dict[str, tuple[int, int]] = {}
    for name, (n, k) in shapes.items():
        parent, _, last = name.rpartition(".")
        whole = next((f"{parent}.{w}" for w, of in FUSED.items() if last in of), name)
        found[whole] = (found.get(whole, (0, 0))[0] + n, k)
    return found


def tiny_quip(
    folder: Path,
    scheme: Scheme = E8P12,
    *,
    in_order: bool = False,
    fused: bool = False,
    seed: int = 0,
    keys: dict[str, Any] | None = None,
    **changes: Any,
) -> Path:
    """`in_order`: as QuIP-for-all writes. `keys` are added to what declares the quantization."""
    folder.mkdir(parents=True, exist_ok=True)
    config = tiny_config(**changes)
    weights = tiny_weights(config, seed)
    stored = {name: as_disk(quantize(weight, BF16)) for name, weight in weights.items() if "proj" not in name}
    for module, shape in rows(weights, fused).items():
        tensor = tiny_tensor(shape, scheme, seed)
        leaves = (encode_in_order if in_order else encode)(tensor) | beside(*shape, seed)
        if in_order:
            leaves["weight"] = DiskArray("F16", np.array(0, np.float16))
        if projections := FUSED.get(module.rpartition(".")[2]):
            scales = np.linspace(0.5, 2, len(projections)).astype(np.float32)
            leaves["fuse_scales"] = DiskArray("F32", scales)
        stored |= {f"{module}.{leaf}": array for leaf, array in leaves.items()}
    write_weights(folder, stored)
    write_tiny_files(folder, config)
    says = config_of(tensor, **(keys or {})) if in_order else params_of(tensor, **(keys or {}))
    write_json(folder / "config.json", {**config, "quantization_config" if in_order else "quip_params": says})
    return folder
