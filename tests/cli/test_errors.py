"""What goes wrong is said in one sentence, with exit code 1."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from fewbit.cli.serve import read_key, served_name
from fewbit.spec.refusal import FewbitError

Cli = Callable[..., CompletedProcess[str]]


def sentence(done: CompletedProcess[str]) -> str:
    assert done.returncode == 1
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1 and lines[0].startswith("fewbit: "), done.stderr
    return lines[0]


@pytest.mark.parametrize(
    ("args", "text"),
    [
        (["serve", "/nowhere/model.gguf", "--port", "0"], "no such file"),
        (["serve", "demo", "--host", "0.0.0.0"], "API key"),
        (["serve", "demo", "--host", "no such host"], "API key"),
        (["serve", "demo", "--name", "a/b"], "must consist of letters"),
        (["serve", "demo", "--api-key-file", "/nowhere"], "can't be read"),
        (["serve", "demo", "--port", "70000"], "no address to listen on"),
        (["serve", "demo", "--port", "0", "--backend", "reference"], "--allow-reference"),
        (["run", "demo"], "give one prompt"),
        (["run", "demo", "x", "--file", "y"], "give one prompt"),
        (["run", "demo", "--file", "/nowhere"], "can't be read"),
        (["run", "/nowhere", "x"], "no such file"),
        (["chat", "/nowhere"], "no such file"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_mistakes(fewbit_cli: Cli, args: list[str], text: str) -> None:
    assert text in sentence(fewbit_cli(*args))


def test_used_port(fewbit_cli: Cli) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        assert f"port {port} of 127.0.0.1 is in use" in sentence(
            fewbit_cli("serve", "demo", "--port", str(port))
        )


def test_pickles_are_refused(fewbit_cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "pytorch_model.bin").write_bytes(b"\x80\x02}q\x00.")
    assert "pickle" in sentence(fewbit_cli("run", tmp_path, "x"))


def test_served_name() -> None:
    assert served_name("demo", None) == "demo"
    assert served_name("/models/Qwen3-0.6B-Q4_K_M.gguf", None) == "Qwen3-0.6B-Q4_K_M"
    assert served_name("/models/my model (1)/", None) == "my-model--1-"
    assert served_name("demo", "x:1") == "x:1"


def test_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FEWBIT_API_KEY", raising=False)
    assert read_key(None) is None
    monkeypatch.setenv("FEWBIT_API_KEY", "from-env")
    assert read_key(None) == "from-env"
    file = tmp_path / "key"
    file.write_text("from-file\nmore\n")
    assert read_key(file) == "from-file"
    file.write_text("\n")
    with pytest.raises(FewbitError, match="is empty"):
        read_key(file)
