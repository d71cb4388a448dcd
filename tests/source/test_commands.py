"""Through the command line, in processes of their own: the environment is read at start, and offline opens no socket."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from fewbit.cli.serve import served_name
from tests.conftest import cli_environment
from tests.formats.plain.fixture import tiny_folder
from tests.source.stub_hub import Repo, stub_hub

GUARD = """
import os, sys
def guard(event, args):
    if event in ("socket.__new__", "socket.connect", "socket.getaddrinfo"):
        os.write(2, b"a socket was opened\\n")
        os._exit(77)
sys.addaudithook(guard)
from fewbit.cli.app import main
main(sys.argv[1:])
"""

Cli = Callable[..., subprocess.CompletedProcess[str]]


def without_sockets(*args: str, **environ: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", GUARD, *args]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=120, env=cli_environment(**environ)
    )


@pytest.fixture(scope="module")
def repo(tmp_path_factory: pytest.TempPathFactory) -> Repo:
    folder = tiny_folder(tmp_path_factory.mktemp("model"))
    return Repo({path.name: path.read_bytes() for path in folder.iterdir()} | {"x.py": b"boom"})


def test_a_download_then_offline_without_a_socket(fewbit_cli: Cli, repo: Repo, tmp_path: Path) -> None:
    home = {"HF_HOME": str(tmp_path / "home")}
    with stub_hub({"org/name": repo}) as hub:
        environ = home | {"HF_ENDPOINT": hub.url}
        first = fewbit_cli("inspect", "org/name", "--json", **environ)
        assert first.returncode == 0, first.stderr
        assert first.stderr.startswith("downloading ") and first.stderr.endswith(" of org/name\n"), (
            first.stderr
        )
        assert "x.py" not in {path.name for path in (tmp_path / "home").rglob("*")}
        hub.requests.clear()
        again = fewbit_cli("inspect", "org/name", "--json", **environ)
        assert json.loads(again.stdout)["layers"] == json.loads(first.stdout)["layers"] and again.stderr == ""
        assert hub.requests == []
        for args, more in (("--offline",), {}), ((), {"HF_HUB_OFFLINE": "1"}):
            done = without_sockets("inspect", "org/name", "--json", *args, **environ, **more)
            assert done.returncode == 0, done.stderr
            assert json.loads(done.stdout)["path"] == json.loads(first.stdout)["path"]
            done = without_sockets("inspect", "org/other", *args, **environ, **more)
            assert done.returncode == 1
            assert (
                done.stderr.startswith("fewbit: org/other is not complete in the cache ")
                and done.stderr.count("\n") == 1
            )
        assert hub.requests == []
        assert without_sockets("inspect", "org/other", **environ).returncode == 77, (
            "the guard sees what it should"
        )


def test_a_run_that_is_killed_is_taken_up_by_the_next(repo: Repo, tmp_path: Path) -> None:
    """SIGKILL in the middle of a file: the next process asks for the rest alone."""
    body = bytes(range(256)) * (120_000)  # more than two chunks of huggingface_hub
    big = Repo({"m-Q4_0.gguf": body})
    code = (
        "import os, signal\n"
        "from fewbit.source import resolve_model\n"
        "def progress(done, total):\n"
        "    if done > 20_000_000: os.kill(os.getpid(), signal.SIGKILL)\n"
        "print(resolve_model('org/name', progress=progress if os.environ.get('KILL') else None).path)\n"
    )
    with stub_hub({"org/name": big}) as hub:
        environ = cli_environment(HF_HOME=str(tmp_path), HF_ENDPOINT=hub.url)
        command = [sys.executable, "-c", code]
        killed = subprocess.run(
            command, capture_output=True, text=True, env=environ | {"KILL": "1"}, timeout=60
        )
        assert killed.returncode == -9
        hub.requests.clear()
        done = subprocess.run(command, capture_output=True, text=True, env=environ, timeout=60)
        assert done.returncode == 0, done.stderr
        assert hub.got("m-Q4_0.gguf") == [f"bytes={10 << 20}-"]
        assert Path(done.stdout.strip()).read_bytes() == body


def test_refusals_are_one_sentence(fewbit_cli: Cli, tmp_path: Path) -> None:
    with stub_hub({"org/pickles": Repo({"pytorch_model.bin": b"\x80" * 9000})}) as hub:
        for name, text in (
            ("org/pickles", "as pickle (pytorch_model.bin)"),
            ("org/absent", "is not on the hub"),
        ):
            done = fewbit_cli("run", name, "Hello", HF_HOME=str(tmp_path), HF_ENDPOINT=hub.url)
            assert done.returncode == 1 and done.stdout == ""
            assert (
                done.stderr.startswith(f"fewbit: {name} ")
                and text in done.stderr
                and done.stderr.count("\n") == 1
            )


def test_paths_and_the_demo_need_no_hub(fewbit_cli: Cli) -> None:
    code = "import sys; from fewbit.source import resolve_model; resolve_model('/x'); resolve_model('demo'); print('huggingface_hub' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=cli_environment())
    assert done.stdout == "False\n", done.stderr


def test_what_clients_call_it() -> None:
    assert served_name("org/Name-1B", None) == "Name-1B"
    assert served_name("org/Name-GGUF:Q4_K_M", None) == "Name-GGUF:Q4_K_M"
    assert served_name("org/name@v1", None) == "name-v1"
