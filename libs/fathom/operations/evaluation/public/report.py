"""Scores of a public set with their intervals: the table, the page, and the record of the first run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from fathom.core.ids import content_hash
from fathom.domain.intervals import bootstrap_mean
from fathom.domain.journal import Journal
from fathom.operations.evaluation.page import render_shares
from fathom.operations.evaluation.public.question import PublicItem
from fathom.operations.ranking.page import render_table
from fathom.operations.shadow.gate import wilson

ALL = "all"


@dataclass(frozen=True)
class Scored:
    """Answer to an item with its scores by measure; ``fault`` says why a run ended without an answer."""

    item: PublicItem
    answer: str
    scores: Mapping[str, float]
    fault: str = ""


@dataclass(frozen=True)
class Mean:
    """Mean of a measure over the items of a group, with its 95 % interval."""

    group: str
    measure: str
    items: int
    mean: float
    low: float
    high: float


def score_answers(items: Sequence[PublicItem], answers: Mapping[str, tuple[str, str]]) -> list[Scored]:
    """Return the scores of the items that have an answer, given as text and fault by id; a fault scores nothing."""
    return [score_item(item, *answers[item.id]) for item in items if item.id in answers]


def score_item(item: PublicItem, text: str, fault: str) -> Scored:
    """Score the answer to one item."""
    return Scored(item, text, item.score("" if fault else text), fault)


def list_means(scored: Sequence[Scored], seed: int) -> list[Mean]:
    """Return the means of all items, and of each kind where there are several.

    Shares of items have Wilson's interval, means of other scores one of a bootstrap over items.
    """
    kinds = sorted({one.item.kind for one in scored})
    groups = {ALL: list(scored)}
    if len(kinds) > 1:
        groups |= {kind: [one for one in scored if one.item.kind == kind] for kind in kinds}
    return [
        find_mean(name, measure, [one.scores[measure] for one in group], seed)
        for name, group in groups.items()
        for measure in (group[0].scores if group else ())
    ]


def find_mean(group: str, measure: str, values: Sequence[float], seed: int) -> Mean:
    """Return the mean of some values with its interval."""
    total = sum(values)
    # A bootstrap of values that are all 0 or all 1 has no width, as if nothing else could ever be seen.
    is_share = set(values) <= {0.0, 1.0}
    low, high = wilson(round(total), len(values)) if is_share else bootstrap_mean([[one] for one in values], seed=seed)
    return Mean(group, measure, len(values), total / len(values), low, high)


def format_means(means: Sequence[Mean]) -> str:
    """Format the table."""
    rows = [
        f"{one.group:<14}{one.measure:<8}{one.items:>5}{one.mean:>9.1%}{f'{one.low:.1%} to {one.high:.1%}':>18}"
        for one in means
    ]
    return "\n".join([f"{'items':<14}{'measure':<8}{'n':>5}{'mean':>9}{'95 %':>18}", *rows])


def render_report(title: str, metric: str, means: Sequence[Mean], scored: Sequence[Scored]) -> str:
    """Return the page: means with their intervals, and each answer beside the accepted ones."""
    shares = [(f"{one.group} {one.measure}", one.mean, one.low, one.high) for one in means]
    rows = [
        [
            one.item.id,
            one.item.question,
            " / ".join(one.item.answers),
            one.fault or one.answer,
            ", ".join(f"{name} {value:.2f}" for name, value in one.scores.items()),
        ]
        for one in scored
    ]
    table = render_table(["item", "question", "accepted", "answer", "scores"], rows)
    notes = [f"{metric}; lines are 95 % intervals."]
    return render_shares(title, "Means with 95 % intervals", shares, format_means(means), table, notes)


def keep_first_run(journal: Journal, name: str, model: str, version: str, scored: Sequence[Scored],
                   means: Sequence[Mean]) -> str:  # fmt: skip
    """Record the first run of a set by a model, and return what this run is.

    A later one, of whatever sample, is named with the day and the figures of the first: what was changed meanwhile may
    have been changed for this set.
    """
    figures = {one.measure: round(one.mean, 4) for one in means if one.group == ALL}
    for row in journal.read():
        if (row.get("set"), row.get("model")) == (name, model):
            return describe_later(row, name)
    journal.append([
        {
            "set": name, "model": model, "day": datetime.now(UTC).date().isoformat(), "version": version,
            "items": len(scored), "sample": content_hash([one.item.id for one in scored])[:16], "figures": figures,
        }
    ])  # fmt: skip
    return f"{name}: first run of {model} here, recorded in {journal.path}"


def describe_later(first: Mapping[str, Any], name: str) -> str:
    """Return what is known of the first run."""
    shown = ", ".join(f"{measure} {mean:.1%}" for measure, mean in first["figures"].items())
    return (
        f"{name}: not a first run, which was on {first['day']} with fathom {first['version']} over {first['items']} "
        f"items: {shown}"
    )
