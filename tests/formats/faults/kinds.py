"""Every kind of fault, by name."""

from __future__ import annotations

from tests.formats.faults.container import lying_lengths, overflowing_shapes, overlaps, wrong_shards
from tests.formats.faults.declaration import BITS, algorithms, removed, replaced, unknown_keys
from tests.formats.faults.place import Places
from tests.formats.faults.tensors import (
    extra_tensors,
    indices,
    missing_tensors,
    not_finite,
    wrong_shapes,
    wrong_types,
)

KINDS: dict[str, Places] = {
    "lengths that lie": lying_lengths,
    "overlapping tensors": overlaps,
    "overflowing shapes": overflowing_shapes,
    "wrong shards": wrong_shards,
    "a missing tensor": missing_tensors,
    "an extra tensor": extra_tensors,
    "a wrong shape": wrong_shapes,
    "a wrong type": wrong_types,
    "a scale that is not finite": not_finite,
    "an index out of range": indices,
    "an unknown key": unknown_keys,
    "an unknown algorithm": algorithms,
    "an unknown bit width": replaced(BITS, (0, -4, 9, 17, 1 << 40, 2.5, "4")),
    "a group that does not divide K": replaced(("group_size", "in_group_size"), (48, 7, 1 << 40)),
    "a group that contradicts the tensors": replaced(("group_size", "in_group_size"), (64, 128)),
    "blocks that contradict the tensors": replaced(("weight_block_size",), ([16, 16], [48], [0, 48], [48, -48], "x", 48)),
    "a group that is none": replaced(("group_size", "in_group_size"), (0, -7, 1.5, "x", True)),
    "an absent key": removed(("bits", "num_bits", "quant_method", "quant_algo", "dtype", "nbits", "nbits_per_codebook")),
}  # fmt: skip
