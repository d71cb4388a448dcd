"""Broken GGUF files: each is refused in one sentence that names the file and what is wrong, and never otherwise."""

from __future__ import annotations

import os
import struct
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fewbit.formats import open_checkpoint
from fewbit.spec.refusal import CheckpointError
from tests.formats.gguf.fixture import Raw, RawTensor, gguf_bytes, raw_tensor, tiny_gguf_parts

METADATA, TENSORS = tiny_gguf_parts()
Q, NORM, EMBEDDING = "blk.0.attn_q.weight", "blk.0.attn_norm.weight", "token_embd.weight"


def metadata(**changes: Any) -> bytes:
    """`a__b` stands for a.b; None removes the key."""
    named = {key.replace("__", "."): value for key, value in changes.items()}
    return gguf_bytes({k: v for k, v in {**METADATA, **named}.items() if v is not None}, TENSORS)


def tensor(name: str, **changes: Any) -> bytes:
    return gguf_bytes(METADATA, {**TENSORS, name: replace(raw_tensor(TENSORS[name]), **changes)})


def without(name: str) -> bytes:
    return gguf_bytes(METADATA, {k: v for k, v in TENSORS.items() if k != name})


def added(name: str, value: RawTensor) -> bytes:
    return gguf_bytes(METADATA, {**TENSORS, name: value})


def patched(at: int, code: str, value: int) -> bytes:
    data = bytearray(gguf_bytes(METADATA, TENSORS))
    struct.pack_into("<" + code, data, at, value)
    return bytes(data)


def header_only(*entries: bytes, count: int | None = None, tensors: int = 0) -> bytes:
    return (
        struct.pack("<4sIQQ", b"GGUF", 3, tensors, len(entries) if count is None else count)
        + b"".join(entries)
        + bytes(64)
    )


def text(value: bytes, length: int | None = None) -> bytes:
    return struct.pack("<Q", len(value) if length is None else length) + value


def twice(name: str) -> bytes:
    """The file with the tensor name `blk.1...` written over by an equally long one that exists."""
    return gguf_bytes(METADATA, TENSORS).replace(name.replace("blk.0", "blk.1").encode(), name.encode())


def zero_alignment(value: Any) -> bytes:
    return metadata(general__alignment=value)


WHOLE = gguf_bytes(METADATA, TENSORS)
DATA_BYTES = sum(len(raw_tensor(t).data) for t in TENSORS.values())
U64 = 1 << 64

CASES: dict[str, tuple[Callable[[], bytes], str]] = {
    "empty": (lambda: b"", "is empty"),
    "only the magic": (lambda: b"GGUF", "version needs 4 bytes"),
    "truncated counts": (lambda: WHOLE[:20], "tensor count is 21, more than the 4 bytes left"),
    "truncated metadata": (lambda: WHOLE[:400], "left"),
    "truncated infos": (lambda: WHOLE[: WHOLE.index(Q.encode()) + 4], "left"),
    "truncated data": (lambda: WHOLE[:-1], "truncated or corrupt"),
    "half the data": (lambda: WHOLE[: len(WHOLE) - DATA_BYTES // 2], "truncated or corrupt"),
    "junk before the magic": (lambda: b"1234567" + WHOLE, "magic stands at byte 7"),
    "another magic": (lambda: b"GGML" + WHOLE[4:], "no known checkpoint format"),
    "version 1": (lambda: patched(4, "I", 1), "GGUF version 1, expected 2 or 3"),
    "version 4": (lambda: patched(4, "I", 4), "GGUF version 4"),
    "big-endian": (lambda: patched(4, "I", 3 << 24), "big-endian"),
    "2^60 tensors": (lambda: patched(8, "Q", 1 << 60), "tensor count is 1152921504606846976"),
    "2^64 - 1 tensors": (lambda: patched(8, "Q", U64 - 1), "tensor count is"),
    "2^60 keys": (lambda: patched(16, "Q", 1 << 60), "metadata count is"),
    "one tensor too many": (lambda: gguf_bytes(METADATA, TENSORS, tensor_count=len(TENSORS) + 1), "tensor 21"),
    "one key too many": (lambda: gguf_bytes(METADATA, TENSORS, metadata_count=len(METADATA) + 1), "of tensor 0 is"),
    "key length 2^63": (lambda: header_only(text(b"a", 1 << 63)), "length of metadata key 0 is 9223372036854775808"),
    "empty key": (lambda: header_only(text(b"") + struct.pack("<IB", 7, 1)), "metadata key 0 has 0 characters"),
    "key not UTF-8": (lambda: header_only(text(b"\xff\xfe") + struct.pack("<II", 4, 1)), "metadata key 0 is not valid UTF-8"),
    "value not UTF-8": (lambda: metadata(general__name=Raw(8, text(b"\xc3("))), "'general.name' is not valid UTF-8"),
    "duplicate key": (lambda: header_only(*[text(b"a.b") + struct.pack("<IB", 7, 1)] * 2), "'a.b' occurs twice"),
    "value type 13": (lambda: metadata(general__x=Raw(13, b"")), "'general.x' has value type 13"),
    "array of type 99": (lambda: metadata(general__x=Raw(9, struct.pack("<IQ", 99, 0))), "'general.x' is an array of type 99"),
    "array of arrays": (lambda: metadata(general__x=Raw(9, struct.pack("<IQ", 9, 1))), "array of arrays"),
    "array of 2^61 floats": (lambda: metadata(general__x=Raw(9, struct.pack("<IQ", 6, 1 << 61))), "element count of metadata key 'general.x'"),
    "array of 2^60 strings": (lambda: metadata(general__x=Raw(9, struct.pack("<IQ", 8, 1 << 60))), "element count of metadata key 'general.x'"),
    "string in array beyond the file": (
        lambda: metadata(general__x=Raw(9, struct.pack("<IQQ", 8, 1, 1 << 40))), "length of value of metadata key 'general.x'[0]"),
    "bool of 7": (lambda: metadata(general__x=Raw(7, b"\x07")), "'general.x' holds the byte 7"),
    "bool of 2 in an array": (lambda: metadata(general__x=Raw(9, struct.pack("<IQBB", 7, 2, 1, 2))), "'general.x' holds the byte 2"),
    "alignment 0": (lambda: zero_alignment(0), "'general.alignment' is 0"),
    "alignment -1": (lambda: zero_alignment(-1), "'general.alignment' is -1"),
    "alignment 48": (lambda: zero_alignment(48), "'general.alignment' is 48, expected a power of two"),
    "alignment a string": (lambda: zero_alignment("32"), "'general.alignment' is '32'"),
    "alignment 2^31": (lambda: zero_alignment(1 << 31), "truncated or corrupt"),
    "no dimensions": (lambda: tensor(NORM, extents=()), f"'{NORM}' has 0 dimensions"),
    "five dimensions": (lambda: tensor(Q, extents=(64, 1, 1, 1, 64)), f"'{Q}' has 5 dimensions, expected 1 to 4"),
    "2^31 dimensions": (lambda: header_only(text(b"x") + struct.pack("<I", 1 << 31) + bytes(64), count=0, tensors=1), "'x' has 2147483648"),
    "an extent of zero": (lambda: tensor(Q, extents=(64, 0)), f"'{Q}' has extents [64, 0]"),
    "2^60 elements": (lambda: tensor(Q, extents=(1 << 30, 1 << 30)), f"tensor '{Q}'"),
    "2^126 elements": (lambda: tensor(Q, extents=(1 << 63, 1 << 63)), f"'{Q}' has extents"),
    "a wrapping extent": (lambda: tensor(Q, extents=(32, U64 // 32 + 1)), f"'{Q}' has extents"),
    "unknown type": (lambda: tensor(Q, kind=77), f"'{Q}' has the unknown type id 77"),
    "type Q8_K": (lambda: tensor(Q, kind=15), f"'{Q}' has type Q8_K, which is not supported yet"),
    "a type of bitnet.cpp": (lambda: tensor(Q, kind=36), f"'{Q}' has type I2_S of bitnet.cpp, which is not supported yet"),
    "type I32": (lambda: tensor(Q, kind=26), f"'{Q}' has type I32"),
    "rows that are no whole blocks": (lambda: tensor(Q, extents=(48, 64)), f"'{Q}' of type Q4_1 has rows of 48 elements"),
    "K-quant rows of 64": (lambda: tensor(Q, kind=12), "multiple of the block of 256"),
    "an offset that is not aligned": (lambda: tensor(Q, offset=33), f"'{Q}' begins at data offset 33"),
    "an offset beyond the file": (lambda: tensor(Q, offset=1 << 40), f"'{Q}' (Q4_1 [64, 64]) takes bytes"),
    "an offset that wraps": (lambda: tensor(Q, offset=U64 - 32), f"'{Q}' (Q4_1 [64, 64]) takes bytes"),
    "overlap": (lambda: tensor("blk.0.attn_k.weight", offset=32), "overlap"),
    "the same range twice": (lambda: tensor("blk.0.attn_k.weight", offset=0), "overlap"),
    "duplicate tensor": (lambda: twice(Q), f"'{Q}' occurs twice"),
    "a tensor name of 300": (lambda: added("x" * 300, RawTensor(0, (4,), bytes(16))), "name of 300 characters"),
    "no embedding": (lambda: without(EMBEDDING), "no tensor 'token_embd.weight'"),
    "an unknown tensor": (lambda: added("blk.0.attn_qkv.weight", RawTensor(0, (4,), bytes(16))), "'blk.0.attn_qkv.weight' has no place"),
    "a tensor of layer 2": (lambda: added("blk.2.attn_norm.weight", RawTensor(0, (64,), bytes(256))), "'blk.2.attn_norm.weight'"),
    "a layer written 00": (lambda: added("blk.00.attn_norm.weight", RawTensor(0, (64,), bytes(256))), "'blk.00.attn_norm.weight'"),
    "a path as a name": (lambda: added("../../etc/passwd", RawTensor(0, (4,), bytes(16))), "'../../etc/passwd' has no place"),
    "a quantized norm": (lambda: tensor(NORM, kind=3, extents=(32,)), f"'{NORM}' is Q4_1"),
    "a matrix of three dimensions": (lambda: tensor(Q, extents=(64, 32, 2)), f"'{Q}' is Q4_1 of shape [2, 32, 64]"),
    "no architecture": (lambda: metadata(general__architecture=None), "'general.architecture'"),
    "architecture mamba": (lambda: metadata(general__architecture="mamba"), "architecture 'mamba' is not supported"),
    "an adapter": (lambda: metadata(general__type="adapter"), "GGUF of type 'adapter'"),
    "quantization version 1": (lambda: metadata(general__quantization_version=1), "quantization version 1"),
    "a part of a split": (lambda: metadata(split__count=3, split__no=0), "name must end in '-00001-of-00003.gguf'"),
    "an unknown key": (lambda: metadata(llama__logit_scale=2.0), "'llama.logit_scale' is unknown"),
    "a key of another architecture": (lambda: metadata(qwen2__block_count=2), "'qwen2.block_count' is unknown"),
    "no layers": (lambda: metadata(llama__block_count=0), "'llama.block_count' is 0"),
    "2^31 layers": (lambda: metadata(llama__block_count=1 << 31), "'llama.block_count' is 2147483648"),
    "layers as text": (lambda: metadata(llama__block_count="2"), "'llama.block_count' is '2'"),
    "layers as an array": (lambda: metadata(llama__block_count=np.array([2, 2], "<i4")), "'llama.block_count' is an array of 2"),
    "no heads": (lambda: metadata(llama__attention__head_count=0), "'llama.attention.head_count' is 0"),
    "heads that do not divide": (lambda: metadata(llama__attention__head_count_kv=3), "4 attention heads over 3"),
    "an odd head": (lambda: metadata(llama__attention__key_length=15, llama__attention__value_length=15, llama__rope__dimension_count=15), "length 15"),
    "unequal key and value": (lambda: metadata(llama__attention__value_length=32), "values of length 32"),
    "partial rotation": (lambda: metadata(llama__rope__dimension_count=8), "'llama.rope.dimension_count' is 8"),
    "no epsilon": (lambda: metadata(llama__attention__layer_norm_rms_epsilon=None), "'llama.attention.layer_norm_rms_epsilon'"),
    "NaN as epsilon": (lambda: metadata(llama__attention__layer_norm_rms_epsilon=float("nan")), "is nan"),
    "theta 0": (lambda: metadata(llama__rope__freq_base=0.0), "'llama.rope.freq_base' is 0.0"),
    "infinite theta": (lambda: metadata(llama__rope__freq_base=float("inf")), "'llama.rope.freq_base' is inf"),
    "experts": (lambda: metadata(llama__expert_count=8), "'llama.expert_count' is 8, which is not supported"),
    "a short window": (lambda: metadata(llama__attention__sliding_window=64), "'llama.attention.sliding_window' is 64"),
    "rope scaling longrope": (lambda: metadata(llama__rope__scaling__type="longrope"), "'longrope', which is not supported"),
    "yarn without factor": (lambda: metadata(llama__rope__scaling__type="yarn"), "'yarn' without"),
    "divisors that are not llama3's": (
        lambda: added("rope_freqs.weight", RawTensor(0, (8,), np.arange(1, 9, dtype="<f4").tobytes())), "'rope_freqs.weight' holds 8"),
    "vocabulary of another size": (lambda: metadata(llama__vocab_size=100), "'llama.vocab_size' is 100"),
    "another tokenizer": (lambda: metadata(tokenizer__ggml__model="rwkv"), "tokenizer model 'rwkv' is not supported"),
    "unknown pre-tokenizer": (lambda: metadata(tokenizer__ggml__pre="cl9000"), "pre-tokenizer 'cl9000' is not supported"),
    "no pre-tokenizer": (lambda: metadata(tokenizer__ggml__pre=None), "no metadata key 'tokenizer.ggml.pre'"),
    "no merges": (lambda: metadata(tokenizer__ggml__merges=None), "'tokenizer.ggml.merges' is absent"),
    "one token too few": (lambda: metadata(tokenizer__ggml__tokens=METADATA["tokenizer.ggml.tokens"][:-1]), "has 287 tokens"),
    "one token type too few": (lambda: metadata(tokenizer__ggml__token_type=np.ones(287, "<i4")), "'tokenizer.ggml.token_type' has 287"),
    "end token beyond the vocabulary": (lambda: metadata(tokenizer__ggml__eos_token_id=288), "'tokenizer.ggml.eos_token_id' is 288"),
    "begin token missing": (lambda: metadata(tokenizer__ggml__add_bos_token=True, tokenizer__ggml__bos_token_id=None), "'tokenizer.ggml.bos_token_id' is absent"),
    "an end token after each prompt": (lambda: metadata(tokenizer__ggml__add_eos_token=True), "'tokenizer.ggml.add_eos_token' is true"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_refused_by_name(tmp_path: Path, case: str) -> None:
    build, expected = CASES[case]
    path = tmp_path / "broken.gguf"
    path.write_bytes(build())
    with pytest.raises(CheckpointError) as refusal:
        open_checkpoint(path)
    message = str(refusal.value)
    assert expected in message and str(path) in message
    assert "\n" not in message and len(message) < 500


TOKENIZERS = {
    "a merge of unknown tokens": ({"tokenizer.ggml.merges": ["q qq"]}, "'tokenizer.ggml.merges'[0] is 'q qq'"),
    "a merge without a space": ({"tokenizer.ggml.merges": ["ab"]}, "'ab', expected two tokens"),
    "a token twice": ({"tokenizer.ggml.tokens": ["same"] * 288}, "token 'same' occurs twice"),
    "tokens that are not UTF-8": (
        {"tokenizer.ggml.tokens": Raw(9, struct.pack("<IQ", 8, 288) + text(b"\xff") * 288)}, "[0] is not valid UTF-8"),
}  # fmt: skip


@pytest.mark.parametrize("case", TOKENIZERS)
def test_a_broken_vocabulary_is_refused_when_it_is_built(tmp_path: Path, case: str) -> None:
    changes, expected = TOKENIZERS[case]
    path = tmp_path / "broken.gguf"
    path.write_bytes(gguf_bytes({**METADATA, **changes}, TENSORS))
    checkpoint = open_checkpoint(path)
    with pytest.raises(CheckpointError) as refusal:
        _ = checkpoint.tokenizer
    assert expected in str(refusal.value) and str(path) in str(refusal.value)


def test_what_is_odd_but_allowed(tmp_path: Path) -> None:
    """Trailing padding, other alignments, version 2 and gaps between tensors."""
    builds = [WHOLE + bytes(n) for n in (1, 31, 63)]
    builds += [
        gguf_bytes({**METADATA, "general.alignment": a}, TENSORS, alignment=a) for a in (1, 8, 64, 4096)
    ]
    builds += [gguf_bytes(METADATA, TENSORS, version=2)]
    expected = None
    for index, data in enumerate(builds):
        path = tmp_path / f"{index}.gguf"
        path.write_bytes(data)
        checkpoint = open_checkpoint(path)
        found = {name: checkpoint.read(name).parts["codes"].tobytes() for name in checkpoint.tensors}
        expected = expected or found
        assert found == expected


@pytest.mark.parametrize("bits", [0x7E00, 0xFE01, 0x7C00, 0xFC00])
@pytest.mark.parametrize("role", ["scale", "offset"])
def test_a_scale_that_is_not_finite_is_refused(tmp_path: Path, role: str, bits: int) -> None:
    tensors = dict(TENSORS)
    broken = {r: p.copy() for r, p in tensors[Q].parts.items()}
    broken[role].view(np.uint16)[20, 1] = bits
    tensors[Q] = replace(tensors[Q], parts=broken)
    path = tmp_path / "nan.gguf"
    path.write_bytes(gguf_bytes(METADATA, tensors))
    checkpoint = open_checkpoint(path)
    with pytest.raises(
        CheckpointError, match=rf"{Q}' has a(n infinite| NaN) {role} at row 18"
    ):  # disk row 16 + 2*2 + 0
        checkpoint.read("model.layers.0.self_attn.q_proj.weight", 16)
    assert checkpoint.read("model.layers.0.self_attn.q_proj.weight", 0, 16).shape == (16, 64)


def test_a_norm_that_is_not_finite_is_refused(tmp_path: Path) -> None:
    values = np.ones(64, "<f4")
    values[5] = -np.inf
    path = tmp_path / "inf.gguf"
    path.write_bytes(tensor(NORM, data=values.tobytes()))
    with pytest.raises(CheckpointError, match=rf"inf.gguf: tensor '{NORM}' has an infinite weight at row 5"):
        open_checkpoint(path).read("model.layers.0.input_layernorm.weight")


def test_a_file_that_changes_after_opening(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(WHOLE)
    checkpoint = open_checkpoint(path)
    os.truncate(path, len(WHOLE) - 4096)  # under a memory map, reading would now be SIGBUS
    with pytest.raises(
        CheckpointError, match=r"model.gguf: changed after it was opened .* tensor 'output.weight' cannot"
    ):
        checkpoint.read("lm_head.weight")
    checkpoint.close()
    with pytest.raises(CheckpointError, match="is closed"):
        checkpoint.read("lm_head.weight")


@pytest.mark.parametrize(
    "case", ["2^60 tensors", "2^60 keys", "array of 2^61 floats", "2^60 elements", "key length 2^63"]
)
def test_a_lie_about_size_allocates_nothing(tmp_path: Path, case: str) -> None:
    path = tmp_path / "broken.gguf"
    path.write_bytes(CASES[case][0]())
    tracemalloc.start()
    with pytest.raises(CheckpointError):
        open_checkpoint(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * path.stat().st_size + (1 << 20)


def test_a_pipe_is_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "model.gguf")
    with pytest.raises(CheckpointError, match="is not a regular file"):
        open_checkpoint(tmp_path / "model.gguf")
    with pytest.raises(CheckpointError, match="is not a regular file"):
        open_checkpoint(Path("/dev/zero"))
