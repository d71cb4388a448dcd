"""The roofline as PNG: operations per second over operations per byte of weight, under the roofs measured in the same run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from fewbit.bench.linear import Result
from fewbit.spec.refusal import FewbitError


def require() -> None:
    """FewbitError where matplotlib is missing: asked before anything is measured."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise FewbitError(
            "--plot needs matplotlib, which is not installed; `pip install 'fewbit[plot]'`"
        ) from None


def draw(path: Path, results: Sequence[Result], title: str) -> None:
    """A line for each matrix, a point for each M, and every roof that bounds one of them."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(10, 6.5), layout="constrained")
    lines: dict[str, list[Result]] = {}
    for result in results:
        lines.setdefault(f"{result.asked.name} {result.shape}", []).append(result)
    colors = pyplot.get_cmap("turbo")
    for i, (label, line) in enumerate(lines.items()):
        x = [r.operations / r.weight_bytes for r in line]
        y = [r.ops_per_s / 1e12 for r in line]
        color = colors((i + 0.5) / len(lines))
        axes.plot(x, y, marker="o", markersize=4, linewidth=1, color=color, label=label)
        for r, at_x, at_y in zip(line, x, y, strict=True):
            axes.annotate(
                f"{r.m}", (at_x, at_y), (3, -9), textcoords="offset points", fontsize=6, color=color
            )
    _roofs(axes, results)
    axes.set(xscale="log", yscale="log", title=title)
    axes.set_xlabel("operations per byte of packed weight")
    axes.set_ylabel("TFLOP/s (the number at a point is M)")
    axes.grid(which="major", alpha=0.3)
    figure.legend(loc="outside right upper", fontsize=7)
    figure.savefig(path, dpi=150, format="png")
    pyplot.close(figure)


def _roofs(axes: object, results: Sequence[Result]) -> None:
    roofs = results[0].roofs
    most = 2 * max(r.operations / r.weight_bytes for r in results)
    least = min(r.operations / r.weight_bytes for r in results) / 2
    for name, peak in {r.peak for r in results}:
        corner = peak / roofs.read
        x = [least, corner, most] if least < corner < most else [least, most]
        y = [min(roofs.read * each, peak) / 1e12 for each in x]
        axes.plot(x, y, color="black", linewidth=1.2)  # type: ignore[attr-defined]
        axes.annotate(  # type: ignore[attr-defined]
            f"{name}: {peak / 1e12:.3g}", (most, min(roofs.read * most, peak) / 1e12), (-4, 3),
            textcoords="offset points", ha="right", fontsize=7,
        )  # fmt: skip
    axes.annotate(  # type: ignore[attr-defined]
        f"R: {roofs.read / 1e9:.3g} GB/s", (least, roofs.read * least / 1e12), (4, 8),
        textcoords="offset points", rotation=38, fontsize=7,
    )  # fmt: skip
