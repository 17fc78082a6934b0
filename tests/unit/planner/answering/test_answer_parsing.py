"""Model text as events: any cut gives the same events, unclosed tags are text, code is left alone, HTML is escaped."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fathom.services.planner.answering.parsing import (
    AnswerParser,
    Citation,
    Code,
    Event,
    FigureBlock,
    Markup,
    Reference,
    Text,
    escape_html,
    merge_events,
    parse,
)

# Its own end stands in a comment of its code: only the one behind the fence counts.
FIGURE = "<figure>\n```python\nimport plotly.express as px\npx.line(sheet_1)  # </figure>\n```\n</figure>"
PARTS = [
    FIGURE, "<figure>\n```py\nx\n", "<figure>", "</figure>", "<FIGURE >\n~~~\nx[1]\n~~~\n</figure >", "[1]", "[1, 2]",
    "[1](u)", "[", "]", "{{table:sheet_1}}", "{{figure:fig_1}}", "{{", "}}", "`", "``", "```", "~~~", "```python\n",
    "\n", "\n\n", " ", "    ", "\\", "<", "<b>", "<script>alert(1)</script>", "<https://example.org>", "<http", "a", " " * 45, "`" * 25, "~" * 420,
    "表", "1.2", "[12，3]", "x[7]", "&lt;",
]  # fmt: skip


def kinds(markdown: str) -> list[str]:
    return [type(event).__name__ for event in parse(markdown)]


def in_pieces(pieces: list[str]) -> list[Event]:
    parser = AnswerParser()
    return merge_events([*(event for piece in pieces for event in parser.feed(piece)), *parser.close()])


@settings(max_examples=400, deadline=None)
@given(st.lists(st.sampled_from(PARTS), max_size=14), st.data())
def test_any_cut_gives_the_same_events(parts: list[str], data: st.DataObject) -> None:
    text = "".join(parts)
    # Pieces of a stream end anywhere, in the middle of a tag as well, and may be empty.
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=20)))
    pieces = [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    whole = parse(text)
    assert in_pieces(pieces) == whole
    assert "".join(event.source for event in whole) == text
    assert all(text[event.start : event.end] == event.source for event in whole)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from(PARTS), max_size=12).map("".join))
def test_character_by_character_is_the_same(text: str) -> None:
    assert in_pieces(list(text)) == parse(text)


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=300))
def test_arbitrary_text_is_lossless_and_without_live_html(text: str) -> None:
    events = parse(text)
    assert "".join(event.source for event in events) == text
    # Code is shown as text by whoever renders it, and escaping it here would change it.
    prose = "".join(escape_html(event) for event in events if not isinstance(event, Code | FigureBlock))
    assert not re.search(r"(?<!\\)<[A-Za-z/!?](?!ttps?://)", prose)


def test_a_figure_is_found_at_every_cut() -> None:
    text = f"Before [1].\n\n{FIGURE}\n\nAfter."
    whole = parse(text)
    figure = next(event for event in whole if isinstance(event, FigureBlock))
    assert figure.code == "import plotly.express as px\npx.line(sheet_1)  # </figure>"
    for cut in range(len(text) + 1):
        assert in_pieces([text[:cut], text[cut:]]) == whole


@pytest.mark.parametrize(
    "text",
    [
        "<figure>\n```python\nfig",
        "<figure>\n```python\nfig\n```\n",
        "<figure>no fence</figure>",
        "<figure>\n```python\n\n```\n</figure>",
        "<figure>\n```python\nfig\n```\nmore\n</figure>",
        "<figure",
        "<figurex>\n```python\nfig\n```\n</figurex>",
        # Longer than a figure may be: what waits for its end must be bounded.
        "<figure>\n```python\n" + "x = 1\n" * 4_000 + "```\n</figure>",
    ],
)
def test_what_is_no_figure_stays_text(text: str) -> None:
    events = parse(text)
    assert not any(isinstance(event, FigureBlock) for event in events)
    assert "".join(event.source for event in events) == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", ["Text"]),
        ("a [1, 2]。", ["Text", "Citation", "Text"]),
        ("a [1](https://example.org)", ["Text"]),
        (r"a \[1]", ["Text"]),
        ("`x[1]` [1]", ["Code", "Text", "Citation"]),
        ("``a ` [1]`` ` [2]", ["Code", "Text", "Citation"]),
        ("```\nx[1]\n{{table:a}}\n```\n[1]", ["Code", "Citation"]),
        ("~~~\n```\n[1]\n~~~\n[1]", ["Code", "Citation"]),
        ("```\nnever closed [1]", ["Code"]),
        ("    [1]", ["Text", "Citation"]),
        ("a `b\n\nc` [1]", ["Text", "Citation"]),
        ("{{table:sheet_1}}{{figure:fig_1}}", ["Reference", "Reference"]),
        ("{{chart:x}} {{table:}}", ["Text"]),
        ("<b>bold</b>", ["Markup", "Text", "Markup", "Text"]),
        ("1 < 2 and <https://example.org>", ["Text"]),
    ],
)
def test_grammar(text: str, expected: list[str]) -> None:
    assert kinds(text) == expected


@pytest.mark.parametrize(
    "hostile",
    [
        "<script>alert(1)</script>",
        "<img src=x onerror=alert(1)>",
        "<svg/onload=alert(1)>",
        "</figure><iframe src=javascript:alert(1)>",
        "<!--><script>alert(1)</script>-->",
        "<?php ?>",
        "<javascript:alert(1)>",
        "<figure onclick=alert(1)>\n```python\nx\n```\n</figure>",
        "<math><mi//xlink:href='data:x,<script>alert(1)</script>'>",
    ],
)
def test_html_is_escaped(hostile: str) -> None:
    shown = "".join(escape_html(event) for event in parse(hostile) if not isinstance(event, Code))
    assert not re.search(r"(?<!\\)<", shown)


def test_values() -> None:
    events = parse("x [1，22] {{table: sheet_1 }}<i>")
    assert next(event for event in events if isinstance(event, Citation)).numbers == (1, 22)
    reference = next(event for event in events if isinstance(event, Reference))
    assert (reference.kind, reference.name) == ("table", "sheet_1")
    assert isinstance(events[-2], Markup)
    assert isinstance(events[0], Text)


def test_nothing_is_held_back_for_long() -> None:
    parser = AnswerParser()
    text = "A sentence without marks that just goes on. " * 5
    assert "".join(event.source for event in parser.feed(text)) == text
    assert parser.feed("and [")
    assert not parser.feed("1")
