"""Tables of commands, in which nothing is cut: names and ids are copied from them into the next command."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

# Of a log or a pipe, which has no width of its own; rich would take 80.
WIDTH = 200


def open_console() -> Console:
    """Return the console of standard output, as wide as its terminal."""
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else WIDTH)


def make_table(*names: str, whole: str = "") -> Table:
    """Return a table whose cells are folded where they do not fit; the column ``whole`` stays on one line."""
    from rich.table import Column, Table

    return Table(*(Column(name, overflow="fold", no_wrap=name == whole) for name in names))
