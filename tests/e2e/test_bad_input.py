"""What goes wrong at the command line ends in one clear sentence and status 1, never in a traceback."""

from __future__ import annotations

import pickle
import socket
import struct
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.formats.gguf.fixture import gguf_bytes, raw_tensor, tiny_gguf_parts

METADATA, TENSORS = tiny_gguf_parts()
Q, UP = "blk.0.attn_q.weight", "blk.0.ffn_up.weight"
WHOLE = gguf_bytes(METADATA, TENSORS)

Make = Callable[[Path], Path]


def gguf(data: bytes) -> Make:
    def make(folder: Path) -> Path:
        path = folder / "model.gguf"
        path.write_bytes(data)
        return path

    return make


def spoiled(name: str, **changes: object) -> Make:
    return gguf(gguf_bytes(METADATA, {**TENSORS, name: replace(raw_tensor(TENSORS[name]), **changes)}))


def nan_scale() -> Make:
    """A block of Q4_1 opens with its scale in f16."""
    data = bytearray(raw_tensor(TENSORS[Q]).data)
    data[0:2] = np.float16("nan").tobytes()
    return spoiled(Q, data=bytes(data))


def huge(folder: Path) -> Path:
    """A well-formed file of hundreds of gigabytes, all holes."""
    wide = 1 << 30
    metadata = METADATA | {"llama.feed_forward_length": wide}
    tensors, offset = {}, 0
    for name, tensor in TENSORS.items():
        raw = raw_tensor(tensor)
        extents = {"ffn_up": (64, wide), "ffn_gate": (64, wide), "ffn_down": (wide, 64)}.get(
            name.split(".")[-2]
        )
        size = len(raw.data) if extents is None else 64 * wide // 32 * 20
        tensors[name] = replace(raw, extents=extents or raw.extents, data=b"", offset=offset)
        offset += size + (-size % 32)
    path = folder / "huge.gguf"
    header = gguf_bytes(metadata, tensors)
    path.write_bytes(header)
    with path.open("r+b") as file:
        file.truncate(len(header) + offset)
    return path


def empty_folder(folder: Path) -> Path:
    (folder / "config.json").write_text('{"model_type": "llama"}')
    return folder


def pickled(name: str) -> Make:
    def make(folder: Path) -> Path:
        (folder / "config.json").write_text('{"model_type": "llama"}')
        with zipfile.ZipFile(folder / name, "w") as archive:  # as torch.save writes
            archive.writestr("archive/data.pkl", pickle.dumps({"a": 1}))
        return folder if name != "model.gguf" else folder / name

    return make


MODELS: dict[str, tuple[Make, list[str]]] = {
    "a missing file": (lambda folder: folder / "none.gguf", ["none.gguf", "no such file or folder"]),
    "a folder without weights": (empty_folder, ["without weights", "safetensors"]),
    "a pickle checkpoint": (pickled("pytorch_model.bin"), ["pickle", "safetensors"]),
    "a pickle by another name": (pickled("model.gguf"), ["pickle", "safetensors"]),
    "an empty file": (gguf(b""), ["empty"]),
    "a truncated file": (gguf(WHOLE[:-1]), ["truncated"]),
    "a truncated header": (gguf(WHOLE[:400]), ["left"]),
    "a count beyond the file": (
        gguf(WHOLE[:8] + struct.pack("<Q", 1 << 60) + WHOLE[16:]),
        ["tensor count is"],
    ),
    "overlapping tensors": (spoiled(UP, offset=0), ["overlap"]),
    "a misaligned tensor": (spoiled(Q, offset=8), ["offset"]),
    "an unknown tensor type": (spoiled(Q, kind=77), [Q, "unknown type id 77"]),
    "a duplicate name": (gguf(WHOLE.replace(b"blk.1.attn_q", b"blk.0.attn_q")), ["attn_q", "twice"]),
    "a wrong shape": (spoiled(Q, extents=(64, 32), data=b"\0" * 1280), ["q_proj", "32"]),
    "a missing tensor": (
        gguf(gguf_bytes(METADATA, {k: v for k, v in TENSORS.items() if k != UP})),
        ["up_proj"],
    ),
    "a NaN scale": (nan_scale(), ["NaN"]),
    "an unknown architecture": (
        gguf(gguf_bytes(METADATA | {"general.architecture": "strange9"}, TENSORS)),
        ["strange9"],
    ),
    "more than the memory": (huge, ["does not fit", "together", "GiB"]),
}


def refused(done, *expected: str) -> str:
    """Status 1, nothing on standard output, one sentence of a few lines on standard error that says all of `expected`."""
    text = done.stderr.strip()
    assert done.returncode == 1, (done.returncode, text)
    assert "Traceback" not in text
    assert done.stdout == ""
    assert text and len(text.splitlines()) <= 3, text
    for part in expected:
        assert part in text, text
    return text


@pytest.mark.parametrize("make, expected", MODELS.values(), ids=MODELS.keys())
def test_a_model_that_cannot_be_run(fewbit_cli, tmp_path, make, expected):
    refused(fewbit_cli("run", make(tmp_path), "Hello"), *expected)


@pytest.mark.parametrize(
    "name", ["a truncated file", "a missing tensor", "an unknown architecture", "a missing file"]
)
def test_inspect_refuses_what_cannot_be_run(fewbit_cli, tmp_path, name):
    make, expected = MODELS[name]
    refused(fewbit_cli("inspect", make(tmp_path)), *expected)


@pytest.mark.demo
@pytest.mark.parametrize(
    "args, expected",
    [
        (["run", "demo", "a " * 40, "--context", "32"], ["32"]),
        (["run", "demo", "a", "--temperature", "-1"], ["temperature", "-1"]),
        (["run", "demo", "a", "--top-p", "1.5"], ["top_p", "1.5"]),
        (["run", "demo", "a", "--temperature", "nan"], ["temperature"]),
        (["run", "demo", "a", "--context", "1000000"], ["context", "1000000"]),
        (["run", "demo", "a", "--kv-memory", "1KiB"], ["kv-memory 1KiB"]),
        (["run", "demo", "a", "--kv-memory", "lots"], ["'lots'", "2GiB"]),
        (["run", "demo", "a", "--backend", "reference"], ["--allow-reference"]),
        (["run", "demo"], ["prompt"]),
        (["eval", "demo", "--text", "/nowhere/text.txt"], ["/nowhere/text.txt", "No such file"]),
        (["eval", "demo", "--text", "/bin/true"], ["not UTF-8"]),
        (["eval", "demo", "--text", "README.md", "--chunk", "1"], ["chunk 1", "at least 2"]),
        (["eval", "demo", "--text", "README.md", "--chunk", "100000"], ["chunk 100000", "8192"]),
        (["eval", "demo", "--text", "README.md", "--reference", "/nowhere/model"], ["/nowhere/model"]),
        (["serve", "demo", "--host", "0.0.0.0"], ["API key"]),
        (["support", "--platform", "z80"], ["z80", "x86_avx2"]),
    ],
    ids=lambda value: (
        " ".join(value)[:48] if value and value[0] in ("run", "eval", "serve", "support") else ""
    ),
)
def test_arguments_that_cannot_be_granted(fewbit_cli, args, expected):
    refused(fewbit_cli(*args), *expected)


@pytest.mark.demo
def test_a_port_in_use(fewbit_cli):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        refused(fewbit_cli("serve", "demo", "--port", port), str(port), "in use")


@pytest.mark.parametrize(
    "environ, expected",
    [
        ({"FEWBIT_THREADS": "many"}, ["FEWBIT_THREADS", "'many'", "at least 1"]),
        ({"FEWBIT_CPUS": "4095"}, ["FEWBIT_CPUS", "4095"]),
        ({"FEWBIT_LIBRARY": "/nowhere.so"}, ["FEWBIT_LIBRARY", "/nowhere.so"]),
        ({"FEWBIT_LIBRARY": "/bin/true"}, ["/bin/true", "make setup"]),
        ({"FEWBIT_FEATURES": "-mmx9"}, ["mmx9"]),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_environment_variables(fewbit_cli, tmp_path, environ, expected):
    refused(fewbit_cli("run", gguf(WHOLE)(tmp_path), "Hello", **environ), *expected)


@pytest.mark.parametrize(
    "args", [["nonsense"], ["run", "--nonsense", "x"], ["serve"], ["eval", "demo"]], ids=" ".join
)
def test_a_mistyped_command_is_explained(fewbit_cli, args):
    """Status 2, as shells expect of a usage error."""
    done = fewbit_cli(*args)
    assert done.returncode == 2
    assert "Traceback" not in done.stdout + done.stderr
    assert (done.stdout + done.stderr).strip()
