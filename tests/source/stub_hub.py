"""A hub on loopback: models with their trees, files by range, and the ways in which a hub says no."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

COMMIT = "0123456789abcdef0123456789abcdef01234567"
LARGE_BYTES = 4096  # from here on a file is kept outside git, with a SHA-256


@dataclass(slots=True)
class Repo:
    """`refuse`: status, error code. `cut`: path -> bytes after which the next response ends early, once each."""

    files: dict[str, bytes]
    refuse: tuple[int, str] | None = None
    cut: dict[str, list[int]] = field(default_factory=dict)
    reset: bool = False  # a cut resets the connection instead of closing it
    lies: dict[str, bytes] = field(default_factory=dict)  # what is sent instead of the file
    ranges: bool = True


@dataclass(slots=True)
class Hub:
    repos: dict[str, Repo]
    url: str = ""
    commit: str = COMMIT  # as the header of a file says it
    requests: list[tuple[str, str, str]] = field(default_factory=list)  # method, path, Range

    def got(self, path: str) -> list[str]:
        """The ranges, "" without one, of the GET requests for a file."""
        return [
            bytes_
            for method, asked, bytes_ in self.requests
            if method == "GET" and asked.endswith(f"/{path}")
        ]


@contextmanager
def stub_hub(repos: dict[str, Repo]) -> Iterator[Hub]:
    hub = Hub(repos)
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"hub": hub}))
    server.daemon_threads = True
    hub.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    hub: Hub
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None: ...

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def _answer(self) -> None:
        path = unquote(urlsplit(self.path).path)
        self.hub.requests.append((self.command, path, self.headers.get("Range", "")))
        parts = path.strip("/").split("/")
        api = parts[:2] == ["api", "models"]
        name = "/".join(parts[2:4] if api else parts[:2])
        repo = self.hub.repos.get(name)
        if repo is None:
            return self._refuse(401, "RepoNotFound")
        if repo.refuse:
            return self._refuse(*repo.refuse)
        rest = parts[4:] if api else parts[2:]
        if len(rest) > 1 and rest[1] not in ("main", COMMIT):
            return self._refuse(404, "RevisionNotFound")
        if not api:
            return self._file(repo, "/".join(rest[2:]))
        if rest[:1] == ["tree"]:
            return self._json([_entry(path, data) for path, data in repo.files.items()])
        return self._json({"id": name, "sha": COMMIT, "private": False, "siblings": []})

    def _refuse(self, status: int, code: str) -> None:
        self.send_response(status)
        if code:
            self.send_header("X-Error-Code", code)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _json(self, value: object) -> None:
        body = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _file(self, repo: Repo, path: str) -> None:
        if path not in repo.files:
            return self._refuse(404, "EntryNotFound")
        true = repo.files[path]
        data = repo.lies.get(path, true)
        asked = self.headers.get("Range") if repo.ranges else None
        start = int(asked.removeprefix("bytes=").split("-")[0]) if asked else 0
        body = data[start:]
        self.send_response(206 if asked else 200)
        if self.hub.commit:
            self.send_header("X-Repo-Commit", self.hub.commit)
        self.send_header("ETag", f'"{_etag(true)}"')
        self.send_header("Content-Length", str(len(body)))
        if asked:
            self.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
        self.end_headers()
        if self.command == "HEAD":
            return
        cut = repo.cut.get(path)
        if not cut:
            self.wfile.write(body)
            return
        self.wfile.write(body[: cut.pop(0)])
        self.wfile.flush()
        self.close_connection = True
        if repo.reset:
            import socket
            import struct
            import time

            time.sleep(0.2)  # a reset discards what the client has not read
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()


def _etag(data: bytes) -> str:
    if len(data) >= LARGE_BYTES:
        return hashlib.sha256(data).hexdigest()
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


def _entry(path: str, data: bytes) -> dict[str, object]:
    entry: dict[str, object] = {
        "type": "file",
        "path": path,
        "size": len(data),
        "oid": hashlib.sha1(data).hexdigest(),
    }
    if len(data) >= LARGE_BYTES:
        entry["lfs"] = {"oid": _etag(data), "size": len(data), "pointerSize": 134}
    return entry
