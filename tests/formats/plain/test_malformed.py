"""Broken Hugging Face folders: each is refused in one sentence that names the file and what is wrong."""

from __future__ import annotations

import json
import os
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fewbit.formats import open_checkpoint
from fewbit.spec.refusal import CheckpointError
from tests.formats.plain.fixture import tiny_folder, with_header

SINGLE, INDEX = "model.safetensors", "model.safetensors.index.json"
NORM, Q = "model.norm.weight", "model.layers.0.self_attn.q_proj.weight"
SHARD = "model-00001-of-00002.safetensors"


def header(folder: Path, change: Callable[[dict[str, Any]], Any], file: str = SINGLE) -> None:
    data = (folder / file).read_bytes()
    length = int.from_bytes(data[:8], "little")
    value = json.loads(data[8 : 8 + length])
    change(value)
    (folder / file).write_bytes(with_header(json.dumps(value).encode(), data[8 + length :]))


def entry(name: str, **changes: Any) -> Callable[[Path], None]:
    return lambda folder: header(folder, lambda value: value[name].update(changes))


def raw_header(text: bytes, data: bytes = b"") -> Callable[[Path], Any]:
    return lambda folder: (folder / SINGLE).write_bytes(with_header(text, data))


def length(value: int) -> Callable[[Path], Any]:
    return lambda folder: patch(folder / SINGLE, 0, value.to_bytes(8, "little"))


def patch(path: Path, at: int, data: bytes) -> None:
    whole = path.read_bytes()
    path.write_bytes(whole[:at] + data + whole[at + len(data) :])


def config(**changes: Any) -> Callable[[Path], None]:
    return edit("config.json", changes)


def edit(file: str, changes: dict[str, Any]) -> Callable[[Path], None]:
    def apply(folder: Path) -> None:
        value = json.loads((folder / file).read_text()) | changes
        (folder / file).write_text(json.dumps({k: v for k, v in value.items() if v is not ...}))

    return apply


def text(file: str, content: str | bytes) -> Callable[[Path], Any]:
    return lambda folder: (folder / file).write_bytes(
        content.encode() if isinstance(content, str) else content
    )


def gone(file: str) -> Callable[[Path], Any]:
    return lambda folder: (folder / file).unlink()


def shift(folder: Path, name: str, begin: int, end: int) -> None:
    def change(value: dict[str, Any]) -> None:
        value[name]["data_offsets"][0] += begin
        value[name]["data_offsets"][1] += end

    header(folder, change)


def pickled(file: str, keep: bool = False) -> Callable[[Path], None]:
    def apply(folder: Path) -> None:
        (folder / SINGLE).unlink()
        (folder / file).write_bytes(pickle.dumps({"w": [1.0]}, protocol=2))

    return apply


def zipped(file: str) -> Callable[[Path], None]:
    def apply(folder: Path) -> None:
        (folder / SINGLE).unlink()
        with zipfile.ZipFile(folder / file, "w") as archive:
            archive.writestr("archive/data.pkl", pickle.dumps({"w": 1}))

    return apply


def duplicate_name(folder: Path) -> None:
    data = (folder / SINGLE).read_bytes()
    size = int.from_bytes(data[:8], "little")
    head = data[8 : 8 + size]
    twice = (
        head[:-1] + b', "' + NORM.encode() + b'": {"dtype": "BF16", "shape": [64], "data_offsets": [0, 128]}}'
    )
    (folder / SINGLE).write_bytes(with_header(twice, data[8 + size :]))


def linked_out(file: str) -> Callable[[Path], None]:
    def apply(folder: Path) -> None:
        target = folder.parent / f"outside-{file}"
        (folder / file).rename(target)
        (folder / file).symlink_to(target)

    return apply


def fifo(file: str) -> Callable[[Path], None]:
    def apply(folder: Path) -> None:
        (folder / file).unlink()
        os.mkfifo(folder / file)

    return apply


def weight_map(change: Callable[[dict[str, str]], Any]) -> Callable[[Path], None]:
    def apply(folder: Path) -> None:
        value = json.loads((folder / INDEX).read_text())
        change(value["weight_map"])
        (folder / INDEX).write_text(json.dumps(value))

    return apply


def tokens(change: Callable[[dict[str, Any]], Any]) -> Callable[[Path], None]:
    def apply(folder: Path) -> None:
        value = json.loads((folder / "tokenizer.json").read_text())
        change(value)
        (folder / "tokenizer.json").write_text(json.dumps(value))

    return apply


# name: (what to do to a good folder, what the sentence says); the file that it names is the last of the row
ONE_FILE: dict[str, tuple[Callable[[Path], Any], str, str]] = {
    "empty weights": (text(SINGLE, b""), "has 0 bytes, expected at least the 8", SINGLE),
    "seven bytes": (text(SINGLE, b"1234567"), "has 7 bytes", SINGLE),
    "truncated data": (lambda f: os.truncate(f / SINGLE, (f / SINGLE).stat().st_size - 2), "within the", SINGLE),
    "truncated header": (lambda f: os.truncate(f / SINGLE, 100), "it is truncated", SINGLE),
    "trailing bytes": (lambda f: (f / SINGLE).write_bytes((f / SINGLE).read_bytes() + b"12"), "has 2 bytes after tensor", SINGLE),
    "header length 2^63": (length(1 << 63), "header length is 9223372036854775808, expected at most", SINGLE),
    "header length 101 MB": (length(101_000_000), "header length is 101000000", SINGLE),
    "header length 2": (length(2), "is not valid JSON", SINGLE),
    "header length 0": (length(0), "header begins with b''", SINGLE),
    "header that is a list": (raw_header(b"[1]"), "header begins with b'['", SINGLE),
    "header not UTF-8": (raw_header(b'{"\xff": 1}'), "not valid UTF-8", SINGLE),
    "header 100,000 deep": (raw_header(b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}"), "nested too deeply", SINGLE),
    "NaN in the header": (raw_header(b'{"a": NaN}'), "holds NaN", SINGLE),
    "a huge number in the header": (raw_header(b'{"a": {"dtype": "F32", "shape": [' + b"9" * 5000 + b"]}}"), "not valid JSON", SINGLE),
    "duplicate tensor": (duplicate_name, f"key '{NORM}' occurs twice", SINGLE),
    "duplicate metadata": (raw_header(b'{"__metadata__": {}, "__metadata__": {}}'), "key '__metadata__' occurs twice", SINGLE),
    "metadata of numbers": (lambda f: header(f, lambda v: v.update(__metadata__={"a": 1})), "'__metadata__' is not", SINGLE),
    "no tensors": (raw_header(b"{}"), "holds no tensor", SINGLE),
    "an entry that is a number": (lambda f: header(f, lambda v: v.update({NORM: 3})), f"tensor '{NORM}' is described by int", SINGLE),
    "an entry without dtype": (lambda f: header(f, lambda v: v[NORM].pop("dtype")), f"tensor '{NORM}' is described by", SINGLE),
    "an entry with more": (entry(NORM, strides=[1]), f"tensor '{NORM}' is described by", SINGLE),
    "unknown dtype": (entry(NORM, dtype="BF17"), f"tensor '{NORM}' has the unknown dtype 'BF17'", SINGLE),
    "FP8": (entry(NORM, dtype="F8_E4M3", shape=[128]), f"tensor '{NORM}' has dtype F8_E4M3, expected", SINGLE),
    "whole numbers": (entry(NORM, dtype="I64", shape=[16]), f"tensor '{NORM}' has dtype I64", SINGLE),
    "another dtype of the same width": (entry(NORM, dtype="F32"), f"tensor '{NORM}' (F32 [64]) needs 256 bytes", SINGLE),
    "a negative extent": (entry(NORM, shape=[-64]), f"tensor '{NORM}' has shape [-64]", SINGLE),
    "an extent that is text": (entry(NORM, shape=["64"]), f"tensor '{NORM}' has shape ['64']", SINGLE),
    "an extent that is true": (entry(NORM, shape=[True]), f"tensor '{NORM}' has shape [True]", SINGLE),
    "an extent of zero": (entry(NORM, shape=[64, 0]), f"tensor '{NORM}' has shape [64, 0], that is 0", SINGLE),
    "a shape of 2^80 elements": (entry(NORM, shape=[1 << 40, 1 << 40]), f"tensor '{NORM}' has shape", SINGLE),
    "a larger shape": (entry(NORM, shape=[65]), f"tensor '{NORM}' (BF16 [65]) needs 130 bytes", SINGLE),
    "reversed offsets": (entry(NORM, data_offsets=[128, 0]), f"tensor '{NORM}' has data offsets [128, 0]", SINGLE),
    "negative offsets": (entry(NORM, data_offsets=[-128, 0]), f"tensor '{NORM}' has data offsets", SINGLE),
    "three offsets": (entry(NORM, data_offsets=[0, 1, 2]), f"tensor '{NORM}' has data offsets", SINGLE),
    "offsets beyond the file": (entry(NORM, data_offsets=[1 << 40, (1 << 40) + 128]), f"tensor '{NORM}' has data offsets", SINGLE),
    "an overlap": (lambda f: shift(f, NORM, -2, -2), "overlaps tensor", SINGLE),
    "a hole": (lambda f: header(f, lambda v: v.pop(NORM)), "leaves a hole after tensor", SINGLE),
    "a scalar named as the path of a file": (lambda f: header(f, lambda v: v.update({"": v.pop(NORM)})), "has a name of 0", SINGLE),
    "a pickle renamed to safetensors": (lambda f: (f / SINGLE).write_bytes(pickle.dumps([1.0], protocol=2)), "is a pickle checkpoint", SINGLE),
    "a zip renamed to safetensors": (zipped(SINGLE), "is a pickle checkpoint", SINGLE),
    "a pointer of Git LFS": (text(SINGLE, "version https://git-lfs.github.com/spec/v1\noid sha256:00\n"), "Git LFS pointer", SINGLE),
    "a pipe as weights": (fifo(SINGLE), "is not a regular file", SINGLE),
    "weights linked out of the folder": (linked_out(SINGLE), "is a link out of its folder", SINGLE),
    "a dangling link": (lambda f: ((f / SINGLE).unlink(), (f / SINGLE).symlink_to("nothing.safetensors")), "which does not exist", SINGLE),
    "pytorch_model.bin": (pickled("pytorch_model.bin"), "as pickle (pytorch_model.bin)", ""),
    "model.pt": (zipped("model.pt"), "as pickle (model.pt)", ""),
    "no weights": (gone(SINGLE), "is a folder without weights", ""),
    "only GGUF files": (lambda f: (f / SINGLE).rename(f / "m.gguf"), "give one file: m.gguf", ""),
    "an adapter": (lambda f: (f / SINGLE).rename(f / "adapter_model.safetensors"), "holds an adapter", ""),
    "two files without an index": (
        lambda f: ((f / SINGLE).rename(f / "a.safetensors"), (f / "b.safetensors").write_bytes(b"")), "the index is missing", ""),
    "no config": (gone("config.json"), "has no config.json", ""),
    "config linked out of the folder": (linked_out("config.json"), "is a link out of its folder", "config.json"),
    "config is a pipe": (fifo("config.json"), "is not a regular file", "config.json"),
    "config truncated": (text("config.json", '{"model_type": "lla'), "is not valid JSON", "config.json"),
    "half a character": (text("config.json", '{"model_type": "\\ud800"}'), "holds the escape \\ud800, half a character", "config.json"),
    "half a character as a tensor's name": (raw_header(b'{"\\uDC00x": 1}'), "holds the escape \\udc00", SINGLE),
    "config is a list": (text("config.json", "[]"), "is a JSON list", "config.json"),
    "config 100,000 deep": (text("config.json", '{"a":' + "[" * 100_000), "nested too deeply", "config.json"),
    "config with a key twice": (text("config.json", '{"hidden_size": 1, "hidden_size": 2}'), "'hidden_size' occurs twice", "config.json"),
    "an unknown key": (config(logit_scale=2.0), "key 'logit_scale' is unknown for model type 'llama'", "config.json"),
    "a key of another type": (config(use_sliding_window=True), "'use_sliding_window' is True, which is not supported", "config.json"),
    "no model type": (config(model_type=...), "'model_type' is absent", "config.json"),
    "model type mamba": (config(model_type="mamba"), "model type 'mamba' is not supported", "config.json"),
    "another head": (config(architectures=["LlamaForSequenceClassification"]), "'LlamaForSequenceClassification'", "config.json"),
    "code of its own": (config(auto_map={"AutoModel": "evil.Model"}), "'auto_map' asks for code", "config.json"),
    "a format of tomorrow": (config(quantization_config={"quant_method": "exotic", "bits": 4}), "format 'exotic', which is not supported yet", "config.json"),
    "no heads": (config(num_attention_heads=0), "'num_attention_heads' is 0", "config.json"),
    "negative layers": (config(num_hidden_layers=-1), "'num_hidden_layers' is -1", "config.json"),
    "layers as true": (config(num_hidden_layers=True), "'num_hidden_layers' is True", "config.json"),
    "hidden size missing": (config(hidden_size=...), "'hidden_size' is absent", "config.json"),
    "an odd head": (config(head_dim=15), "head_dim 15, expected an even number", "config.json"),
    "heads that do not divide": (config(num_key_value_heads=3), "4 attention heads over 3", "config.json"),
    "epsilon 0": (config(rms_norm_eps=0), "'rms_norm_eps' is 0", "config.json"),
    "theta 0": (config(rope_theta=0), "'rope_theta' is 0", "config.json"),
    "activation gelu": (config(hidden_act="gelu"), "'hidden_act' is 'gelu', which is not supported", "config.json"),
    "rope scaling dynamic": (config(rope_scaling={"type": "dynamic", "factor": 2.0}), "'dynamic', which is not supported", "config.json"),
    "rope scaling with a key too many": (config(rope_scaling={"type": "linear", "factor": 2.0, "x": 1}), "key 'x' of 'rope_scaling'", "config.json"),
    "rope scaling without factor": (config(rope_scaling={"rope_type": "linear"}), "'factor' of 'rope_scaling' is absent", "config.json"),
    "rope settings that differ": (
        config(rope_scaling={"type": "linear", "factor": 2.0}, rope_parameters={"rope_type": "default"}), "they differ", "config.json"),
    "pretraining_tp 2": (config(pretraining_tp=2), "'pretraining_tp' is 2, which is not supported", "config.json"),
}  # fmt: skip

TWO_SHARDS: dict[str, tuple[Callable[[Path], Any], str, str]] = {
    "a missing shard": (gone(SHARD), f"names the shard '{SHARD}', which is not in the folder", INDEX),
    "no index": (gone(INDEX), "the index is missing", ""),
    "index truncated": (text(INDEX, '{"weight_map": {'), "is not valid JSON", INDEX),
    "index without map": (text(INDEX, "{}"), "'weight_map' is absent", INDEX),
    "index with an unknown key": (text(INDEX, '{"weight_map": {"a": "b.safetensors"}, "code": 1}'), "key 'code' is unknown", INDEX),
    "path up": (weight_map(lambda m: m.update({NORM: "../outside.safetensors"})), f"tensor '{NORM}' is said to lie in", INDEX),
    "absolute path": (weight_map(lambda m: m.update({NORM: "/etc/passwd"})), f"tensor '{NORM}' is said to lie in '/etc/passwd'", INDEX),
    "path with backslash": (weight_map(lambda m: m.update({NORM: "..\\x.safetensors"})), "is said to lie in", INDEX),
    "a number as file": (weight_map(lambda m: m.update({NORM: 3})), "is said to lie in", INDEX),
    "a shard linked out": (linked_out(SHARD), "is a link out of its folder", SHARD),
    "a pickle as shard": (text(SHARD, pickle.dumps([1], protocol=4)), "is a pickle checkpoint", SHARD),
    "a pipe as shard": (fifo(SHARD), "is not a regular file", SHARD),
    "a tensor that no shard has": (weight_map(lambda m: m.update({"model.x": SHARD})), "tensor 'model.x' is in", INDEX),
    "a tensor of another shard": (
        weight_map(lambda m: m.update({k: SHARD for k in (NORM, Q)})), "they do not belong together", ""),
    "a tensor that the index lacks": (weight_map(lambda m: m.pop(NORM)), f"holds tensor '{NORM}', but {INDEX} does not know it", ""),
    "a tensor in two shards": (
        lambda f: (f / "model-00002-of-00002.safetensors").write_bytes((f / SHARD).read_bytes()), "is also in", ""),
}  # fmt: skip

TOKENIZER: dict[str, tuple[Callable[[Path], Any], str, str]] = {
    "tokenizer truncated": (text("tokenizer.json", '{"model": '), "is not valid JSON", "tokenizer.json"),
    "tokenizer without model": (text("tokenizer.json", "{}"), "is not a Hugging Face tokenizer", "tokenizer.json"),
    "tokenizer not UTF-8": (text("tokenizer.json", b"\xff"), "not valid UTF-8", "tokenizer.json"),
    "a token beyond the vocabulary": (tokens(lambda t: t["model"]["vocab"].update(z=288)), "has token id 288", "tokenizer.json"),
    "an added token beyond": (tokens(lambda t: t["added_tokens"][0].update(id=999)), "has token id 999", "tokenizer.json"),
    "an added token without id": (tokens(lambda t: t["added_tokens"][0].pop("id")), "malformed 'added_tokens'", "tokenizer.json"),
    "end token beyond the vocabulary": (edit("generation_config.json", {"eos_token_id": 500}), "token id 500", ""),
    "end token as text": (edit("generation_config.json", {"eos_token_id": "2"}), "token ids are given as '2'", ""),
    "a template of 2 MiB": (edit("tokenizer_config.json", {"chat_template": "x" * (2 << 20)}), "'chat_template'", "tokenizer_config.json"),
    "a tokenizer of another kind": (lambda f: (f / "tokenizer.json").rename(f / "tokenizer.model"), "has the tokenizer tokenizer.model", ""),
    "tokenizer linked out": (linked_out("tokenizer.json"), "is a link out of its folder", "tokenizer.json"),
}  # fmt: skip


def refused(folder: Path, row: tuple[Callable[[Path], Any], str, str], act: Callable[[], Any]) -> None:
    _, expected, file = row
    with pytest.raises(CheckpointError) as refusal:
        act()
    message = str(refusal.value)
    assert expected in message and str(folder / file).rstrip("/") in message
    assert "\n" not in message and len(message) < 600


@pytest.mark.parametrize("case", ONE_FILE)
def test_one_file(tmp_path: Path, case: str) -> None:
    folder = tiny_folder(tmp_path / "m")
    ONE_FILE[case][0](folder)
    refused(folder, ONE_FILE[case], lambda: open_checkpoint(folder))


@pytest.mark.parametrize("case", TWO_SHARDS)
def test_two_shards(tmp_path: Path, case: str) -> None:
    folder = tiny_folder(tmp_path / "m", shards=2)
    TWO_SHARDS[case][0](folder)
    refused(folder, TWO_SHARDS[case], lambda: open_checkpoint(folder))


@pytest.mark.parametrize("case", TOKENIZER)
def test_tokenizer_files(tmp_path: Path, case: str) -> None:
    folder = tiny_folder(tmp_path / "m")
    TOKENIZER[case][0](folder)
    refused(folder, TOKENIZER[case], lambda: open_checkpoint(folder).tokenizer)


@pytest.mark.parametrize("scheme", ["f32", "f16", "bf16"])
@pytest.mark.parametrize(("value", "said"), [(np.nan, "a NaN"), (-np.inf, "an infinite")])
def test_a_weight_that_is_not_finite_is_refused(tmp_path: Path, scheme: str, value: float, said: str) -> None:
    from fewbit.schemes import SCHEMES
    from fewbit.schemes.reference import quantize
    from tests.formats.plain.fixture import write_weights
    from tests.formats.tiny import tiny_config, tiny_weights

    folder = tiny_folder(tmp_path / "m")
    weights = tiny_weights(tiny_config())
    weights[Q][40, 3] = value
    write_weights(folder, {name: quantize(w, SCHEMES[scheme]) for name, w in weights.items()})
    checkpoint = open_checkpoint(folder)
    assert checkpoint.read(Q, 0, 40).shape == (40, 64)
    with pytest.raises(
        CheckpointError, match=f"{SINGLE}: tensor '{Q}' has {said} weight at row 40, column 3"
    ):
        checkpoint.read(Q, 8)


def test_a_file_that_changes_after_opening(tmp_path: Path) -> None:
    folder = tiny_folder(tmp_path / "m")
    checkpoint = open_checkpoint(folder)
    os.truncate(folder / SINGLE, 5000)
    with pytest.raises(CheckpointError, match=f"{SINGLE}: changed after it was opened"):
        checkpoint.read(NORM)


def test_files_that_are_no_checkpoint(tmp_path: Path) -> None:
    for content, said in ((b"", "is empty"), (b"hello world", "no known checkpoint format"), (b"PK\x03\x04", "pickle checkpoint"),
                          (pickle.dumps([1], protocol=2), "pickle checkpoint"), (with_header(b"{}", b""), "give its folder")):  # fmt: skip
        path = tmp_path / "file.bin"
        path.write_bytes(content)
        with pytest.raises(CheckpointError, match=said):
            open_checkpoint(path)
    with pytest.raises(CheckpointError, match="no such file or folder"):
        open_checkpoint(tmp_path / "absent")
    with pytest.raises(CheckpointError, match="cannot be opened"):
        open_checkpoint(tmp_path / ("x" * 300))
    with pytest.raises(CheckpointError):
        open_checkpoint(tmp_path / "file.bin" / "below")


def test_no_code_of_a_checkpoint_runs(tmp_path: Path) -> None:
    folder, canary = tiny_folder(tmp_path / "m"), tmp_path / "canary"
    (folder / "modeling_llama.py").write_text(f"open({str(canary)!r}, 'w')")
    (folder / "__init__.py").write_text(f"open({str(canary)!r}, 'w')")
    assert open_checkpoint(folder).tokenizer is not None and not canary.exists()
