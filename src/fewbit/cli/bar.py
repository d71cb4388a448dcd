"""A progress bar of bytes on standard error, so that standard output stays the answer's."""

from __future__ import annotations


class ByteBar:
    """Not shown before there is something to show, so that a refusal stands alone; gone when done."""

    def __init__(self, label: str, speed: bool = False) -> None:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            DownloadColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
            TransferSpeedColumn,
        )

        self.console = Console(stderr=True, highlight=False)
        time = (TransferSpeedColumn(), TimeRemainingColumn()) if speed else (TimeElapsedColumn(),)
        columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(binary_units=True), *time)
        self._bar = Progress(*columns, console=self.console, transient=True)
        self._task = self._bar.add_task(label, total=None)

    def __call__(self, done: int, total: int) -> None:
        if self.console.is_terminal:  # a log gets no empty lines
            self._bar.start()
        self._bar.update(self._task, completed=done, total=total)

    def __enter__(self) -> ByteBar:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar.live.is_started:
            self._bar.stop()
