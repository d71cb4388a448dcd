"""What `fewbit doctor` finds out about machine, library and packages; every part stands alone, so a broken one hides no other."""

from __future__ import annotations

import platform as python_platform
import re
from collections import Counter
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path

from fewbit import env
from fewbit.library_path import find_library, library_paths
from fewbit.platforms.linux.cgroup import Limits, read_limits
from fewbit.platforms.linux.memory import Memory, read_memory
from fewbit.platforms.linux.read import text
from fewbit.platforms.linux.threads import ThreadPlan, plan_threads
from fewbit.platforms.linux.topology import Topology, read_topology
from fewbit.platforms.x86.detect import CPUINFO, Detection, detection, model_name
from fewbit.registry.grammar import parse_name
from fewbit.registry.table import load_rows
from fewbit.spec.refusal import FewbitError

HUGE_PAGES = Path("/sys/kernel/mm/transparent_hugepage/enabled")


@dataclass(slots=True)
class Library:
    """`compiled` counts rows by instruction set; `missing` are declared rows that this machine could run but the library lacks."""

    path: str | None = None
    version: str = ""
    abi: int = 0
    compiled: dict[str, int] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Diagnosis:
    """`problems` say what keeps models from running, `advice` what costs speed; each with what to do."""

    model: str
    topology: Topology
    limits: Limits
    memory: Memory
    huge_pages: str
    detection: Detection | None
    threads: ThreadPlan | None
    library: Library
    python: str
    packages: dict[str, str]
    problems: list[str] = field(default_factory=list)
    advice: list[str] = field(default_factory=list)


def diagnose() -> Diagnosis:
    problems: list[str] = []
    limits, topology = read_limits(), read_topology()
    found: Detection | None = None
    threads: ThreadPlan | None = None
    try:
        found = detection()
    except FewbitError as error:
        problems.append(str(error))
    try:
        threads = plan_threads(topology, limits, env.THREADS.get(), env.CPUS.get())
    except FewbitError as error:
        problems.append(str(error))
    library = _library(found, problems)
    packages = _packages(problems)
    huge = re.search(r"\[(\w+)\]", text(HUGE_PAGES) or "")
    made = Diagnosis(
        model=model_name(CPUINFO) or "unknown",
        topology=topology,
        limits=limits,
        memory=read_memory(limits=limits),
        huge_pages=huge.group(1) if huge else "unknown",
        detection=found,
        threads=threads,
        library=library,
        python=python_platform.python_version(),
        packages=packages,
        problems=problems,
    )
    made.advice += _advice(made)
    return made


def _library(found: Detection | None, problems: list[str]) -> Library:
    path = find_library()
    if path is None:
        looked = " and ".join(str(p) for p in library_paths())
        problems.append(f"the kernel library is missing (looked at {looked}); build it with `make setup`")
        return Library()
    from fewbit.kernels.cpu import abi, library

    try:
        names = set(library.row_names())
        version = library.version()
    except FewbitError as error:
        problems.append(str(error))
        return Library(str(path))
    rows = [row for row in load_rows() if row.backend == "cpu"]
    compiled = Counter(parse_name(row.name).isa for row in rows if row.name in names and not row.emulates)
    missing = [
        row.name
        for row in rows
        if found and row.requires <= found.granted and row.name not in names and not row.emulates
    ]
    if missing:
        problems.append(
            f"the library lacks {len(missing)} kernels that this machine could run, such as {missing[0]}; "
            "build it again with `make setup`"
        )
    return Library(str(path), version, abi.ABI, dict(compiled), missing)


def _packages(problems: list[str]) -> dict[str, str]:
    """Installed versions of what fewbit itself requires; outside an installation (a checkout on sys.path) there are none."""
    try:
        required = metadata.requires("fewbit") or []
    except metadata.PackageNotFoundError:
        return {}
    found = {}
    for requirement in required:
        name = re.split(r"[^A-Za-z0-9_.-]", requirement)[0]
        if "extra ==" in requirement:
            continue
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            problems.append(f"the package {name} is not installed; install fewbit again with `make setup`")
    return found


def _advice(d: Diagnosis) -> list[str]:
    told = []
    if d.detection:
        reasons: dict[str, list[str]] = {}
        for feature, reason in d.detection.denied.items():
            reasons.setdefault(reason, []).append(feature)
        told += [f"{', '.join(features)} cannot be used: {reason}" for reason, features in reasons.items()]
    if d.huge_pages == "never":
        told.append(f"transparent huge pages are off; `echo madvise > {HUGE_PAGES}` speeds up large models")
    if len(d.topology.node_numbers) > 1:
        told.append(
            f"the processors span memory nodes {', '.join(map(str, d.topology.node_numbers))}; for one model to a node, start "
            "fewbit under `numactl --cpunodebind=N --membind=N`"
        )
    return told
