"""The ranking as one HTML file that needs no network and no script."""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence

from fathom.operations.ranking.agreement import Agreement, Compared
from fathom.operations.ranking.matches import GRADES, Match
from fathom.operations.ranking.strengths import Standing, tabulate

STYLE = """
:root{color-scheme:light dark}
body{font:16px/1.5 system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem}
table{border-collapse:collapse;margin:1rem 0}
th,td{border:1px solid #8885;padding:.3rem .6rem;text-align:left;vertical-align:top}
td.n{text-align:right;font-variant-numeric:tabular-nums}
svg text{font:13px system-ui,sans-serif;fill:currentColor}
"""
# Pixels of the chart of intervals: a row, the names at its left, the scale.
ROW, NAMES, SCALE = 28, 220, 560
MOST_MATCHES = 2_000
WORDS = {number: word for word, number in GRADES.items()}


def render_page(
    title: str, standings: Sequence[Standing], matches: Sequence[Match], compared: Sequence[Compared],
    agreement: Agreement | None,
) -> str:  # fmt: skip
    """Return the page: strengths with intervals, wins of each against each, agreement with people, the matches."""
    parts = [f"<h1>{html.escape(title)}</h1>", draw_intervals(standings), render_standings(standings)]
    parts += ["<h2>Points of the row against the column</h2>", render_crosstable(standings, matches)]
    if agreement is not None:
        parts += ["<h2>Agreement of judge and people</h2>", f"<p>{html.escape(describe_agreement(agreement))}</p>"]
        parts += [render_review([one for one in compared if one.is_apart])]
    parts += ["<h2>Matches</h2>", render_matches(matches[:MOST_MATCHES])]
    if len(matches) > MOST_MATCHES:
        parts.append(f"<p>{len(matches) - MOST_MATCHES:,} more are in the file of matches.</p>")
    return wrap_page(title, "".join(parts))


def wrap_page(title: str, body: str) -> str:
    """Return a whole HTML document."""
    head = f'<meta charset="utf-8"><title>{html.escape(title)}</title><style>{STYLE}</style>'
    return f'<!doctype html>\n<html lang="en"><head>{head}</head><body>{body}</body></html>\n'


def draw_intervals(standings: Sequence[Standing]) -> str:
    """Draw strengths with their intervals, one line each."""
    low, high = min(one.low for one in standings), max(one.high for one in standings)
    room = (high - low) or 1.0

    def place(value: float) -> float:
        return NAMES + (value - low) / room * SCALE

    rows = []
    for index, one in enumerate(standings):
        y = ROW * index + ROW / 2
        rows.append(
            f'<text x="0" y="{y + 4:g}">{html.escape(one.name)}</text>'
            f'<line x1="{place(one.low):.1f}" x2="{place(one.high):.1f}" y1="{y:g}" y2="{y:g}" '
            f'stroke="currentColor" stroke-width="2"/><circle cx="{place(one.strength):.1f}" cy="{y:g}" r="5" '
            'fill="#2a6fdb"/>'
        )
    size = f'width="{NAMES + SCALE + 20}" height="{ROW * len(standings)}"'
    return f'<svg role="img" aria-label="Strengths with 95 % intervals" {size}>{"".join(rows)}</svg>'


def render_standings(standings: Sequence[Standing]) -> str:
    """Return the table of strengths."""
    rows = [
        [
            one.name,
            f"{one.strength:.0f}",
            f"{one.low:.0f} to {one.high:.0f}",
            *map(str, (one.wins, one.ties, one.losses)),
            f"{one.share:.1%}",
        ]
        for one in standings
    ]
    return render_table(["contestant", "strength", "95 %", "wins", "ties", "losses", "points"], rows, numbers=1)


def render_crosstable(standings: Sequence[Standing], matches: Sequence[Match]) -> str:
    """Return the points of each contestant against each other one."""
    names, points = [one.name for one in standings], tabulate(matches)
    rows = [
        [
            name,
            *(
                f"{points[name, other]:g} of {points[name, other] + points[other, name]:g}"
                if (name, other) in points
                else "–"
                for other in names
            ),
        ]
        for name in names
    ]
    return render_table(["", *names], rows, numbers=1)


def render_review(apart: Sequence[Compared]) -> str:
    """Return the matches whose grades are two apart or more, with the judge's reason."""
    if not apart:
        return "<p>No match is graded two apart or more.</p>"
    rows = [
        [
            one.match.question,
            one.match.left,
            one.match.right,
            WORDS[one.match.grade],
            WORDS[one.human],
            one.match.reason,
        ]
        for one in apart
    ]
    head = ["question", "left", "right", "judge", "person", "the judge's reason"]
    return f"<h3>To look at again</h3>{render_table(head, rows)}"


def render_matches(matches: Sequence[Match]) -> str:
    """Return all matches with grade and reason."""
    rows = [[one.question, one.left, one.right, WORDS[one.grade], one.reason] for one in matches]
    return render_table(["question", "left", "right", "the left is", "why"], rows)


def render_table(head: Sequence[str], rows: Sequence[Sequence[str]], numbers: int = 0) -> str:
    """Return a table; columns from ``numbers`` on are aligned as numbers, none for 0."""
    top = "".join(f"<th>{html.escape(cell)}</th>" for cell in head)
    body = "".join(f"<tr>{''.join(render_cells(row, numbers))}</tr>" for row in rows)
    return f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"


def render_cells(row: Sequence[str], numbers: int) -> Iterator[str]:
    """Yield the cells of a row."""
    for place, cell in enumerate(row):
        kind = ' class="n"' if numbers and place >= numbers else ""
        yield f"<td{kind}>{html.escape(cell)}</td>"


def describe_agreement(found: Agreement) -> str:
    """Return the agreement in a line."""
    shown = [
        f"{name} {'undefined' if value is None else format(value, '.2f')}"
        for name, value in (("Spearman", found.spearman), ("Cohen's kappa", found.kappa))
    ]
    return (
        f"{found.count} pairs graded by judge and person: {', '.join(shown)}; the same grade {found.same:.1%}, "
        f"at most one apart {found.within_one:.1%}"
    )
