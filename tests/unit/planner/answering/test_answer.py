"""Citations: what resolves stays, what does not is removed and reported, code is left alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fathom.services.planner.answering.rendering.citations import resolve_citations
from fathom.services.planner.rollouts.grading import strip_citations
from fathom.services.planner.runs.log.events import split_deltas


@pytest.mark.parametrize(
    ("text", "expected", "cited", "unresolved"),
    [
        ("a [1].", "a [1].", (1,), ()),
        ("a [1][2].", "a [1][2].", (1, 2), ()),
        ("a [2, 1].", "a [2][1].", (1, 2), ()),
        ("a [1，2]。", "a [1][2]。", (1, 2), ()),
        ("a [7].", "a .", (), (7,)),
        ("a [1, 7].", "a [1].", (1,), (7,)),
        # A link whose label is a number, code with an index, and a footnote: brackets that cite nothing.
        ("[1](https://example.org)", "[1](https://example.org)", (), ()),
        ("`x[1]` and [1]", "`x[1]` and [1]", (1,), ()),
        ("```\ny[7]\n```", "```\ny[7]\n```", (), ()),
        ("[^1] [a] []", "[^1] [a] []", (), ()),
    ],
)
def test_citations(text: str, expected: str, cited: tuple[int, ...], unresolved: tuple[int, ...]) -> None:
    checked = resolve_citations(text, [1, 2, 3])
    assert (checked.markdown, checked.cited, checked.unresolved) == (expected, cited, unresolved)


@given(st.text())
def test_deltas_are_the_text(text: str) -> None:
    assert "".join(split_deltas(text)) == text
    assert all(split_deltas(text))


def test_what_is_graded_has_no_citations() -> None:
    """A grader that reads the last number must not read the number of the material."""
    assert strip_citations("It was 25.21[2].") == "It was 25.21."
    assert strip_citations("25.21 [2, 3][4]") == "25.21"
    assert (
        strip_citations("see [a link](https://x.y) and [1](https://x.y)")
        == "see [a link](https://x.y) and [1](https://x.y)"
    )
