"""A tool that writes checkpoints, in an environment of its own: what it writes fewbit opens, and the other way round."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file

from fewbit.formats import open_checkpoint
from fewbit.schemes.reference import dequantize
from tests.oracles.oracle import rounded
from tests.oracles.table import Close

Case = dict[str, Any]
Write = Callable[[Path], Path]
SCRIPTS = Path(__file__).parent / "in_tool"
ENVIRONMENTS = Path(sys.prefix) / "tools"
OFFLINE = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}


@dataclass(frozen=True)
class Tool:
    """`writes`: what the tool is to write, by name. `reads`: what fewbit writes for it, and what the tool is told of it."""

    name: str  # of requirements/tools/<name>.txt
    script: str
    writes: dict[str, Case] = field(default_factory=dict)
    reads: dict[str, tuple[Write, Case]] = field(default_factory=dict)

    @property
    def python(self) -> Path:
        return ENVIRONMENTS / self.name / "bin" / "python"


@dataclass(frozen=True)
class Answers:
    """What a tool said to all its jobs."""

    folder: Path
    errors: dict[str, str]

    def checkpoint(self, job: str) -> Any:
        assert not self.errors[job], self.errors[job]
        files = list((self.folder / job).glob("*.gguf"))
        return open_checkpoint(files[0] if files else self.folder / job)

    def weights(self, job: str) -> dict[str, np.ndarray]:
        """By the canonical name, as the tool has them, in f32."""
        assert not self.errors[job], self.errors[job]
        return load_file(self.folder / f"{job}.safetensors")


def ask(tool: Tool, folder: Path) -> Answers:
    """Runs all jobs in one process: a tool takes longer to import than to quantize."""
    assert tool.python.exists(), f"{tool.python} is missing; run `make tools`"
    jobs = []
    for name, case in tool.writes.items():
        jobs.append(job("write", name, folder, case))
    for name, (write, case) in tool.reads.items():
        write(folder / f"read-{name}")
        jobs.append(job("read", name, folder, case))
    path = folder / "jobs.json"
    path.write_text(json.dumps(jobs))
    environ = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | OFFLINE
    command = [tool.python, "-W", "ignore", SCRIPTS / tool.script, path]
    ran = subprocess.run(command, capture_output=True, text=True, env=environ, cwd=folder, umask=0o027)
    done = path.with_suffix(".json.done")
    assert done.exists(), f"{tool.name} ended with {ran.returncode}:\n{ran.stderr[-4000:]}"
    return Answers(folder, json.loads(done.read_text()))


def job(do: str, name: str, folder: Path, case: Case) -> dict[str, Any]:
    at = folder / f"{do}-{name}"
    return {"id": at.name, "do": do, "folder": str(at), "out": f"{at}.safetensors", "case": case}


def as_they_are(checkpoint: Any, weights: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return weights


def check(
    answers: Answers,
    job: str,
    how: str | Close = "exact",
    zero_signs: bool = True,
    plain: bool = False,
    canonical: Callable[[Any, dict[str, np.ndarray]], dict[str, np.ndarray]] = as_they_are,
) -> None:
    """fewbit takes the same modules for quantized as the tool does, and reads the same weights out of them.

    `zero_signs` False: the tool's zeros have other signs, since its table of codes has. `plain`: nothing is
    quantized, and every tensor is compared. `canonical` gives the
    tool's weights their canonical names and order of rows.
    """
    checkpoint = answers.checkpoint(job)
    theirs = canonical(checkpoint, answers.weights(job))
    quantized = {name for name, info in checkpoint.tensors.items() if info.scheme.is_plain == plain}
    assert quantized == theirs.keys()
    for name, expected in theirs.items():
        ours = rounded(dequantize(checkpoint.read(name)), how)
        assert ours.shape == expected.shape, name
        if not zero_signs:
            ours, expected = ours + np.float32(0), expected + np.float32(0)
        if isinstance(how, Close):
            good = np.abs(ours - expected) <= how.relative * np.abs(expected) + how.absolute
        else:
            good = ours.view(np.uint32) == expected.view(np.uint32)
        if not good.all():
            at = tuple(int(i) for i in np.argwhere(~good)[0])
            text = f"{name}{list(at)} is {ours[at]!r}, {expected[at]!r} by the tool ({(~good).sum()} of {good.size} differ)"
            raise AssertionError(text)
