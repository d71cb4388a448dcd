"""`--quantization`: every name that is offered opens what it names and refuses all else; nothing else is taken."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from fewbit.formats import open_checkpoint
from fewbit.formats.quantization import names
from fewbit.formats.registry import FORMATS, KERNEL_NAMES, NARROW_NAMES
from fewbit.spec.dtype import E2M1, E4M3, E8M0, F32
from fewbit.spec.granularity import TENSOR, group
from fewbit.spec.refusal import CheckpointError
from fewbit.spec.scheme import Scheme
from tests.formats.gguf.fixture import tiny_gguf
from tests.formats.modelopt.fixture import tiny_modelopt
from tests.formats.plain.fixture import tiny_folder
from tests.formats.w8a8.fixture import tiny_w8a8
from tests.fuzz.targets import WRITERS

Run = Callable[..., CompletedProcess[str]]
FP8, MXFP8 = Scheme(E4M3, TENSOR, F32), Scheme(E4M3, group(32), E8M0)
NVFP4 = Scheme(E2M1, group(16), E4M3, global_scale=F32)
OTHERS = ("modelopt_fp8", "w8a8_fp8", "plain", "gptq", "gguf", "modelopt_fp4", "blockwise_int8")
WRITE: dict[str, Callable[[Path], Path]] = {
    **WRITERS,
    "plain": tiny_folder,
    "gguf": lambda path: tiny_gguf(path / "m.gguf"),
    "auto-round": WRITERS["auto_round"],
    "compressed_tensors": WRITERS["compressed-tensors"],
    "w8a8_int8": partial(tiny_w8a8, method="w8a8_int8"),
    "w8a8_fp8": partial(tiny_w8a8, method="w8a8_fp8"),
    "blockwise_int8": partial(tiny_w8a8, method="blockwise_int8"),
    "modelopt_fp8": partial(tiny_modelopt, scheme=FP8),
    "modelopt_fp4": partial(tiny_modelopt, scheme=NVFP4),
    "modelopt_mxfp8": partial(tiny_modelopt, scheme=MXFP8),
}


def written(name: str, folder: Path) -> Path:
    folder.mkdir()
    return WRITE[name](folder)


@pytest.mark.parametrize("name", names())
def test_a_name_opens_what_it_names_and_nothing_else(name: str, tmp_path: Path) -> None:
    narrow = NARROW_NAMES.get(name)
    checkpoint = open_checkpoint(written(name, tmp_path / "m"), name)
    assert checkpoint.format == (narrow.format if narrow else name)
    checkpoint.close()
    refused = 0
    for other in OTHERS:
        if other == name or (NARROW_NAMES[other].format if other in NARROW_NAMES else other) == name:
            continue  # a format's own name takes all of it
        with pytest.raises(CheckpointError, match=f"--quantization (says )?'{name}'"):
            open_checkpoint(written(other, tmp_path / other), name)
        refused += 1
    assert refused >= len(OTHERS) - 2


def test_a_mixture_is_not_what_a_narrow_name_means(tmp_path: Path) -> None:
    """One weight of another scheme is named; the format's own name still fits."""
    path = written("modelopt_fp8", tmp_path / "m")
    with pytest.raises(
        CheckpointError, match=r"tensor 'model\.layers\.0.*' is e4m3tensor, but --quantization 'modelopt_fp4'"
    ):
        open_checkpoint(path, "modelopt_fp4")
    open_checkpoint(path, "modelopt").close()


@pytest.mark.parametrize("name", sorted(KERNEL_NAMES))
def test_a_kernel_is_no_format(name: str, tmp_path: Path) -> None:
    assert name not in FORMATS and name not in NARROW_NAMES
    with pytest.raises(CheckpointError, match=f"--quantization '{name}' names a kernel of another engine"):
        open_checkpoint(tmp_path / "nothing is opened", name)


def test_an_unknown_name_has_a_nearest(tmp_path: Path) -> None:
    with pytest.raises(
        CheckpointError, match=r"'gptg' is unknown, type one of gguf, plain, .*; the nearest is gptq"
    ):
        open_checkpoint(tmp_path / "nothing is opened", "gptg")


@pytest.mark.parametrize(
    "command", [("inspect",), ("inspect", "--verify"), ("run",), ("serve",), ("chat",), ("eval",)]
)
def test_every_door_asks(command: tuple[str, ...], fewbit_cli: Run, tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("Some words.")
    more = {"run": ["hello"], "eval": ["--text", text]}.get(command[0], [])
    path = tiny_gguf(tmp_path / "m.gguf", "u4g32o")
    done = fewbit_cli(command[0], path, *more, *command[1:], "--quantization", "awq")
    assert done.returncode == 1
    assert (
        "is in the format 'gguf', but --quantization says 'awq'; leave the option out, or give gguf"
        in done.stderr
    )
