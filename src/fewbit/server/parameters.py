"""The parameters of a request and their bounds. Whatever is not named here is refused by name, never ignored.

null means that a parameter is absent, as OpenAI's clients send it. A few parameters that fewbit lacks are let through
when their value asks for nothing (`frequency_penalty: 0`); any other value is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from fewbit.server.errors import ApiError, bad

Check = Callable[[str, Any], Any]

N_MAX = 16
STOPS_MAX = 16
STOP_CHARACTERS = 256
INT_MAX = (1 << 31) - 1


def number(low: float, high: float, *, above: bool = False) -> Check:
    """A number in [low, high], or (low, high] with `above`."""

    def check(name: str, value: Any) -> float:
        fits = (
            isinstance(value, int | float) and not isinstance(value, bool) and low <= value <= high
        )  # NaN fits nowhere
        if not fits or (above and value == low):
            raise bad(
                name,
                f"{name} must be a number {f'above {low}' if above else f'from {low}'} to {high}, got {show(value)}",
            )
        return float(value)

    return check


def integer(low: int, high: int) -> Check:
    def check(name: str, value: Any) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            raise bad(name, f"{name} must be an integer from {low} to {high}, got {show(value)}")
        return value

    return check


def boolean(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise bad(name, f"{name} must be true or false, got {show(value)}")
    return value


def text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise bad(name, f"{name} must be a string, got {show(value)}")
    return value


def stop(name: str, value: Any) -> list[str]:
    stops = [value] if isinstance(value, str) else value
    if (
        not isinstance(stops, list)
        or len(stops) > STOPS_MAX
        or not all(isinstance(item, str) and 0 < len(item) <= STOP_CHARACTERS for item in stops)
    ):
        raise bad(
            name,
            f"{name} must be a string or up to {STOPS_MAX} strings, each of 1 to {STOP_CHARACTERS} characters, got {show(value)}",
        )
    return stops


def options(checks: Mapping[str, Check]) -> Check:
    """An object with no other keys than these."""

    def check(name: str, value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise bad(name, f"{name} must be an object, got {show(value)}")
        for key in value:
            if key not in checks:
                raise bad(
                    f"{name}.{key[:64]}",
                    f"{name} knows only {', '.join(checks)}, got {show(key)}",
                    "unknown_parameter",
                )
        return {key: checks[key](f"{name}.{key}", item) for key, item in value.items() if item is not None}

    return check


def show(value: Any) -> str:
    """A value as a person reads it in one line, cut short."""
    shown = (
        f"{value!r}" if not isinstance(value, int) or abs(value) < 10**40 else "a number of over 40 digits"
    )
    return shown if len(shown) <= 80 else shown[:77] + "..."


# asks for nothing, so nothing is lost by its absence
NEUTRAL: dict[str, tuple[Any, ...]] = {
    "best_of": (1,),
    "frequency_penalty": (0,),
    "function_call": ("none",),
    "functions": ([],),
    "logit_bias": ({},),
    "modalities": (["text"],),
    "parallel_tool_calls": (True, False),
    "presence_penalty": (0,),
    "repetition_penalty": (1,),
    "response_format": ({"type": "text"},),
    "service_tier": ("auto", "default"),
    "store": (False,),
    "suffix": ("",),
    "tool_choice": ("none",),
    "tools": ([],),
}


def common(max_context: int) -> dict[str, Check]:
    """Parameters of both endpoints. Only the table's length depends on the model."""
    tokens = integer(1, max_context)
    return {
        "model": text,
        "max_tokens": tokens,
        "min_tokens": integer(0, max_context),
        "ignore_eos": boolean,
        "n": integer(1, N_MAX),
        "seed": integer(-(1 << 63), (1 << 63) - 1),
        "stop": stop,
        "stream": boolean,
        "stream_options": options({"include_usage": boolean}),
        "temperature": number(0, 2),
        "top_k": integer(-1, INT_MAX),
        "top_p": number(0, 1, above=True),
        "min_p": number(0, 1),
    }


def read(body: Mapping[str, Any], checks: Mapping[str, Check]) -> dict[str, Any]:
    """The checked parameters that are present."""
    values: dict[str, Any] = {}
    for name, value in body.items():
        if value is None:
            if name not in checks and name not in NEUTRAL:
                raise unknown(name, checks)
        elif name in checks:
            values[name] = checks[name](name, value)
        elif name in NEUTRAL:
            if not any(
                value == neutral and isinstance(value, bool) == isinstance(neutral, bool)
                for neutral in NEUTRAL[name]
            ):
                raise bad(name, f"{name} is not supported by fewbit; leave it out", "unsupported_parameter")
        else:
            raise unknown(name, checks)
    if "stream_options" in values and not values.get("stream"):
        raise bad("stream_options", "stream_options needs stream: true")
    return values


def unknown(name: str, checks: Mapping[str, Check]) -> ApiError:
    return bad(
        name[:64], f"unknown parameter {show(name)}; known: {', '.join(sorted(checks))}", "unknown_parameter"
    )
