"""The report as one HTML file that needs no network: its data, its script and plotly's are in it."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

from fathom.core.errors import MissingExtra
from fathom.domain.training_report.about import About
from fathom.domain.training_report.curves import Curves, reduce_curves, share_points
from fathom.domain.training_report.samples import choose_shown, read_sample

STATIC = Path(__file__).with_name("static")
# Each after those that it imports.
SCRIPTS = ("dom.js", "panels.js", "charts.js", "seeds.js", "samples.js", "report.js")
POINTS_IN_ALL, MOST_POINTS, LEAST_POINTS = 120_000, 400, 24
"""Points of all curves of a file, and of one: some 6 MB at most, however many and long the trainings are."""
SAMPLE_BYTES = 8_000_000
"""Samples in a file, of all trainings together."""
MODULE_LINE = re.compile(r"^import .*\n|^export ", re.MULTILINE)

PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark"><title>{title}</title>
<style>{style}</style>
<script>{plotly}</script></head>
<body><div id="report"></div>
<script type="application/json" id="report-data">{data}</script>
<script type="module">{script}</script></body></html>
"""


@dataclass(frozen=True)
class Training:
    """A training as it was read: ``samples`` has the bytes of each kept step."""

    about: About
    curves: Curves
    samples: Mapping[int, bytes] = field(default_factory=dict)


def render_page(title: str, trainings: Sequence[Training], written: float, reload_s: float = 0.0) -> str:
    """Return the report of these trainings; while one runs, the page loads itself again every ``reload_s`` seconds.

    ``written`` is the present time, in seconds since the epoch. Raises ``MissingExtra`` without plotly, and
    ``CorruptData`` for a sample that cannot be read.
    """
    points = share_points((list(one.curves.series) for one in trainings), POINTS_IN_ALL, MOST_POINTS, LEAST_POINTS)
    budget = SAMPLE_BYTES // max(1, len(trainings))
    data = {
        "title": title,
        "written": written,
        "reload_s": reload_s,
        "trainings": [describe_training(one, points, budget) for one in trainings],
    }
    # Without "<" no text of a model can end the element that holds it.
    text = json.dumps(data, ensure_ascii=False, allow_nan=False).replace("<", "\\u003c")
    return PAGE.format(
        title=html.escape(title),
        style=read_static("report.css"),
        plotly=read_plotly(),
        data=text,
        script=join_scripts(),
    )


def describe_training(training: Training, points: int, budget: int) -> dict[str, Any]:
    """Return what the page gets of one training; its samples take at most ``budget`` bytes."""
    about, sizes = training.about, sorted((step, len(data)) for step, data in training.samples.items())
    shown = choose_shown(sizes, budget)
    return {
        "about": {**about.without_settings(), "notes": list(about.notes), "settings": dict(about.settings)},
        "curves": reduce_curves(training.curves, points),
        "samples": shown,
        "samples_left_out": len(sizes) - len(shown),
        "sampled": {step: read_sample(f"sample {step}", training.samples[step]) for step in shown},
    }


def join_scripts() -> str:
    """Return the page's modules as one: a file cannot import others beside it, which browsers forbid."""
    return "".join(MODULE_LINE.sub("", read_static(name)) for name in SCRIPTS)


def read_static(name: str) -> str:
    return (STATIC / name).read_text(encoding="utf-8")


def read_plotly() -> str:
    """Return plotly's script from the installed package; raises ``MissingExtra`` without it."""
    try:
        return resources.files("plotly").joinpath("package_data", "plotly.min.js").read_text(encoding="utf-8")
    except (ModuleNotFoundError, FileNotFoundError) as error:
        raise MissingExtra("plotly", "train") from error
