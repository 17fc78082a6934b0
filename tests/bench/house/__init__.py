"""Figures of the source tree itself: size, names, comments, imports, copies, and how much one question enters."""

from __future__ import annotations

from pathlib import Path

from tests.bench.house.figures import measure
from tests.bench.house.table import print_table

ROOT = Path(__file__).resolve().parents[3]


async def run() -> None:
    """Print the figures of this tree; ``python -m tests.bench.house`` compares trees and profiles a question."""
    print_table({"this tree": measure(ROOT).figures})
