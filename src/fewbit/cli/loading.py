"""Loads a model with progress on standard error, so that standard output stays the answer's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fewbit.config import EngineConfig, ModelConfig, SourceConfig

if TYPE_CHECKING:
    from fewbit.engine.load import Loaded


def load_with_progress(
    name: str, source: SourceConfig, model: ModelConfig, engine: EngineConfig, quiet: bool = False
) -> Loaded:
    """`quiet` prints the progress bar alone, which vanishes when done."""
    from fewbit.cli.bar import ByteBar
    from fewbit.cli.finding import find_model
    from fewbit.engine.load import load

    found = find_model(name, source)
    with ByteBar(f"loading {found.title}") as bar:
        loaded = load(found.path, model, engine, bar)
    if not quiet:
        bar.console.print(f"[bold]{found.title}[/bold]")
        for key, value in loaded.facts:
            bar.console.print(f"  {key:9} {value}", soft_wrap=True)
    return loaded
