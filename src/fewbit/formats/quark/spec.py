"""Quark's description of one tensor: element type, what shares a scale, and how the scale is stored."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fewbit.formats.folder.config import Reader
from fewbit.formats.folder.keys import Key

ELEMENTS = ("fp8_e4m3", "int8", "int4", "uint4", "fp4", "fp6_e2m3", "fp6_e3m2")
SCHEMES = ("per_tensor", "per_channel", "per_group")
SPEC_KEYS: dict[str, Key] = {
    "dtype": Key("string", required=True),
    "qscheme": Key("string", required=True, only=SCHEMES),
    "group_size": Key("count", default=0),
    "symmetric": Key("bool", default=True),
    "is_dynamic": Key("bool", default=False),
    "is_scale_quant": Key("bool", default=False),
    "scale_format": Key("string", default="float32", only=("float32", "float", "e8m0")),
    "ch_axis": Key("whole"),
    "block_size": Key("any"),
    "mx_element_dtype": Key("string"),
}
# How the numbers were found, or the type in memory: the tensors say what is stored.
HARMLESS = frozenset({
    "observer_cls", "round_method", "scale_calculation_mode", "scale_type", "zero_point_type", "enable_buffer_reuse",
    "max_input_numel", "is_mse", "qat_spec",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """`scaled`: the scales of groups are themselves e4m3, with one scale for the tensor above them (NVFP4). `progressive`:
    INT4 made of the tensor in FP8, so its scales by row are those of an FP8 tensor, which has one scale more."""

    element: str
    scheme: str
    group: int = 0
    symmetric: bool = True
    dynamic: bool = False
    powers: bool = False
    scaled: bool = False
    progressive: bool = False

    def __str__(self) -> str:
        return f"{self.element} {self.scheme}" + (f" {self.group}" if self.group else "")


def read_spec(where: str, value: Any) -> TensorSpec:
    """A spec, or a pair: that of the values and that of their scales."""
    specs = value if isinstance(value, list) else [value]
    readers = [Reader(where, spec if isinstance(spec, dict) else {}) for spec in specs]
    if not readers or len(readers) > 2 or not all(isinstance(spec, dict) for spec in specs):
        Reader(where, {}).fail(f"is {repr(value)[:80]}, expected a spec of one or two levels")
    first = _one(readers[0])
    if len(readers) == 2:
        second = _one(readers[1])
        levels = tuple((spec.element, spec.scheme) for spec in (first, second))
        if levels == (("fp8_e4m3", "per_tensor"), ("int4", "per_channel")) and second.symmetric:
            return TensorSpec("int4", "per_channel", dynamic=second.dynamic, progressive=True)
        if levels != (("fp4", "per_group"), ("fp8_e4m3", "per_tensor")):
            readers[0].fail(
                f"has the levels {first} and {second}, which are not supported (supported: fp4 per_group with fp8_e4m3 "
                "per_tensor, fp8_e4m3 per_tensor with symmetric int4 per_channel)"
            )
        return TensorSpec(first.element, first.scheme, first.group, dynamic=first.dynamic, scaled=True)
    return first


def _one(reader: Reader) -> TensorSpec:
    values = reader.all(SPEC_KEYS, HARMLESS, "a spec of quark")
    for key in ("block_size", "mx_element_dtype"):
        if values[key] is not None:
            reader.fail(f"key {key!r} is {str(values[key])[:80]}, which is not supported (supported: null)")
    if (values["qscheme"] == "per_group") != bool(values["group_size"]):
        reader.fail(
            f"has qscheme {values['qscheme']!r} and group_size {values['group_size']}, which contradict each other"
        )
    powers = values["scale_format"] == "e8m0"
    return TensorSpec(
        values["dtype"],
        values["qscheme"],
        values["group_size"],
        values["symmetric"],
        values["is_dynamic"],
        powers,
    )
