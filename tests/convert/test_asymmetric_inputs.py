"""Dynamic activations with a zero point keep it when they are written in another format."""

from __future__ import annotations

import pytest

from fewbit.convert.targets.compressed_tensors import input_args
from fewbit.convert.targets.quark import input_spec
from fewbit.spec.dtype import I8
from fewbit.spec.granularity import TENSOR, TOKEN
from fewbit.spec.layer_quant import InputQuant


@pytest.mark.parametrize("said", [input_args, input_spec])
@pytest.mark.parametrize(
    ("inputs", "symmetric"),
    [
        (InputQuant(I8, TOKEN), True),
        (InputQuant(I8, TOKEN, symmetric=False), False),
        (InputQuant(I8, TENSOR, "m.input_scale"), True),
        (InputQuant(I8, TENSOR, "m.input_scale", "m.input_zero_point"), False),
    ],
    ids=str,
)
def test_a_format_says_whether_activations_have_a_zero_point(
    said, inputs: InputQuant, symmetric: bool
) -> None:  # type: ignore[no-untyped-def]
    assert said(inputs)["symmetric"] is symmetric


def test_they_are_not_those_of_symmetric_ones() -> None:
    assert InputQuant(I8, TOKEN) != InputQuant(I8, TOKEN, symmetric=False)
    assert str(InputQuant(I8, TOKEN, symmetric=False)) == "i8token dynamic asymmetric"
