"""`fewbit doctor`: what this machine provides, what limits it, and what the library holds."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter
from rich.text import Text

from fewbit.cli.output import console, facts, print_json, table
from fewbit.config import format_bytes
from fewbit.spec.refusal import FewbitError

if TYPE_CHECKING:
    from fewbit.cli.diagnosis import Diagnosis
    from fewbit.kernels.cpu.roofs import Roof

Facts = list[tuple[str, str | Text]]


class Unfit(FewbitError):
    """Something keeps models from running here."""


def doctor(
    *,
    measure: Annotated[bool, Parameter(negative=())] = False,
    as_json: Annotated[bool, Parameter(name="--json", negative=())] = False,
) -> None:
    """Print what this machine provides: processor, caches, limits, library, and with --measure its roofs.

    Exits with 1 when something keeps models from running.

    Parameters
    ----------
    measure
        Measure read bandwidth, peaks of multiply-adds and of tiles (in registers, and with operands from L1), and the cost
        of a barrier: about 3 seconds of all cores.
    as_json
        Print JSON.
    """
    from fewbit.cli.diagnosis import diagnose

    found = diagnose()
    roofs: list[Roof] = []
    if measure and found.detection and not found.problems:
        from fewbit.kernels.cpu.roofs import measure as measure_roofs

        roofs = list(measure_roofs(found.detection.platform.provides))
    if as_json:
        print_json(_as_json(found, roofs))
    else:
        _show(found, roofs)
    if found.problems:
        raise Unfit(found.problems[0])


def _show(d: Diagnosis, roofs: list[Roof]) -> None:
    out = console()
    out.print(facts([*_processor(d), *_limits(d), *_library(d)]))
    if roofs:
        out.print()
        lines = [
            [r.name, f"{r.value:,.1f}" if r.value >= 10 else f"{r.value:.2f}", r.unit, r.how] for r in roofs
        ]
        out.print(table(["measured", "", "unit", "with"], lines, right=("",)))
    for line in d.advice:
        out.print(Text.assemble(("note ", "yellow"), line))
    for line in d.problems:
        out.print(Text.assemble(("problem ", "red"), line))


def _processor(d: Diagnosis) -> Facts:
    from fewbit.platforms.linux.read import format_cpus
    from fewbit.spec.features import sort_features

    t = d.topology
    told: Facts = [("processor", d.model)]
    threads = len(t.cpus) // max(len(t.cores), 1)
    told.append(
        (
            "cores",
            f"{len(t.cores)} usable, {threads} thread{'s' if threads > 1 else ''} each; processors {format_cpus(t.cpus)} of {t.online} online",
        )
    )
    if d.detection:
        found = d.detection
        told.append(("platform", found.platform.name))
        told.append(("features", " ".join(sort_features(found.platform.provides)) or "none"))
        if found.masked:
            told.append(
                ("", Text(f"hidden by FEWBIT_FEATURES: {' '.join(sort_features(found.masked))}", "yellow"))
            )
        if found.denied:
            told.append(
                ("", Text(f"not granted: {' '.join(sort_features(frozenset(found.denied)))}", "yellow"))
            )
    caches = [
        f"L{c.level} {c.kind} {c.count} × {format_bytes(c.size_bytes)}"
        for c in t.caches
        if c.kind != "instruction"
    ]
    told.append(("caches", ", ".join(caches) or "unknown"))
    return told


def _limits(d: Diagnosis) -> Facts:
    from fewbit.platforms.linux.read import format_cpus

    nodes = [
        f"node {n.number}: {format_bytes(n.total_bytes)}, processors {format_cpus(n.cpus) or 'none usable'}"
        for n in d.topology.nodes
    ]
    quota = f"{d.limits.cpu_quota:g} processors" if d.limits.cpu_quota else "no processor quota"
    limit = d.limits.memory_limit_bytes
    memory = f"{format_bytes(limit)} of memory" if limit is not None else "no memory limit"
    versions = " and ".join(map(str, d.limits.versions))
    return [
        (
            "memory",
            f"{format_bytes(d.memory.available_bytes)} available of {format_bytes(d.memory.total_bytes)} ({d.memory.bound})",
        ),
        *((("" if i else "nodes"), text) for i, text in enumerate(nodes)),
        ("huge pages", d.huge_pages),
        ("control group", f"{quota}, {memory} (version {versions})" if versions else "none"),
        ("threads", f"{d.threads.threads}: {d.threads.reason}" if d.threads else "undecided"),
    ]


def _library(d: Diagnosis) -> Facts:
    library = d.library
    if library.path is None:
        return [("library", Text("missing", "red"))]
    compiled = ", ".join(f"{isa} {count}" for isa, count in library.compiled.items())
    packages = ", ".join(f"{name} {version}" for name, version in d.packages.items())
    return [
        ("library", library.path),
        ("", f"version {library.version}, interface {library.abi}"),
        ("kernels", compiled or "none"),
        ("python", f"{d.python}; {packages or 'fewbit is not installed, it runs from a checkout'}"),
    ]


def _as_json(d: Diagnosis, roofs: list[Roof]) -> dict[str, Any]:
    from fewbit.platforms.fingerprint import fingerprint

    found, limits = d.detection, d.limits
    return {
        "fingerprint": fingerprint() if found else None,
        "processor": d.model,
        "platform": found and found.platform.name,
        "features": found and sorted(found.platform.provides),
        "masked": found and sorted(found.masked),
        "denied": found and found.denied,
        "detected_by": found and found.source,
        "cores": [asdict(core) for core in d.topology.cores],
        "nodes": [asdict(node) for node in d.topology.nodes],
        "caches": [asdict(cache) for cache in d.topology.caches],
        "memory": asdict(d.memory),
        "huge_pages": d.huge_pages,
        "control_group": {
            "versions": limits.versions,
            "cpu_quota": limits.cpu_quota,
            "cpus": sorted(limits.cpus) if limits.cpus is not None else None,
            "memory_limit_bytes": limits.memory_limit_bytes,
        },
        "threads": d.threads and asdict(d.threads),
        "library": asdict(d.library),
        "python": d.python,
        "packages": d.packages,
        "roofs": [asdict(roof) for roof in roofs],
        "advice": d.advice,
        "problems": d.problems,
    }
