"""`fewbit serve`: the HTTP server."""

from __future__ import annotations

import re
from pathlib import Path

from fewbit.cli.options import (
    ENGINE,
    MODEL,
    SERVER,
    SOURCE,
    EngineFlags,
    ModelFlags,
    ServerFlags,
    SourceFlags,
)

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}")


def serve(
    model: str,
    /,
    *,
    name: str | None = None,
    api_key_file: Path | None = None,
    source: SourceFlags = SOURCE,
    loading: ModelFlags = MODEL,
    engine: EngineFlags = ENGINE,
    server: ServerFlags = SERVER,
) -> None:
    """Serve a model over an OpenAI-compatible HTTP API, with a chat page at `/`.

    Ctrl-C or SIGTERM lets running requests finish; a second one ends at once.

    Parameters
    ----------
    model
        A GGUF file, a Hugging Face folder, `demo`, or `org/name` of the Hugging Face hub.
    name
        What clients call the model; by default the file's name.
    api_key_file
        File whose first line is the key that clients must send. FEWBIT_API_KEY does the same.
    """
    from fewbit.server.auth import check_exposure

    served = served_name(model, name)
    key = read_key(api_key_file)
    check_exposure(server.host, key)

    import logging

    from fewbit.cli.loading import load_with_progress
    from fewbit.server.engine_client import EngineClient
    from fewbit.server.launch import listen
    from fewbit.server.launch import serve as serve_until_signal
    from fewbit.server.service import Service

    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s", level=logging.WARNING)
    bound = listen(server.host, server.port)
    loaded = load_with_progress(model, source, loading, engine)
    service = Service(served, loaded.tokenizer, EngineClient(loaded.engine.channel, loaded.engine.limits))
    try:
        serve_until_signal(
            service, bound, key, server.drain_timeout, lambda: announce(service, bound.getsockname(), key)
        )
    finally:
        loaded.close()


def served_name(model: str, name: str | None) -> str:
    """A name that needs no quoting in a URL."""
    from fewbit.spec.refusal import FewbitError

    if name is None:
        stem = model if model == "demo" else Path(model).resolve().name.removesuffix(".gguf")
        return re.sub(r"[^A-Za-z0-9._:-]", "-", stem).lstrip("._:-")[:128] or "model"
    if not NAME.fullmatch(name):
        raise FewbitError(
            f"name {name!r} must consist of letters, digits and . _ : - and begin with a letter or digit"
        )
    return name


def read_key(file: Path | None) -> str | None:
    from fewbit.env import API_KEY
    from fewbit.spec.refusal import FewbitError

    if file is None:
        return API_KEY.get()
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise FewbitError(
            f"api-key-file {file} can't be read: {getattr(error, 'strerror', None) or 'not UTF-8'}"
        ) from None
    key = lines[0].strip() if lines else ""
    if not key:
        raise FewbitError(f"api-key-file {file} is empty; put the key on its first line")
    return key


def announce(service: object, address: tuple[object, ...], key: str | None) -> None:
    """Say where the server is, and a request that works when pasted into a shell."""
    from rich.console import Console

    from fewbit.server.service import Service

    assert isinstance(service, Service)
    host, port = str(address[0]), address[1]
    host = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
    url = f"http://{host}:{port}"
    auth = " -H 'Authorization: Bearer KEY'" if key else ""
    # temperature 0: whoever pastes it sees the same sensible answer each time
    if service.tokenizer.has_chat_template:
        question = '[{"role": "user", "content": "What is the capital of France?"}]'
        path, body = "chat/completions", f'{{"messages": {question}, "temperature": 0}}'
    else:
        path, body = "completions", '{"prompt": "The capital of France is", "temperature": 0}'
    console = Console(highlight=False)
    console.print(f"\n[bold]{service.model}[/bold] is ready")
    if service.tokenizer.has_chat_template:
        console.print(f"  page   [link={url}/]{url}/[/link]")
    console.print(f"  API    {url}/v1")
    console.print("  try    ", end="")
    # plain print: the line must survive copying, whatever the terminal's width
    print(f"curl {url}/v1/{path}{auth} -H 'Content-Type: application/json' -d '{body}'", flush=True)
