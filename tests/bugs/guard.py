"""A test that shows by itself that it can fail: run as it is, and run with what guards it taken away."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable
from importlib import import_module
from typing import Any

import pytest

from fewbit.spec.refusal import FewbitError

FAILURES = (AssertionError, FewbitError, LookupError, ValueError, pytest.fail.Exception)


def guarded(
    target: str, instead: Any, fails: str = ""
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """`target` ("module:name" or "module:Class.name") is what the test relies on. With `instead` in its place the test must
    fail, with a text in which the pattern `fails` is found."""

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def run(guard: bool, monkeypatch: pytest.MonkeyPatch, **fixtures: Any) -> None:
            if guard:
                test(**fixtures)
                return
            holder, name = _find(target)
            monkeypatch.setattr(holder, name, instead)
            with pytest.raises(FAILURES) as failure:
                test(**fixtures)
            assert re.search(fails, str(failure.value), re.DOTALL), f"it fails otherwise: {failure.value}"

        own = inspect.signature(test)
        kinds = inspect.Parameter.POSITIONAL_OR_KEYWORD
        added = [inspect.Parameter(name, kinds) for name in ("guard", "monkeypatch")]
        run.__signature__ = own.replace(parameters=[*added, *own.parameters.values()])  # type: ignore[attr-defined]
        return pytest.mark.parametrize("guard", [True, False], ids=["as it is", "without its guard"])(run)

    return decorate


def _find(target: str) -> tuple[Any, str]:
    module, _, path = target.partition(":")
    *holders, name = path.split(".")
    holder: Any = import_module(module)
    for part in holders:
        holder = getattr(holder, part)
    assert hasattr(holder, name), f"{target} is no longer there: the guard has another name"
    return holder, name
