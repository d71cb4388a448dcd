"""A million inputs by rules, over all readers; and that the machinery which runs them sees what goes wrong."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from random import Random

import pytest

from fewbit.spec.refusal import CheckpointError
from tests.fuzz import campaign
from tests.fuzz.mutate import mutator, random_of
from tests.fuzz.targets import TARGETS

SAMPLE = 25
DAY = int(time.time()) // 86400  # as seed: every day other inputs, and within a day the same again


@pytest.mark.parametrize("name", TARGETS)
def test_a_sample(tmp_path: Path, name: str) -> None:
    make, taken = mutator(name), 0
    for number in range(SAMPLE):
        data = make(random_of(0, name, number))
        taken += TARGETS[name](tmp_path, data)
    assert taken < SAMPLE


@pytest.mark.parametrize("name", ["gguf", "config.json", "hqq model.safetensors"])
def test_an_input_is_named_by_seed_target_and_number(name: str) -> None:
    inputs = [[mutator(name)(random_of(seed, name, n)) for n in range(40)] for seed in (1, 1, 2)]
    assert inputs[0] == inputs[1] != inputs[2]
    assert len(set(inputs[0])) > 35


def crash(folder: Path, data: bytes) -> bool:
    os.kill(os.getpid(), 11)
    return True


def hang(folder: Path, data: bytes) -> bool:
    time.sleep(60)
    return True


def spin(folder: Path, data: bytes) -> bool:
    until = time.process_time() + 0.4
    while time.process_time() < until:
        pass
    return False


def hog(folder: Path, data: bytes) -> bool:
    return len(bytearray(64 << 20)) > 0


def hoard(folder: Path, data: bytes) -> bool:
    return len(bytearray(2 << 30)) > 0


def wrong(folder: Path, data: bytes) -> bool:
    raise IndexError("of a reader")


def refuse(folder: Path, data: bytes) -> bool:
    raise CheckpointError("not caught by the target")


CODE = """
import sys, time
from pathlib import Path
from tests.fuzz import targets, test_campaign, worker
worker.HANG_SECONDS, worker.CPU_SECONDS, worker.GROWTH_BYTES, worker.SHARE = 2.0, 0.2, 32 << 20, 2
targets.TARGETS["config.json"] = lambda folder, data: test_campaign.{name}(folder, data) if next(count) == 1 else False
import itertools
count = itertools.count()
sys.exit(worker.work(0, 1, 5, 3, ["config.json"], Path(sys.argv[1])))
"""


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("crash", "ended with status"),
        ("hang", "Timeout"),
        ("spin", "took 0."),
        ("hog", "grew by"),
        ("hoard", "MemoryError"),
        ("wrong", "IndexError: of a reader"),
        ("refuse", "CheckpointError: not caught"),
    ],
)
def test_what_goes_wrong_is_seen_and_its_input_saved(
    root: Path, tmp_path: Path, name: str, what: str
) -> None:
    """The second of three inputs."""
    (tmp_path / "progress-0").write_bytes(bytes(32))
    environ = os.environ | {"PYTHONPATH": os.pathsep.join([str(root / "src"), str(root)])}
    with (tmp_path / "worker-0.log").open("wb") as log:
        done = subprocess.run(
            [sys.executable, "-c", CODE.format(name=name), str(tmp_path)],
            stdout=log,
            stderr=log,
            env=environ,
            timeout=60,
        )
    if done.returncode:
        campaign.died(0, done.returncode, 5, 3, ["config.json"], tmp_path)
    (failure,) = campaign.failures(tmp_path)
    assert (failure.target, failure.number) == ("config.json", 1)
    assert what in failure.what, failure.what
    assert failure.saved.read_bytes() == mutator("config.json")(Random("5/config.json/1"))


@pytest.mark.slow
@pytest.mark.timeout(3 * 3600)
def test_a_million_inputs(root: Path) -> None:
    said: list[str] = []
    out = root / "build" / "fuzz" / str(DAY)
    done, taken, failures = campaign.campaign(DAY, campaign.INPUTS, 2, list(TARGETS), out, said.append)
    print(f"seed {DAY}: {done:,} inputs, {taken:,} taken", *said[-1:], sep="; ")
    assert not failures, f"seed {DAY}\n" + "\n".join(map(str, failures))
    assert done >= 1_000_000 and taken > done // 20
