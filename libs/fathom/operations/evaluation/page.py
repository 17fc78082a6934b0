"""Report of an evaluation set as one HTML file that needs no network and no script."""

from __future__ import annotations

import html
from collections.abc import Sequence

from fathom.operations.evaluation.scoring import Line, Score
from fathom.operations.ranking.page import render_table, wrap_page

# Pixels of the plot: a row, the names at its left, the scale from 0 to 100 %.
ROW, NAMES, SCALE = 28, 120, 560


def render_scores(title: str, lines: Sequence[Line], scores: Sequence[Score]) -> str:
    """Return the page: shares by kind and language with intervals, shares by item, answers beside references."""
    parts = [f"<h1>{html.escape(title)}</h1>", draw_lines(lines), render_lines(lines)]
    parts += ["<h2>Items</h2>", draw_items(scores), *(render_item(score) for score in scores)]
    return wrap_page(title, "".join(parts))


def render_shares(
    title: str, label: str, shares: Sequence[tuple[str, float, float, float]], table: str, rest: str = "",
    notes: Sequence[str] = (),
) -> str:  # fmt: skip
    """Return a page of shares drawn with their intervals, between notes and the same as a plain table.

    ``rest`` is HTML behind the table; all other texts are plain.
    """
    parts = [
        f"<h1>{html.escape(title)}</h1>",
        *(f"<p>{html.escape(note)}</p>" for note in notes),
        draw_shares(label, shares),
        f"<pre>{html.escape(table)}</pre>",
        rest,
    ]
    return wrap_page(title, "".join(parts))


def draw_shares(label: str, rows: Sequence[tuple[str, float, float, float]]) -> str:
    """Draw shares from 0 to 1 with their intervals, given as name, share, low and high, a row each."""
    marks = [
        f'<line x1="{NAMES + SCALE * tick / 4:g}" x2="{NAMES + SCALE * tick / 4:g}" y1="0" y2="{ROW * len(rows)}" '
        f'stroke="#8884"/><text x="{NAMES + SCALE * tick / 4:g}" y="{ROW * len(rows) + 16}" text-anchor="middle">'
        f"{25 * tick} %</text>"
        for tick in range(5)
    ]
    for index, (name, share, low, high) in enumerate(rows):
        y = ROW * index + ROW / 2
        marks.append(
            f'<text x="0" y="{y + 4:g}">{html.escape(name)}</text>'
            f'<rect x="{NAMES}" y="{y - 8:g}" width="{SCALE * share:.1f}" height="16" fill="#2a6fdb"/>'
            f'<line x1="{NAMES + SCALE * low:.1f}" x2="{NAMES + SCALE * high:.1f}" y1="{y:g}" y2="{y:g}" '
            'stroke="currentColor" stroke-width="2"/>'
        )
    size = f'width="{NAMES + SCALE + 40}" height="{ROW * len(rows) + 24}"'
    return f'<svg role="img" aria-label="{html.escape(label)}" {size}>{"".join(marks)}</svg>'


def draw_lines(lines: Sequence[Line]) -> str:
    """Draw the shares of the table's lines."""
    return draw_shares(
        "Share of figures with 95 % intervals", [(one.name, one.share, one.low, one.high) for one in lines]
    )


def draw_items(scores: Sequence[Score]) -> str:
    """Draw the share of each item; a single answer has no interval."""
    return draw_shares("Share of figures by item", [(one.item.id, one.share, one.share, one.share) for one in scores])


def render_lines(lines: Sequence[Line]) -> str:
    """Return the table."""
    rows = [
        [
            one.name, str(one.items), f"{one.share:.1%}", f"{one.low:.1%} to {one.high:.1%}", str(one.finished),
            str(one.unsupported),
        ]
        for one in lines
    ]  # fmt: skip
    return render_table(["items", "n", "figures", "95 %", "finished", "unsupported"], rows, numbers=1)


def render_item(score: Score) -> str:
    """Return an item with its reference, the answer, and the figures that the answer lacks."""
    item = score.item
    sources = "; ".join(
        f"{one.document}, page {one.page}" if one.document else f"{one.table}.{one.column}, {one.first} to {one.last}"
        for one in item.sources
    )
    lacks = ", ".join(score.lacks) or "nothing"
    return (
        f"<h3>{html.escape(item.id)}: {html.escape(item.question)}</h3>"
        f"<p>{score.wanted - len(score.lacks)} of {score.wanted} figures; lacks {html.escape(lacks)}</p>"
        f"{render_table(['reference', 'answer'], [[item.reference, score.answer.text]])}<p>{html.escape(sources)}</p>"
    )
