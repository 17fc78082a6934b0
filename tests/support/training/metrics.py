"""Metrics of a training as it has logged them."""

from __future__ import annotations

import json
from pathlib import Path


def read_lines(path: Path) -> dict[int, dict[str, float]]:
    """Return metrics by step, ascending; of two lines with the same step the later one counts."""
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return {step: metrics for step, metrics in sorted({line["step"]: line["metrics"] for line in lines}.items())}
