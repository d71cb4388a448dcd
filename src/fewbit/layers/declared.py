"""Activations that a checkpoint declares: which kernels follow them, what `fewbit inspect` says, and the numbers they are given."""

from __future__ import annotations

from collections.abc import Callable

from fewbit.kernels.ops.input_codes import ASYMMETRIC, DYNAMIC, FIXED, UNSAID, InputCodes
from fewbit.schemes.arrays import Array
from fewbit.spec.cell import Choice
from fewbit.spec.dtype import I8
from fewbit.spec.layer_quant import InputQuant
from fewbit.spec.refusal import CheckpointError

TOKENS = "i8token"  # activation of the rows that follow int8 with one scale a token, or one of all


def declared_activation(inputs: InputQuant | None, asked: str) -> str:
    """What the cell of a layer asks for: rows by name where the checkpoint declares their kind, else what the user asked for."""
    return TOKENS if asked in ("auto", "8") and inputs is not None and _followed(inputs) else asked


def _followed(inputs: InputQuant) -> bool:
    whole = inputs.granularity.sharing == "token" or (
        inputs.granularity.sharing == "tensor" and inputs.is_static
    )
    return inputs.codes == I8 and whole and not inputs.global_scale and inputs.scale_dtype is None


def declared_note(inputs: InputQuant | None, asked: str, choice: Choice) -> str:
    """One line for a layer whose checkpoint declares quantized activations; "" where it declares none."""
    if inputs is None:
        return ""
    follow = all(row.activation == TOKENS or row.backend == "reference" for _, _, row in choice.rows)
    if follow and asked != "16" and _followed(inputs):
        return f"activations {_told(inputs)}, declared by the checkpoint"
    if inputs.codes == I8:
        return f"the checkpoint declares activations {_told(inputs)}; they are not rounded here, which is more exact than it asks"
    return f"declared {inputs.codes} activations are not rounded here: more exact than the checkpoint asks"


def _told(inputs: InputQuant) -> str:
    codes = f"int{inputs.codes.bits}" if not inputs.codes.is_float else inputs.codes.name
    if inputs.is_static:
        return f"{codes} of a fixed scale{' and zero point' if inputs.zero_point else ''}"
    by = inputs.granularity
    return f"{codes} per {'token' if by.sharing in ('token', 'tensor') else f'{by.k} of a token'}{'' if inputs.symmetric else ' with a zero point'}"


def input_codes(inputs: InputQuant | None, read: Callable[[str], Array]) -> InputCodes:
    """`read` gives the tensors that `inputs` names, in f32."""
    if inputs is None:
        return UNSAID
    if not inputs.is_static:
        return InputCodes(DYNAMIC, inputs.levels) if inputs.symmetric else InputCodes(ASYMMETRIC)
    scale = float(read(inputs.scale).reshape(-1)[0])
    zero = float(read(inputs.zero_point).reshape(-1)[0]) if inputs.zero_point else 0.0
    if not scale > 0 or zero != round(zero) or not -128 <= zero <= 127:
        raise CheckpointError(
            f"activations are quantized with {inputs.scale!r} = {scale:g} and zero point {zero:g}, expected a scale above 0 and a whole "
            "number from -128 to 127; the checkpoint is broken, type --activations 16 to leave activations as they are"
        )
    return InputCodes(FIXED, scale, int(zero))
