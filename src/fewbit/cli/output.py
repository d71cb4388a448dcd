"""Tables and JSON on standard output, for the commands that describe things."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

MARKS = {
    "attested": ("●", "green"),
    "emulated": ("◐", "cyan"),
    "compiled": ("○", "yellow"),
    "declared": ("·", "yellow"),
    "refused": ("–", "red"),
}


def console() -> Console:
    return Console(highlight=False, soft_wrap=False)


def table(
    columns: Sequence[str],
    rows: Iterable[Sequence[str | Text] | None],
    right: Sequence[str] = (),
    gap: int = 2,
) -> Table:
    """Plain columns under a ruled head, `gap` apart; `right` names those of numbers. A row None is an empty line."""
    made = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, gap - 1, 0, 0))
    for column in columns:
        made.add_column(column, justify="right" if column in right else "left", overflow="fold")
    for row in rows:
        if row is None:
            made.add_section()
        else:
            made.add_row(*map(plain, row))
    return made


def facts(pairs: Iterable[tuple[str | Text, str | Text]]) -> Table:
    """Name and value, one to a line, long values wrapped under themselves."""
    made = Table(box=None, show_header=False, pad_edge=False)
    made.add_column(style="bold", no_wrap=True)
    made.add_column(overflow="fold")
    for name, value in pairs:
        made.add_row(plain(name), plain(value))
    return made


def plain(value: str | Text) -> Text:
    """Text as it is: a path or a message may hold what rich would take for markup."""
    return value if isinstance(value, Text) else Text(value)


def marked(state: str, text: str = "") -> Text:
    """A state's mark before a text, in the state's colour; the mark alone tells it without colours."""
    mark, colour = MARKS[state]
    return Text.assemble((mark, colour), f" {text}" if text else "")


def print_json(value: Any) -> None:
    print(json.dumps(value, indent=2))
