"""A refusal says what to type, and the last line gives the first cause."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from fewbit.engine import size
from fewbit.kernels.selector import Selector
from fewbit.loader.open import open_model
from fewbit.platforms.known import KNOWN
from fewbit.spec.cell import Cell, Choice
from fewbit.spec.refusal import CheckpointError
from tests.formats.gguf.fixture import tiny_gguf
from tests.formats.plain.fixture import tiny_folder

Cli = Callable[..., CompletedProcess[str]]

# arguments, the flag with its value that must be named, and what may be typed instead
REFUSED: list[tuple[list[str], str, str]] = [
    (["run", "x", "--backend", "reference"], "reference backend", "--allow-reference"),
    (["run", "x", "--threads", "0"], "--threads 0", "--threads 1 or more"),
    (["run", "x", "--context", "1000000"], "--context 1000000", "--context 512 or less"),
    (["run", "x", "--kv-memory", "much"], "--kv-memory", "2GiB"),
    (["inspect", "--context", "1000000"], "context of 1000000", "--context 512 or less"),
    (["inspect", "--platform", "pdp11"], "'pdp11'", "x86_avx2"),
    (["inspect", "--concurrency", "0"], "--concurrency 0", "at least 1"),
]


@pytest.mark.parametrize(
    ("args", "named", "instead"), REFUSED, ids=lambda v: " ".join(v) if isinstance(v, list) else ""
)
def test_a_refused_flag_is_named_with_its_value_and_an_alternative(
    fewbit_cli: Cli, tmp_path: Path, args: list[str], named: str, instead: str
) -> None:
    """Exit code 1 and one sentence; nothing after it blames the model."""
    model = tiny_gguf(tmp_path / "m.gguf")
    done = fewbit_cli(args[0], model, *args[1:])
    last = done.stderr.strip().splitlines()[-1]
    assert done.returncode == 1 and last.startswith("fewbit: ")
    assert named in last and instead in last, last


@pytest.mark.parametrize("value", ["7", "int8", ""])
def test_a_value_that_no_flag_takes_is_misuse_with_the_choices(
    fewbit_cli: Cli, tmp_path: Path, value: str
) -> None:
    done = fewbit_cli("run", tiny_gguf(tmp_path / "m.gguf"), "x", "--activations", value)
    assert done.returncode == 2
    text = " ".join(done.stderr.split())
    assert "--activations" in text and all(f'"{choice}"' in text for choice in ("auto", "16", "8"))


def test_a_layer_without_a_kernel_says_what_serves_it(fewbit_cli: Cli, tmp_path: Path) -> None:
    """The cause is in the last line: not that the model could not be loaded."""
    model = tiny_gguf(tmp_path / "m.gguf", head_dim=24)
    for command in (["run", model, "x"], ["inspect", model]):
        done = fewbit_cli(*command)
        last = done.stderr.strip().splitlines()[-1]
        assert done.returncode == 1 and "head_dim 24 for attention" in last and "multiples of 16" in last


def test_every_refusal_of_the_table_names_what_was_asked_and_what_is_on_offer() -> None:
    """Schemes, backends, activations and sizes that no row serves, on every platform."""
    asked = [
        Cell("linear", "e3m4channel"), Cell("linear", "u4g32o", "f64"), Cell("linear", "u4g32o", activation="4"),
        Cell("linear", "u4g32o", sizes=(("n", 32), ("k", 33))), Cell("linear", "u4g32o", layout="n7k7"),
        Cell("linear", "u4g32o", backend="cuda"), Cell("attention", "bf16", sizes=(("head_dim", 24),)),
        Cell("linear", "u4g32o", kernel="linear_u4g32o_f32_n32k32_avx1024"),
    ]  # fmt: skip
    for platform in KNOWN.values():
        for cell in asked:
            answer = Selector(platform).ask(cell)
            assert not isinstance(answer, Choice), cell
            for refusal in answer:
                assert refusal.asked and (refusal.offered or refusal.hint), f"{cell}: {refusal}"


def test_no_refusal_reads_like_a_missing_package() -> None:
    """Sentences name flags of this command line (with dashes) or keys of the file, never a bare condition of the code."""
    texts = re.findall(r'f?"([^"]*must be[^"]*)"', Path(size.__file__).read_text())
    assert texts and all("--" in text for text in texts)


def test_the_first_cause_is_the_last_line_of_a_broken_checkpoint(fewbit_cli: Cli, tmp_path: Path) -> None:
    folder = tiny_folder(tmp_path / "m")
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-7])
    with pytest.raises(CheckpointError) as refusal:
        open_model(folder)
    done = fewbit_cli("run", folder, "x")
    assert done.returncode == 1 and done.stderr.strip().splitlines()[-1] == f"fewbit: {refusal.value}"
