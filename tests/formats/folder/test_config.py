"""Values of config.json that are of another kind than declared are refused, and never compared as what they are not."""

from __future__ import annotations

from typing import Any

import pytest

from fewbit.formats.folder.config import Reader, read_config
from fewbit.formats.folder.keys import Key
from fewbit.spec.refusal import CheckpointError


@pytest.mark.parametrize("value", [[], {}, 3, True, None])
def test_a_model_type_that_is_no_name(value: Any) -> None:
    with pytest.raises(CheckpointError, match=r"here: key 'model_type' is"):
        read_config(Reader("here", {"model_type": value}))


@pytest.mark.parametrize("value", [10**400, -(10**400), float("nan"), "1", True])
def test_a_number_that_no_float_holds(value: Any) -> None:
    with pytest.raises(CheckpointError, match=r"here: key 'x' is .* expected a finite number"):
        Reader("here", {"x": value}).get("x", Key("number"))
