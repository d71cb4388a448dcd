"""Errors as OpenAI's clients read them: {"error": {message, type, param, code}}."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

import msgspec
from starlette.types import Message, Receive, Scope, Send

from fewbit.spec.refusal import FewbitError

log = logging.getLogger(__name__)

JSON = [(b"content-type", b"application/json")]
TYPES = {401: "authentication_error", 404: "not_found_error", 429: "rate_limit_error"}


class ApiError(FewbitError):
    """An answer other than 200. `param` names the offending parameter, `code` is for machines."""

    def __init__(
        self, status: int, message: str, *, param: str | None = None, code: str | None = None, **headers: str
    ) -> None:
        super().__init__(message)
        self.status, self.message, self.param, self.code = status, message, param, code
        self.headers = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]

    def body(self) -> dict[str, dict[str, str | None]]:
        kind = TYPES.get(self.status, "invalid_request_error" if self.status < 500 else "server_error")
        return {"error": {"message": self.message, "type": kind, "param": self.param, "code": self.code}}


def bad(param: str | None, message: str, code: str = "invalid_value") -> ApiError:
    return ApiError(400, message, param=param, code=code)


async def send_json(
    send: Send, body: object, status: int = 200, headers: list[tuple[bytes, bytes]] | None = None
) -> None:
    content = msgspec.json.encode(body)
    length = (b"content-length", str(len(content)).encode())
    await send(
        {"type": "http.response.start", "status": status, "headers": [*JSON, length, *(headers or [])]}
    )
    await send({"type": "http.response.body", "body": content})


async def send_error(send: Send, error: ApiError) -> None:
    await send_json(send, error.body(), error.status, error.headers)


Endpoint = Callable[[Scope, Receive, Send], Awaitable[None]]


class Guarded:
    """An endpoint as an ASGI app that answers every exception with a JSON error, and keeps its details in the log."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = False

        async def watched(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await self._endpoint(scope, receive, watched)
        except Exception as fault:
            if started:
                raise
            await send_error(send, as_api_error(fault))


def as_api_error(fault: Exception) -> ApiError:
    if isinstance(fault, ApiError):
        return fault
    if isinstance(fault, FewbitError):
        return bad(None, str(fault), "invalid_request")
    log.error("a request failed", exc_info=fault)
    return ApiError(500, "fewbit failed to answer this request; its log says why", code="internal_error")
