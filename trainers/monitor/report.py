"""HTML report of a training run: one self-contained file built from its metrics and settings.

Panels without data are left out and listed at the end, so that a missing curve is noticed.
"""

from __future__ import annotations

import html
import importlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fathom.core.errors import MissingExtra
from fathom.trainers.monitor.loggers import METRICS, read_lines

Steps = Mapping[int, Mapping[str, float]]


@dataclass(frozen=True)
class Panel:
    """A diagram: series by name or, with a trailing "*", by prefix; ``log`` selects a logarithmic axis."""

    title: str
    unit: str
    series: tuple[str, ...]
    log: bool = False


PANELS = (
    Panel("Reward", "reward", ("critic/score/mean", "critic/score/max", "critic/score/min", "critic/rewards/mean")),
    Panel("Reward by component", "reward", ("reward/*", "acc")),
    Panel("Validation", "score", ("val/*",)),
    Panel("Response length", "tokens", ("response_length/mean", "response_length/max", "response_length/min")),
    Panel("Code", "statements, cells", ("code/*",)),
    Panel("Entropy", "nats per token", ("actor/entropy", "actor/entropy_loss")),
    Panel("KL", "nats per token", ("actor/reward_kl_penalty", "actor/kl_loss", "actor/ppo_kl")),
    Panel("Rollout and learner disagree", "probability, nats, share", ("mismatch/*",), log=True),
    Panel("Losses", "loss", ("actor/pg_loss", "critic/vf_loss", "train/loss", "reward_model/*")),
    Panel("Gradient norms", "norm", ("actor/grad_norm", "critic/grad_norm", "train/grad_norm"), log=True),
    Panel("Clipping", "share", ("actor/pg_clipfrac", "actor/pg_clipfrac_lower", "response_length/clip_ratio")),
    Panel("Actions", "share, count", ("rollout/invalid_action_ratio", "rollout/turns/mean", "rollout/tool_calls/mean")),
    Panel("Age of samples", "versions", ("rollout/age/mean", "rollout/age/max", "rollout/begun_anew")),
    Panel("Time", "seconds", ("timing_s/*",)),
)

PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<style>
body {{ font: 15px/1.5 system-ui, sans-serif; max-width: 1100px;
       margin: 2rem auto; padding: 0 1rem; color: #1b1f24; }}
table {{ border-collapse: collapse; }}
td, th {{ border-bottom: 1px solid #d8dee4; padding: .2rem .8rem; text-align: right; }}
td:first-child, th:first-child {{ text-align: left; }}
.warning {{ border-left: 4px solid #b42318; padding-left: .8rem; }}
.panels {{ display: grid; grid-template-columns: repeat(auto-fit, minmax(480px, 1fr)); gap: 1rem; }}
pre {{ background: #f6f8fa; padding: 1rem; overflow: auto; }}
</style></head><body>
<h1>{title}</h1>
{notes}
<table><tr><th>metric</th><th>first</th><th>last</th><th>best</th><th>at step</th></tr>{rows}</table>
<div class="panels">{panels}</div>
<p>{missing}</p>
<h2>Settings</h2><pre>{settings}</pre>
</body></html>
"""
HEADLINES = ("critic/score/mean", "acc", "val/test_score", "actor/entropy", "response_length/mean", "mismatch/kl_k3")


def write_report(output: Path, title: str, settings: str, notes: Sequence[str] = ()) -> Path:
    """Write ``report.html`` to ``output`` from its ``metrics.jsonl``; ``notes`` are warnings shown on top.

    Raises ``MissingExtra`` without plotly and ``CorruptData`` for metrics that cannot be read.
    """
    steps = read_lines(output / METRICS)
    drawn = [
        (panel, figure(panel, found, first=index == 0)) for index, (panel, found) in enumerate(select_panels(steps))
    ]
    shown = {panel.title for panel, _ in drawn}
    missing = [panel.title for panel in PANELS if panel.title not in shown]
    page = PAGE.format(
        title=html.escape(title),
        notes="".join(f'<p class="warning">{html.escape(note)}</p>' for note in notes),
        rows="".join(headline(name, steps) for name in (*HEADLINES, *components(steps)) if present(name, steps)),
        panels="".join(f"<div>{drawing}</div>" for _, drawing in drawn),
        missing=f"Nothing was measured for: {html.escape(', '.join(missing))}." if missing else "",
        settings=html.escape(settings),
    )
    target = output / "report.html"
    target.write_text(page, encoding="utf-8")
    return target


def components(steps: Steps) -> list[str]:
    """Return the names of the reward components."""
    return sorted({name for metrics in steps.values() for name in metrics if name.startswith("reward/")})


def present(name: str, steps: Steps) -> bool:
    return any(name in metrics for metrics in steps.values())


def select_panels(steps: Steps) -> list[tuple[Panel, dict[str, list[tuple[int, float]]]]]:
    """Return the panels that have data, with their points."""
    names = sorted({name for metrics in steps.values() for name in metrics})
    found = []
    for panel in PANELS:
        wanted = [name for pattern in panel.series for name in names if matches(name, pattern)]
        points = {name: [(step, m[name]) for step, m in steps.items() if name in m] for name in wanted}
        if points:
            found.append((panel, points))
    return found


def matches(name: str, pattern: str) -> bool:
    return name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern


def figure(panel: Panel, points: Mapping[str, Sequence[tuple[int, float]]], *, first: bool) -> str:
    """Render a diagram as HTML; the first one embeds plotly, so that the file needs no network."""
    try:
        graph: Any = importlib.import_module("plotly.graph_objects")
    except ImportError as error:
        raise MissingExtra("plotly", "train") from error
    drawing = graph.Figure()
    for name, series in points.items():
        # A diverged run's last point is NaN or infinite, which would set the scale of the whole axis.
        finite = [(step, value) for step, value in series if math.isfinite(value)]
        drawing.add_scatter(
            x=[step for step, _ in finite], y=[value for _, value in finite], name=name, mode="lines+markers"
        )
    drawing.update_layout(
        title=panel.title, height=340, margin={"l": 50, "r": 10, "t": 40, "b": 40}, legend={"orientation": "h"},
        xaxis={"title": "step"}, yaxis={"title": panel.unit, "type": "log" if panel.log else "linear"},
    )  # fmt: skip
    return str(drawing.to_html(full_html=False, include_plotlyjs=first))


def headline(name: str, steps: Steps) -> str:
    """Render a metric's row of the summary table."""
    series = [(step, metrics[name]) for step, metrics in steps.items() if name in metrics]
    step, best = max(series, key=lambda point: point[1])
    cells = (f"{series[0][1]:.4g}", f"{series[-1][1]:.4g}", f"{best:.4g}", str(step))
    return f"<tr><td>{html.escape(name)}</td>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"
