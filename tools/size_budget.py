"""File sizes as a budget: small files, one idea each.

usage: python tools/size_budget.py [--check]

Lines of every hand-written source file (Python, C++, CMake) under git. The median stays under 150 and the 90th
percentile under 300; no file passes 500, except a hand-tuned kernel in a folder listed below, which stops at 800.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SUFFIXES = (".py", ".cpp", ".h", ".cmake")
MEDIAN_BELOW, P90_BELOW, MOST, MOST_TUNED = 150, 300, 500, 800
TUNED_FOLDERS: tuple[str, ...] = ()  # folders of kernels written by hand for one instruction set


def tracked_files() -> list[Path]:
    """Tracked files and those that git would track."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    return sorted({ROOT / n for n in names if n.endswith(SUFFIXES) or Path(n).name == "CMakeLists.txt"})


def line_count(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


def limit(path: Path) -> int:
    name = path.relative_to(ROOT).as_posix()
    return MOST_TUNED if any(name.startswith(f"{folder}/") for folder in TUNED_FOLDERS) else MOST


def quantile(sorted_counts: list[int], share: float) -> int:
    return sorted_counts[min(int(share * len(sorted_counts)), len(sorted_counts) - 1)]


def violations(counts: dict[Path, int]) -> list[str]:
    """One sentence for each broken rule."""
    if not counts:
        return ["no source file found"]
    found = [
        f"{path.relative_to(ROOT)} has {lines} lines, the limit is {limit(path)}; split it by idea"
        for path, lines in counts.items()
        if lines > limit(path)
    ]
    ordered = sorted(counts.values())
    for name, share, below in (("median", 0.5, MEDIAN_BELOW), ("90th percentile", 0.9, P90_BELOW)):
        if quantile(ordered, share) >= below:
            found.append(f"the {name} file has {quantile(ordered, share)} lines, it must stay under {below}")
    return found


def main() -> int:
    counts = {path: line_count(path) for path in tracked_files() if path.is_file()}
    ordered = sorted(counts.values())
    broken = violations(counts)
    print(
        f"{len(counts)} files, {sum(ordered)} lines; median {quantile(ordered, 0.5)}, "
        f"90th percentile {quantile(ordered, 0.9)}, most {ordered[-1]}"
    )
    if "--check" not in sys.argv[1:]:
        for path, lines in sorted(counts.items(), key=lambda item: -item[1])[:10]:
            print(f"{lines:5}  {path.relative_to(ROOT)}")
    for sentence in broken:
        print(sentence, file=sys.stderr)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
