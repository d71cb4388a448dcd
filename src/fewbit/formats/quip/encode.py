"""Canonical tensors as QuIP# and QuIP-for-all write them: the exact inverse of `decode`."""

from __future__ import annotations

from typing import Any

import numpy as np

from fewbit.formats.folder.writer import DiskArray
from fewbit.formats.quip.config import CODEBOOKS, METHOD
from fewbit.formats.quip.decode import TILE, renumber, signs_of_quip
from fewbit.schemes.arrays import Array
from fewbit.spec.scheme import QuantTensor, Scheme


def codebook_of(scheme: Scheme) -> str:
    """ValueError when no codebook says what the scheme says."""
    for name, book in CODEBOOKS.items():
        if book.scheme == scheme:
            return name
    raise ValueError(f"QuIP# cannot express the scheme {scheme}")


def encode(tensor: QuantTensor) -> dict[str, DiskArray]:
    """What QuIP# stores of the codes, by leaf."""
    number, parts = CODEBOOKS[codebook_of(tensor.scheme)].number, tensor.parts
    if tensor.shape[0] % TILE or tensor.shape[1] % 64:
        raise ValueError(
            f"QuIP# packs {TILE} rows and 64 columns together, got a weight of shape {tensor.shape}"
        )
    words = [to_tiles(parts["codes"])]
    if "residual_codes" in parts:
        residual = parts["residual_codes"]
        words.append(
            to_tiles(residual) if residual.itemsize == 2 else np.ascontiguousarray(residual).view(np.int64)
        )
    return {
        "Qidxs": DiskArray("I64", np.concatenate(words, axis=1)),
        "codebook_id": DiskArray("I64", np.array(number, np.int64)),
    }


def encode_in_order(tensor: QuantTensor) -> dict[str, DiskArray]:
    """What QuIP-for-all stores of the codes, by leaf."""
    codebook_of(tensor.scheme)
    signs = np.argsort(signs_of_quip()).astype(np.uint16)
    fields = [renumber(tensor.parts["codes"], signs)]
    if "residual_codes" in tensor.parts:
        residual = tensor.parts["residual_codes"]
        fields.insert(0, renumber(residual, signs) if residual.itemsize == 2 else residual)
    records = np.concatenate([field[..., None].view(np.uint8) for field in fields], axis=-1)
    kind, held = ("I16", np.int16) if len(fields) == 1 else ("I32", np.int32)
    return {"Qidxs": DiskArray(kind, records.reshape(len(records), -1).view(held))}


def to_tiles(codes: Array) -> Array:
    """i64 [N, runs / 4] from u16 codes [N, runs]."""
    n, runs = codes.shape
    blocks = codes.astype(np.uint64).reshape(n // 2, 2, runs // 2, 2)
    pairs = np.zeros((n // 2, runs // 2), np.uint64)
    for i in range(4):
        code = blocks[:, i % 2, :, i // 2]
        pairs |= code >> np.uint64(8) << np.uint64(8 * i)
        for bit in range(8):
            pairs |= (code >> np.uint64(bit) & np.uint64(1)) << np.uint64(32 + 4 * bit + i)
    tiles = pairs.reshape(n // TILE, 8, runs // 8, 4).swapaxes(1, 2)
    return np.ascontiguousarray(tiles).view(np.int64).reshape(n, runs // 4)


def params_of(tensor: QuantTensor, rescaled: bool = False, **more: Any) -> dict[str, Any]:
    """The `quip_params` of a folder whose modules are like this tensor."""
    name = codebook_of(tensor.scheme)
    scale = tensor.parts.get("residual_scale")
    return {
        "codebook": name, "codebook_version": CODEBOOKS[name].version, "codesz": 8, "idx_dtype": "torch.int64",
        "packsz": {"E8P12": 4, "E8P12RVQ4B": 2, "E8P12RVQ3B": 8 / 3}[name], "lora_rank": 0, "rescale_WH": rescaled,
        "resid_scale_override": -1 if scale is None else 1 / float(scale[0]), "model_version": 1, **more,
    }  # fmt: skip


def config_of(tensor: QuantTensor, **more: Any) -> dict[str, Any]:
    """The `quantization_config` of QuIP-for-all."""
    scale = tensor.parts.get("residual_scale")
    return {
        "quant_method": METHOD, "rescale_WH": False, "use_rand": True, "codebook": codebook_of(tensor.scheme), "codesz": 8,
        "idx_dtype": "torch.int16" if scale is None else "torch.int32", "merge_suv": False, "per_channel": False,
        "opt_resid_scale": None if scale is None else float(scale[0]), "modules_to_not_convert": None, **more,
    }  # fmt: skip
