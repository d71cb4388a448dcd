"""The chat page at `/`: one file, which asks nothing of any other server, as its policy header makes sure."""

from __future__ import annotations

import base64
import hashlib
import re
from functools import cache
from pathlib import Path

from starlette.types import Receive, Scope, Send

FILE = Path(__file__).with_name("page.html")


async def page(scope: Scope, receive: Receive, send: Send) -> None:
    body, policy = _load()
    headers = [
        (b"content-type", b"text/html; charset=utf-8"),
        (b"content-length", str(len(body)).encode()),
        (b"content-security-policy", policy),
        (b"x-content-type-options", b"nosniff"),
        (b"referrer-policy", b"no-referrer"),
        (b"cache-control", b"no-cache"),
    ]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body if scope["method"] == "GET" else b""})


@cache
def _load() -> tuple[bytes, bytes]:
    """The page, and a policy that admits its own script and style by hash, and requests to this server alone."""
    text = FILE.read_text(encoding="utf-8")
    script, style = (_hashes(text, tag) for tag in ("script", "style"))
    policy = (
        f"default-src 'none'; script-src {script}; style-src {style}; connect-src 'self'; img-src data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return text.encode(), policy.encode()


def _hashes(text: str, tag: str) -> str:
    bodies = re.findall(rf"<{tag}[^>]*>(.*?)</{tag}>", text, re.DOTALL)
    digests = (base64.b64encode(hashlib.sha256(body.encode()).digest()).decode() for body in bodies)
    return " ".join(f"'sha256-{digest}'" for digest in digests)
