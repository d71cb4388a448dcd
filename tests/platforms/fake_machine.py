"""Writes the /proc and /sys files of a made-up machine into a folder."""

from __future__ import annotations

from pathlib import Path

from fewbit.platforms.linux.read import format_cpus


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    return root


def machine(
    root: Path,
    *,
    cores: int,
    nodes: int = 1,
    siblings: bool = False,
    efficient: tuple[int, ...] = (),
    node_bytes: int = 32 << 30,
) -> Path:
    """`cores` physical cores spread evenly over `nodes`; with `siblings`, core c has processors c and c + cores."""
    files, total = {}, cores * (2 if siblings else 1)
    for cpu in range(total):
        core = cpu % cores
        threads = frozenset({core, core + cores}) if siblings else frozenset({core})
        base = f"sys/devices/system/cpu/cpu{cpu}"
        files[f"{base}/topology/core_cpus_list"] = format_cpus(threads)
        files[f"{base}/topology/physical_package_id"] = str(core * 2 // cores if nodes > 1 else 0)
        for index, (level, kind, size, shared) in enumerate(
            (
                (1, "Data", "48K", threads),
                (2, "Unified", "2048K", threads),
                (3, "Unified", "105M", range(total)),
            )
        ):
            cache = f"{base}/cache/index{index}"
            files[f"{cache}/level"], files[f"{cache}/type"] = str(level), kind
            files[f"{cache}/size"], files[f"{cache}/shared_cpu_list"] = size, format_cpus(frozenset(shared))
    for node in range(nodes):
        mine = frozenset(cpu for cpu in range(total) if (cpu % cores) * nodes // cores == node)
        base = f"sys/devices/system/node/node{node}"
        files[f"{base}/cpulist"] = format_cpus(mine)
        kib = node_bytes >> 10
        files[f"{base}/meminfo"] = f"Node {node} MemTotal: {kib} kB\nNode {node} MemFree: {kib // 2} kB"
    files["sys/devices/system/cpu/online"] = f"0-{total - 1}"
    files["sys/devices/system/node/online"] = f"0-{nodes - 1}"
    if efficient:
        files["sys/devices/cpu_atom/cpus"] = format_cpus(efficient)
    return write(root, files)
