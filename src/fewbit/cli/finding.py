"""Finds a model by its name, with progress where it has to be downloaded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fewbit.config import SourceConfig, format_bytes

if TYPE_CHECKING:
    from fewbit.source import Source


def find_model(name: str, config: SourceConfig) -> Source:
    from fewbit.cli.bar import ByteBar
    from fewbit.source import resolve_model

    with ByteBar(f"downloading {name}", speed=True) as bar:
        told = False

        def progress(done: int, total: int) -> None:
            nonlocal told
            if not told and not bar.console.is_terminal:  # a log has no bar
                bar.console.print(f"downloading {format_bytes(total - done)} of {name}")
            told = True
            bar(done, total)

        return resolve_model(name, config.offline, progress)
