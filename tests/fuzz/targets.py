"""What is fuzzed: a reader of untrusted bytes may raise CheckpointError and nothing else, and must end soon."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from fewbit.formats import open_checkpoint
from fewbit.formats.auto_round import config as auto_round
from fewbit.formats.awq import config as awq
from fewbit.formats.files import CheckedFile
from fewbit.formats.folder.safetensors import read_header
from fewbit.formats.gptq.config import Settings
from fewbit.formats.hqq.config import Settings as HqqSettings
from fewbit.formats.mlx.config import Settings as MlxSettings
from fewbit.spec.dtype import F16, U4
from fewbit.spec.granularity import group
from fewbit.spec.refusal import CheckpointError
from fewbit.spec.scheme import Scheme
from tests.formats.aqlm.fixture import tiny_aqlm
from tests.formats.auto_round.fixture import tiny_auto_round
from tests.formats.awq.fixture import tiny_awq
from tests.formats.bitnet.fixture import tiny_bitnet
from tests.formats.bitsandbytes.fixture import tiny_bitsandbytes
from tests.formats.compressed_tensors.fixture import tiny_compressed
from tests.formats.folder.stacks import tiny_stacked
from tests.formats.fp8.deepseek_v4 import tiny_deepseek_v4
from tests.formats.fp8.fixture import tiny_fp8
from tests.formats.fp_quant.fixture import tiny_fp_quant
from tests.formats.gguf.fixture import gguf_bytes, tiny_gguf_parts
from tests.formats.gptq.fixture import tiny_gptq
from tests.formats.hqq.fixture import tiny_hqq
from tests.formats.mlx.fixture import tiny_mlx
from tests.formats.modelopt.fixture import tiny_modelopt
from tests.formats.modelslim.fixture import tiny_modelslim
from tests.formats.mxfp4.fixture import tiny_mxfp4
from tests.formats.plain.fixture import tiny_folder
from tests.formats.qoq.fixture import tiny_qoq
from tests.formats.qqq.fixture import SIZES, tiny_qqq
from tests.formats.quark.fixture import tiny_quark
from tests.formats.quip.fixture import tiny_quip
from tests.formats.torchao.fixture import tiny_torchao
from tests.formats.vptq.fixture import tiny_vptq
from tests.formats.w4afp8.fixture import tiny_w4afp8
from tests.formats.w8a8.fixture import tiny_w8a8

_SMALL = {"hidden_size": 32, "intermediate_size": 32, "head_dim": 8, "num_hidden_layers": 1}


def gguf(folder: Path, data: bytes) -> bool:
    """Opens, builds the tokenizer, reads every tensor. True when nothing was refused."""
    path = folder / "fuzzed.gguf"
    path.write_bytes(data)
    try:
        checkpoint = open_checkpoint(path)
        try:
            _ = checkpoint.tokenizer
            for name in checkpoint.tensors:
                checkpoint.read(name)
        finally:
            checkpoint.close()
    except CheckpointError:
        return False
    return True


def gguf_part(folder: Path, data: bytes) -> bool:
    """The second of two parts, beside a good first one."""
    first = folder / "m-00001-of-00002.gguf"
    if not first.exists():
        first.write_bytes(gguf_bytes(*_half(0)))
    (folder / "m-00002-of-00002.gguf").write_bytes(data)
    try:
        checkpoint = open_checkpoint(first)
        try:
            for name in checkpoint.tensors:
                checkpoint.read(name)
        finally:
            checkpoint.close()
    except CheckpointError:
        return False
    return True


def _half(part: int) -> tuple[dict[str, Any], dict[str, Any]]:
    metadata, tensors = tiny_gguf_parts("u4g32o", **_SMALL)
    keys = {"split.no": part, "split.count": 2, "split.tensors.count": len(tensors)}
    return {**({} if part else metadata), **keys}, dict(list(tensors.items())[part::2])


def safetensors(folder: Path, data: bytes) -> bool:
    path = folder / "fuzzed.safetensors"
    path.write_bytes(data)
    file = CheckedFile(path)
    try:
        for tensor in read_header(file).values():
            file.read(tensor.start, tensor.bytes, "tensor")
    except CheckpointError:
        return False
    finally:
        file.close()
    return True


def write_gptq(folder: Path, **changes: int) -> Path:
    return tiny_gptq(folder, Settings(4, 32, True), **changes)


def write_awq(folder: Path, **changes: int) -> Path:
    return tiny_awq(folder, awq.Settings(32), **changes)


def write_auto_round(folder: Path, **changes: int) -> Path:
    return tiny_auto_round(folder, auto_round.Settings(4, 32), **changes)


def write_compressed(folder: Path, **changes: int) -> Path:
    return tiny_compressed(folder, Scheme(U4, group(32), F16, U4), **changes)


def write_mlx(folder: Path, **changes: int) -> Path:
    return tiny_mlx(folder, MlxSettings(4, 32), **changes)


def write_hqq(folder: Path, **changes: int) -> Path:
    return tiny_hqq(folder, HqqSettings(3, 32), **changes)


def write_qqq(folder: Path, **changes: int) -> Path:
    return tiny_qqq(folder, **{**changes, **SIZES})


def write_quip(folder: Path, **changes: int) -> Path:
    """Its tiles are of 16 rows and 64 columns."""
    return tiny_quip(folder, **{**changes, "hidden_size": 64, "intermediate_size": 128, "head_dim": 16})


def write_modelslim(folder: Path, **changes: int) -> Path:
    return tiny_modelslim(folder, "W8A8", **changes)


def in_folder(name: str, write: Callable[..., Path] = tiny_folder) -> Callable[[Path, bytes], bool]:
    """A good folder, the target's own, in which one file is replaced."""

    def target(folder: Path, data: bytes) -> bool:
        if not (folder / name).exists():
            write(folder, **_SMALL)
        (folder / name).write_bytes(data)
        try:
            checkpoint = open_checkpoint(folder)
            try:
                if not name.endswith(".safetensors"):
                    _ = checkpoint.tokenizer
                if write is not tiny_folder:
                    for tensor in checkpoint.tensors:
                        checkpoint.read(tensor)
                    for tensor in checkpoint.auxiliary:  # type: ignore[attr-defined]
                        checkpoint.read_auxiliary(tensor)
            finally:
                checkpoint.close()
        except CheckpointError:
            return False
        return True

    return target


def gguf_parts(name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Metadata and tensors of a valid input of a target that is GGUF."""
    return _half(1) if name == "gguf part" else tiny_gguf_parts("u4g32o", **_SMALL)


def seed(name: str) -> bytes:
    """A valid input of a target."""
    if name.startswith("gguf"):
        return gguf_bytes(*gguf_parts(name))
    with tempfile.TemporaryDirectory() as folder:
        form, _, file = name.partition(" ")
        if form in OTHERS and file == OTHERS[form][1]:
            return (OTHERS[form][0](Path(folder), **_SMALL) / file).read_bytes()
        if form in WRITERS:
            return (WRITERS[form](Path(folder), **_SMALL) / file).read_bytes()
        files = {"safetensors": "model.safetensors"}
        return (tiny_folder(Path(folder), **_SMALL) / files.get(name, name)).read_bytes()


WRITERS: dict[str, Callable[..., Path]] = {
    "gptq": write_gptq,
    "fp8": tiny_fp8,
    "deepseek-v4": tiny_deepseek_v4,
    "modelopt": tiny_modelopt,
    "quark": tiny_quark,
    "awq": write_awq,
    "auto_round": write_auto_round,
    "compressed-tensors": write_compressed,
    "mlx": write_mlx,
    "modelslim": write_modelslim,
    "bitsandbytes": partial(tiny_bitsandbytes, double=True),
    "bitnet": tiny_bitnet,
    "torchao": tiny_torchao,
    "w4afp8": tiny_w4afp8,
    "w8a8": tiny_w8a8,
    "fp_quant": tiny_fp_quant,
    "mxfp4": tiny_mxfp4,
    "qoq": tiny_qoq,
    "qqq": write_qqq,
    "aqlm": tiny_aqlm,
    "vptq": tiny_vptq,
    "quip": write_quip,
    "hqq": write_hqq,
    "stacked": tiny_stacked,
}


def write_shards(folder: Path, **changes: int) -> Path:
    return tiny_folder(folder, shards=2, **changes)


def write_side_file(folder: Path, **changes: int) -> Path:
    """ModelOpt's declaration in a file of its own."""
    tiny_modelopt(folder, **changes)
    config = json.loads((folder / "config.json").read_text())
    held = config.pop("quantization_config")
    side = {key: held[key] for key in ("quant_algo", "group_size")} | {"exclude_modules": held["ignore"]}
    (folder / "hf_quant_config.json").write_text(
        json.dumps({"producer": held["producer"], "quantization": side})
    )
    (folder / "config.json").write_text(json.dumps(config))
    return folder


OTHERS: dict[str, tuple[Callable[..., Path], str]] = {
    "shards": (write_shards, "model.safetensors.index.json"),
    "side": (write_side_file, "hf_quant_config.json"),
    "generation": (tiny_folder, "generation_config.json"),
    "modelslim": (write_modelslim, "quant_model_description.json"),
}
"""Files that only some folders have."""

TARGETS: dict[str, Callable[[Path, bytes], bool]] = {
    "gguf": gguf,
    "gguf part": gguf_part,
    "safetensors": safetensors,
    **{name: in_folder(name) for name in ("config.json", "tokenizer.json", "tokenizer_config.json")},
    **{
        f"{form} {name}": in_folder(name, write)
        for form, write in WRITERS.items()
        for name in ("config.json", "model.safetensors")
    },
    **{f"{form} {name}": in_folder(name, write) for form, (write, name) in OTHERS.items()},
}
