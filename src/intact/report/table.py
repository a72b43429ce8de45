"""A table that a terminal and a page show from the same rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from intact.terminal import printable

if TYPE_CHECKING:
    import rich.table


@dataclass(frozen=True)
class Cell:
    """Holds text, with a bar, a link or a detail that a page can show beside it.

    Attributes:
        text: What a terminal shows.
        bar: Length of a bar below it, 0 to 1; None: there is none.
        link: Where in the page it leads to, without the #; "" for nowhere.
        detail: In small letters below the text.
    """

    text: str
    bar: float | None = None
    link: str = ""
    detail: str = ""

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class ReportTable:
    """Holds rows of text under headings.

    Attributes:
        title: What the table shows.
        columns: Headings; the first column is text, the others are figures and stand on the right.
        rows: One tuple per row, as long as `columns`.
        note: A sentence below the table: what was measured, and on what.
        prose: Every column is text, and may take several lines.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str | Cell]]
    note: str = ""
    prose: bool = False


def to_rich(table: ReportTable) -> rich.table.Table:
    """Return `table` for a rich console."""
    from rich.table import Table as RichTable
    from rich.text import Text

    def plain(text: object, style: str = "") -> Text:  # brackets are no markup
        return Text(printable(text), style=style)

    shown = RichTable(
        title=plain(table.title, "table.title"),
        caption=plain(table.note, "table.caption") if table.note else None,
        caption_justify="left",
    )
    for index, column in enumerate(table.columns):
        right = bool(index) and not table.prose
        shown.add_column(plain(column), justify="right" if right else "left", no_wrap=not index)
    for row in table.rows:
        shown.add_row(*map(plain, row))
    return shown
