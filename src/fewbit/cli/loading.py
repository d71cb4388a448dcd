"""Loads a model with progress on standard error, so that standard output stays the answer's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fewbit.config import EngineConfig, ModelConfig

if TYPE_CHECKING:
    from fewbit.engine.load import Loaded


def load_with_progress(name: str, model: ModelConfig, engine: EngineConfig, quiet: bool = False) -> Loaded:
    """`quiet` prints the progress bar alone, which vanishes when done."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeElapsedColumn

    from fewbit.demo import resolve_model
    from fewbit.engine.load import load

    path = resolve_model(name)
    console = Console(stderr=True, highlight=False)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(binary_units=True),
        TimeElapsedColumn(),
    )
    bar = Progress(*columns, console=console, transient=True)
    task = bar.add_task(f"loading {path.name}", total=None)

    def progress(done: int, total: int) -> None:
        bar.start()  # not before there is something to show: a refusal stands alone
        bar.update(task, completed=done, total=total)

    try:
        loaded = load(path, model, engine, progress)
    finally:
        bar.stop()
    if not quiet:
        console.print(f"[bold]{path.name}[/bold]")
        for key, value in loaded.facts:
            console.print(f"  {key:9} {value}", soft_wrap=True)
    return loaded
