"""The API key: asked for on every route but /health, compared in constant time."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import ipaddress

from starlette.types import ASGIApp, Receive, Scope, Send

from fewbit.server.errors import ApiError, send_error
from fewbit.spec.refusal import FewbitError

OPEN_PATHS = frozenset({"/health"})


class RequireKey:
    """`Authorization: Bearer KEY` for programs; basic authentication with the key as password for the browser's page."""

    def __init__(self, app: ASGIApp, key: str) -> None:
        self._app = app
        self._digest = hashlib.sha256(key.encode()).digest()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in OPEN_PATHS or self._admits(dict(scope["headers"])):
            await self._app(scope, receive, send)
            return
        error = ApiError(
            401,
            "a valid API key is needed: send the header Authorization: Bearer KEY",
            code="invalid_api_key",
            www_authenticate='Basic realm="fewbit", charset="UTF-8"',
        )
        await send_error(send, error)

    def _admits(self, headers: dict[bytes, bytes]) -> bool:
        kind, _, value = headers.get(b"authorization", b"").partition(b" ")
        if kind.lower() == b"basic":
            try:
                value = base64.b64decode(value, validate=True).partition(b":")[2]
            except binascii.Error:
                value = b""
        elif kind.lower() != b"bearer":
            value = b""
        return hmac.compare_digest(hashlib.sha256(value.strip()).digest(), self._digest)


def check_exposure(host: str, key: str | None) -> None:
    """Refuse to listen for other machines without a key."""
    try:
        local = ipaddress.ip_address(host).is_loopback
    except ValueError:
        local = host == "localhost"
    if not local and not key:
        raise FewbitError(
            f"host {host} can be reached by other machines, so an API key is needed; set FEWBIT_API_KEY or --api-key-file, "
            "or use --host 127.0.0.1"
        )
