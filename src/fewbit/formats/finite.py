"""No scale and no plain weight may be infinite or NaN, and no scale of NVFP4 negative: such a checkpoint is broken."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import numpy as np

from fewbit.schemes.arrays import Array
from fewbit.schemes.floats.table import values
from fewbit.spec.dtype import E2M1, E4M3
from fewbit.spec.refusal import CheckpointError
from fewbit.spec.scheme import QuantTensor

NO_NAMES: Mapping[str, str] = MappingProxyType({})
_EXPONENTS = {"f32": (np.uint32, 0x7F800000), "f16": (np.uint16, 0x7C00), "bf16": (np.uint16, 0x7F80)}


def check_finite(
    tensor: QuantTensor, file: Path, disk_name: str, first_row: int, part_names: Mapping[str, str] = NO_NAMES
) -> None:
    """Raises CheckpointError naming file, tensor, part and row. `part_names`: of roles that are tensors of their own."""
    for role, element in tensor.scheme.part_dtypes().items():
        part: Array = tensor.parts[role]
        if element.is_float and element.bits <= 8:
            _check_small(part, element.name, file, part_names.get(role, disk_name), role)
            if role == "scale" and (tensor.scheme.codes, element) == (E2M1, E4M3):
                _check_sign(part, file, part_names.get(role, disk_name), first_row)
        if element.name not in _EXPONENTS:
            continue
        bits_type, exponent = _EXPONENTS[element.name]
        bits = part.view(bits_type)
        # Shifting the sign out makes every non-finite value larger than every finite one: one pass and a maximum.
        for start in range(0, len(bits), step := max(1, (1 << 18) // max(1, bits[:1].size))):
            piece = bits[start : start + step]
            if piece.size and (piece << 1).max() >= exponent << 1:
                bad = np.argwhere((piece & exponent) == exponent)[0]
                row = first_row + start + int(bad[0])
                what = "weight" if role == "codes" else role
                value = "a NaN" if np.isnan(_value(piece[tuple(bad)], element.name)) else "an infinite"
                at = f"row {row}" + (f", column {int(bad[1])}" if len(bad) > 1 else "")
                raise CheckpointError(
                    f"{file}: tensor {part_names.get(role, disk_name)!r} has {value} {what} at {at}, expected finite numbers; the checkpoint "
                    "is broken, fetch or convert it again"
                )


def _check_small(part: Array, name: str, file: Path, disk_name: str, role: str) -> None:
    wrong = np.flatnonzero(~np.isfinite(values(name))).astype(np.uint8)
    # By rows, and not by a look-up in a table, which would take eight bytes an element.
    step = max(1, (1 << 18) // max(1, part[:1].size))
    pieces = (part[start : start + step] for start in range(0, len(part), step))
    if any((piece == code).any() for piece in pieces for code in wrong):
        at = tuple(int(i) for i in np.argwhere(np.isin(part, wrong))[0])
        raise CheckpointError(
            f"{file}: tensor {disk_name!r} has the {name} code {part[at]:#04x} at {list(at)}, which is no finite number, as "
            f"a {'weight' if role == 'codes' else role}; the checkpoint is broken, fetch or convert it again"
        )


def _check_sign(part: Array, file: Path, disk_name: str, first_row: int) -> None:
    """NVFP4's scales are e4m3 without a sign: hardware ignores the bit, so a set one means different things to readers."""
    if part.size and part.max() > 0x7F:
        row, column = (int(i) for i in np.argwhere(part > 0x7F)[0])
        raise CheckpointError(
            f"{file}: tensor {disk_name!r} has the negative scale {values('e4m3')[part[row, column]]:g} at row {first_row + row}, "
            f"column {column}, expected scales without a sign; the checkpoint is broken, fetch or convert it again"
        )


def _value(bits: Array, name: str) -> float:
    if name == "bf16":
        return float((bits.astype(np.uint32) << 16).view(np.float32))
    return float(bits.view(np.float32 if name == "f32" else np.float16))
