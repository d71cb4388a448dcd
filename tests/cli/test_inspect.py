"""`fewbit inspect`: kernels, bytes, coverage and memory of a model, from its headers alone."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import numpy as np
import pytest

from fewbit.formats.compressed_tensors.encode import config_of, encode
from fewbit.formats.folder.writer import as_disk
from fewbit.platforms.linux.memory import memory_available
from fewbit.schemes.reference import quantize
from fewbit.spec.dtype import E4M3, F16, F32, I4
from fewbit.spec.granularity import CHANNEL, group
from fewbit.spec.scheme import Scheme
from tests.cli.huge_folder import huge_fp8
from tests.formats.compressed_tensors.fixture import tiny_compressed
from tests.formats.gguf.fixture import RawTensor, tiny_gguf, tiny_gguf_parts, write_gguf
from tests.formats.plain.fixture import tiny_folder
from tests.formats.wrapped import wrap

Run = Callable[..., CompletedProcess[str]]


def read(done: CompletedProcess[str]) -> dict:
    return json.loads(done.stdout)


@pytest.mark.demo
def test_the_demo_model(fewbit_cli: Run) -> None:
    done = fewbit_cli("inspect", "demo", "--platform", "x86_avx2", "--json")
    assert done.returncode == 0, done.stderr
    found = read(done)
    assert (found["format"], found["model_type"], found["runs"]) == ("gguf", "llama", True)
    lines = {line["kind"]: line for line in found["layers"]}
    assert list(lines) == ["qkv", "o", "gate_up", "down", "head", "embedding", "attention"]
    for kind in ("qkv", "o", "gate_up", "down"):
        assert len(lines[kind]["names"]) == 30
        assert lines[kind]["scheme"] == "u4g32o"
        assert lines[kind]["decode"] == lines[kind]["prefill"] == "linear_u4g32o_f32_n32k32_avx2"
        assert lines[kind]["packed_bytes"] == lines[kind]["disk_bytes"]  # 5 bits a weight in both
    assert lines["qkv"]["disk_bytes"] == 30 * 960 * 576 * 5 // 8
    assert lines["head"]["scheme"] == "i8g32"
    assert lines["embedding"]["decode"] == "embedding_i8g32_f32_n32k32_scalar"
    assert lines["embedding"]["packed_bytes"] == 0 and "tied" in lines["embedding"]["note"]
    assert found["coverage"]["experts"] == {"quantized_bytes": 0, "bytes": 0}
    assert found["coverage"]["trunk"]["quantized_bytes"] == found["coverage"]["trunk"]["bytes"] > 60e6
    assert [len(names) for names in found["unquantized"].values()] == [61]
    # keys and values: 30 layers of 3 heads of 64, twice, in bf16, for the context and one scratch page
    assert found["memory"]["cache_bytes"] == (8192 + 32) * 30 * 2 * 3 * 64 * 2
    assert found["available_bytes"] is None, "another machine's memory is not known"


@pytest.mark.demo
def test_the_demo_model_on_a_better_machine(fewbit_cli: Run) -> None:
    done = fewbit_cli("inspect", "demo", "--platform", "x86_amx", "--json")
    lines = {line["kind"]: line for line in read(done)["layers"]}
    assert lines["qkv"]["decode"] == "linear_u4g32o_f32_n32k32_avx512"
    assert lines["qkv"]["prefill"] == "linear_u4g32o_bf16w_n32k32_amx"
    assert lines["attention"]["prefill"] == "attention_bf16_bf16_paged32_amx"
    eight = fewbit_cli("inspect", "demo", "--platform", "x86_avx512", "--activations", "8", "--json")
    assert read(eight)["layers"][0]["decode"] == "linear_u4g32o_i8g32_n32k32_avx512_vnni"


@pytest.mark.demo
def test_decode_kernels_are_those_of_the_concurrency(fewbit_cli: Run) -> None:
    done = fewbit_cli("inspect", "demo", "--platform", "x86_amx", "--concurrency", "64", "--json")
    assert read(done)["layers"][0]["decode"] == "linear_u4g32o_bf16w_n32k32_amx"


def test_a_refused_layer_ends_with_status_1_and_the_cause_last(fewbit_cli: Run, tmp_path: Path) -> None:
    path = tiny_gguf(tmp_path / "tiny.gguf", head_dim=24)
    done = fewbit_cli("inspect", path, "--json")
    assert done.returncode == 1
    found = read(done)
    assert found["runs"] is False
    refusal = next(line["refusal"] for line in found["layers"] if line["kind"] == "attention")
    assert refusal.startswith("head_dim 24 for attention bf16 is not supported (offered: multiples of 16")
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith(f"fewbit: {path} cannot run on ") and "head_dim 24 for attention bf16" in last


def test_mixed_schemes_are_lines_of_their_own(fewbit_cli: Run, tmp_path: Path) -> None:
    metadata, tensors = tiny_gguf_parts("u4g32o")
    _, others = tiny_gguf_parts("i8g32")
    for name in ("blk.1.attn_v.weight", "blk.0.ffn_down.weight"):
        tensors[name] = others[name]
    done = fewbit_cli("inspect", write_gguf(tmp_path / "mixed.gguf", metadata, tensors), "--json")
    assert done.returncode == 0, done.stderr
    found = read(done)
    told = [(line["kind"], line["scheme"], len(line["names"])) for line in found["layers"]]
    why = "q_proj, k_proj and v_proj stay apart: u4g32o (scales f16) and i8g32 (scales f16)"
    assert found["apart"] == {why: ["model.layers.1.self_attn.qkv_proj"]}
    assert told[:6] == [
        ("qkv", "u4g32o", 2),  # all of layer 0, and q and k of layer 1
        ("o", "u4g32o", 2),
        ("gate_up", "u4g32o", 2),
        ("down", "i8g32", 1),
        ("qkv", "i8g32", 1),
        ("down", "u4g32o", 1),
    ]


def test_plain_matrices_are_listed_with_the_rule(fewbit_cli: Run, tmp_path: Path) -> None:
    metadata, tensors = tiny_gguf_parts("u4g32o")
    _, plain = tiny_gguf_parts("bf16")
    tensors["output.weight"] = plain["output.weight"]
    found = read(fewbit_cli("inspect", write_gguf(tmp_path / "m.gguf", metadata, tensors), "--json"))
    assert found["unquantized"]["stored as bf16 in the file"] == ["lm_head.weight"]
    assert found["coverage"]["head"]["quantized_bytes"] == 0


def test_eight_bit_activations_leave_a_note_where_a_scheme_has_none(fewbit_cli: Run, tmp_path: Path) -> None:
    path = tiny_gguf(tmp_path / "plain.gguf", "bf16")
    done = fewbit_cli("inspect", path, "--activations", "8", "--json")
    assert done.returncode == 0
    note = read(done)["layers"][0]["note"]
    assert note.startswith("bf16 keeps 16-bit activations: activations 8 for linear bf16 is not supported")


def test_more_memory_than_there_is(fewbit_cli: Run, tmp_path: Path) -> None:
    path = tiny_gguf(tmp_path / "tiny.gguf", max_position_embeddings=1 << 20)
    each = (1 << 20) * 2 * 2 * 2 * 16 * 2  # tokens, layers, keys and values, heads, head_dim, bytes
    many = 2 * memory_available() // each + 1
    done = fewbit_cli("inspect", path, "--concurrency", str(many))
    assert done.returncode == 1
    assert "cannot run on" in done.stderr and "type a smaller --context or --concurrency" in done.stderr
    assert "but only" in done.stdout


def test_a_context_beyond_the_model(fewbit_cli: Run, tmp_path: Path) -> None:
    done = fewbit_cli("inspect", tiny_gguf(tmp_path / "tiny.gguf"), "--context", "513")
    assert done.returncode == 1
    assert done.stderr.endswith("is beyond the model's own limit; type --context 512 or less\n")


def test_a_missing_file_is_one_sentence(fewbit_cli: Run, tmp_path: Path) -> None:
    done = fewbit_cli("inspect", tmp_path / "nowhere.gguf")
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr.startswith("fewbit: ") and len(done.stderr.strip().splitlines()) == 1


def test_a_checkpoint_of_a_hundred_gigabytes_takes_no_longer(fewbit_cli: Run, tmp_path: Path) -> None:
    """The file is sparse: 80 layers of 8192 x 28672 in 8 bits, of which only the header is written."""
    layers, hidden, inner, vocab = 110, 8192, 28672, 288
    metadata, small = tiny_gguf_parts("i8g32", num_hidden_layers=layers)
    sizes = {"embedding_length": hidden, "feed_forward_length": inner, "attention.head_count": 64}
    sizes |= {"attention.head_count_kv": 8, "attention.key_length": 128, "attention.value_length": 128}
    metadata |= {f"llama.{key}": value for key, value in sizes.items()} | {"llama.rope.dimension_count": 128}
    shapes = {"attn_q": (hidden, hidden), "attn_k": (hidden, 1024), "attn_v": (hidden, 1024)}
    shapes |= {"attn_output": (hidden, hidden), "ffn_gate": (hidden, inner), "ffn_up": (hidden, inner)}
    shapes |= {"ffn_down": (inner, hidden), "token_embd": (hidden, vocab), "output": (hidden, vocab)}
    tensors, offset = {}, 0
    for name in small:
        extents = next((shape for part, shape in shapes.items() if name.split(".")[-2] == part), (hidden,))
        count = extents[0] * (extents[1] if len(extents) == 2 else 1)
        size = count * 34 // 32 if len(extents) == 2 else 4 * count
        tensors[name] = RawTensor(8 if len(extents) == 2 else 0, extents, offset=offset)
        offset += -(-size // 32) * 32
    path = write_gguf(tmp_path / "huge.gguf", metadata, tensors)
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size + offset)
    assert path.stat().st_size > 100e9
    start = time.monotonic()
    done = fewbit_cli("inspect", path, "--platform", "x86_amx", "--json")
    seconds = time.monotonic() - start
    assert done.returncode == 0, done.stderr
    assert read(done)["memory"]["weights_bytes"] > 100e9
    assert seconds < 60, (
        f"{seconds:.1f} s"
    )  # reading 100 GB would take longer; an idle machine needs under 2 s


def test_a_folder_of_fifty_thousand_tensors_takes_no_longer(fewbit_cli: Run, tmp_path: Path) -> None:
    tensors, size = huge_fp8(tmp_path / "m", layers=3100, shards=60)
    assert tensors > 49_000 and size > 140e9
    start = time.monotonic()
    done = fewbit_cli("inspect", tmp_path / "m", "--platform", "x86_amx", "--backend", "reference", "--json")
    seconds = time.monotonic() - start
    assert done.returncode == 0, done.stderr
    trunk = read(done)["coverage"]["trunk"]
    assert trunk["quantized_bytes"] == trunk["bytes"] > 140e9
    assert seconds < 60, f"{seconds:.1f} s"  # an idle machine needs under 2 s


@pytest.mark.parametrize("columns", ["80", "120"])
def test_it_fits_the_terminal(fewbit_cli: Run, tmp_path: Path, columns: str) -> None:
    done = fewbit_cli("inspect", tiny_gguf(tmp_path / "tiny.gguf"), COLUMNS=columns)
    assert done.returncode == 0
    assert max(map(len, done.stdout.splitlines())) <= int(columns)
    for word in ("qkv", "gate_up", "coverage", "unquantized", "memory"):
        assert word in done.stdout


def test_a_wrapper_is_told_by_component(fewbit_cli: Run, tmp_path: Path) -> None:
    """The text model runs; a tower is counted with its quantized share, and a shape that no kernel fits is said."""
    scheme = Scheme(I4, group(32), F16)
    folder = tiny_compressed(tmp_path / "m", scheme)
    fc2 = encode(quantize(np.ones((4304, 1152), np.float32), scheme), False)
    tower = {f"vision_tower.blocks.0.fc2.{leaf}": array for leaf, array in fc2.items()}
    tower["vision_tower.patch.weight"] = as_disk(quantize(np.ones((64, 588), np.float32), Scheme(F16)))
    tower["multi_modal_projector.linear_1.bias"] = as_disk(quantize(np.ones(64, np.float32), Scheme(F16)))
    wrap(folder, tower=tower)
    done = fewbit_cli("inspect", folder, "--json", "--backend", "reference")
    assert done.returncode == 0, done.stderr
    found = read(done)
    assert (found["model_type"], found["wrapper"]) == ("llama", "llava")
    coverage = found["coverage"]
    codes = 4304 * 1152 // 2 + 4304 * 36 * 2
    assert coverage["vision tower"] == {"quantized_bytes": codes, "bytes": codes + 64 * 588 * 2}
    assert coverage["projector"] == {"quantized_bytes": 0, "bytes": 128}
    assert coverage["trunk"]["quantized_bytes"] == coverage["trunk"]["bytes"] > 0
    assert found["unused"] == {}
    lines = [line for line in found["layers"] if line["component"] in ("vision tower", "projector")]
    assert all(line["note"].startswith("not served by this family") and not line["refusal"] for line in lines)
    text = fewbit_cli("inspect", folder, "--backend", "reference").stdout
    assert "llama in llava" in text and "vision tower 9" in text and "projector 0 % quantized" in text


def test_a_tower_that_no_kernel_runs_is_said_and_refuses_nothing(fewbit_cli: Run, tmp_path: Path) -> None:
    scheme = Scheme(E4M3, CHANNEL, F32)
    fc2 = encode(quantize(np.ones((80, 72), np.float32), scheme), False)
    folder = tiny_folder(tmp_path / "m", "bf16")
    wrap(folder, tower={f"visual.fc2.{leaf}": array for leaf, array in fc2.items()})
    declared = config_of(scheme, False, ignore=["re:.*language_model.*"])
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"quantization_config": declared}))
    done = fewbit_cli("inspect", folder, "--json", "--platform", "x86_avx2")
    assert done.returncode == 0, done.stderr
    note = next(line["note"] for line in read(done)["layers"] if line["component"] == "vision tower")
    assert "nothing here would run it: k 72 for linear e4m3channel is not supported" in note
