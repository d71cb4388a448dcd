"""Reads a request's JSON body, within a size, and refuses what is ambiguous: NaN, duplicate keys, lone surrogates."""

from __future__ import annotations

import json
from typing import Any, NoReturn

from starlette.types import Receive, Scope

from fewbit.server.errors import ApiError, bad

BODY_BYTES = 4 << 20


class Disconnected(Exception):
    """The client went away."""


async def read_json(scope: Scope, receive: Receive, limit_bytes: int = BODY_BYTES) -> dict[str, Any]:
    headers = dict(scope["headers"])
    # a browser page of another site can't send this type without asking first, and no CORS answer is ever given
    kind = headers.get(b"content-type", b"").split(b";")[0].strip().lower()
    if kind != b"application/json":
        raise ApiError(
            415,
            "the body must be JSON; send the header Content-Type: application/json",
            code="unsupported_media_type",
        )
    if headers.get(b"content-encoding", b"identity").lower() != b"identity":
        raise ApiError(415, "compressed bodies are not accepted", code="unsupported_media_type")
    return parse(await _read(receive, int(headers.get(b"content-length", b"0") or 0), limit_bytes))


async def _read(receive: Receive, announced: int, limit_bytes: int) -> bytes:
    body = bytearray()
    more = True
    while more and max(announced, len(body)) <= limit_bytes:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Disconnected
        body += message.get("body", b"")
        more = message.get("more_body", False)
    if max(announced, len(body)) > limit_bytes:
        raise ApiError(
            413, f"the body is larger than {limit_bytes} bytes", code="body_too_large", connection="close"
        )
    return bytes(body)


def parse(body: bytes) -> dict[str, Any]:
    """The JSON object in `body`; ApiError 400 says what is wrong with it."""
    try:
        text = body.decode()
        value = json.loads(text, object_pairs_hook=_unique, parse_constant=_refuse_constant)
        if "\\u" in text:
            json.dumps(value, ensure_ascii=False).encode()
    except ApiError:
        raise
    except UnicodeEncodeError:
        raise bad(None, "the body holds half of a surrogate pair, which is no text", "invalid_json") from None
    except UnicodeDecodeError:
        raise bad(None, "the body is not UTF-8", "invalid_json") from None
    except RecursionError:
        raise bad(None, "the body is nested too deep", "invalid_json") from None
    except ValueError as error:
        found = f" at character {error.pos}: {error.msg}" if isinstance(error, json.JSONDecodeError) else ""
        raise bad(None, f"the body is not valid JSON{found}", "invalid_json") from None
    if not isinstance(value, dict):
        raise bad(None, "the body must be a JSON object", "invalid_json")
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise bad(twice[:64], f"the key {twice[:64]!r} appears twice in one object", "invalid_json")
    return value


def _refuse_constant(text: str) -> NoReturn:
    raise bad(None, f"the body holds {text}, which is no JSON number", "invalid_json")
