"""Figures of several trees side by side."""

from __future__ import annotations

from collections.abc import Mapping

Figures = Mapping[str, float]


def print_table(trees: Mapping[str, Figures]) -> None:
    """Print one column per tree; a figure that a tree lacks is a dash."""
    names = list(dict.fromkeys(name for figures in trees.values() for name in figures))
    width = max(map(len, names))
    print(" " * width, *(f"{title:>14}" for title in trees))
    for name in names:
        print(name.ljust(width), *(f"{format_figure(figures.get(name)):>14}" for figures in trees.values()))


def format_figure(value: float | None) -> str:
    """Return a count with thousands separated, a ratio with two digits, a dash for None."""
    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, int) else f"{value:.2f}"
