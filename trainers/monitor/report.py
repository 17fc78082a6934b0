"""HTML report of one training from its own folder, written anew while it trains."""

from __future__ import annotations

import time
from pathlib import Path

from fathom.core.errors import CorruptData
from fathom.domain.replacing import write_whole
from fathom.domain.training_report.about import ABOUT, METRICS, SAMPLES, About, read_about
from fathom.domain.training_report.curves import Curves
from fathom.domain.training_report.page import Training, render_page
from fathom.trainers.monitor.samples import sample_steps

RELOAD_S = 30.0
"""Seconds after which an open report of a running training loads itself again."""


def read_folder(folder: Path) -> Training:
    """Read a training's folder; raises ``CorruptData`` when it holds none or a file cannot be read."""
    about, metrics = folder / ABOUT, folder / METRICS
    if not metrics.exists():
        raise CorruptData(str(metrics), "is not there: this is no training's output")
    curves = Curves()
    curves.add_lines(str(metrics), metrics.read_text(encoding="utf-8"))
    described = read_about(str(about), about.read_bytes()) if about.exists() else About(folder.name, state="")
    steps = sample_steps(path.name for path in (folder / SAMPLES).glob("*.json"))
    return Training(described, curves, {step: (folder / SAMPLES / sample_name(step)).read_bytes() for step in steps})


def sample_name(step: int) -> str:
    return f"{step:08d}.json"


def write_report(output: Path, title: str, reload_s: float = RELOAD_S) -> Path:
    """Write ``report.html`` to ``output`` from the files there, in the place of an earlier one.

    Raises ``MissingExtra`` without plotly and ``CorruptData`` for files that cannot be read.
    """
    target = output / "report.html"
    write_whole(target, render_page(title, [read_folder(output)], time.time(), reload_s).encode())
    return target
