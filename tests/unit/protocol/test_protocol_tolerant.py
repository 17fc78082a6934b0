"""The tolerant readers on what models really write: every case is one habit."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fathom.domain.chat.tolerant import read_array, read_object

PLAN = {"tool": "search", "query": "apple"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"tool": "search", "query": "apple"}', PLAN),
        ('```json\n{"tool": "search", "query": "apple"}\n```', PLAN),
        ('```\n{"tool": "search", "query": "apple"}\n```', PLAN),
        ('Sure! Here is the plan:\n```json\n{"tool": "search", "query": "apple"}\n```\nAnything else?', PLAN),
        ('The plan is {"tool": "search", "query": "apple"}. Done.', PLAN),
        ('{"tool": "search", "query": "apple",}', PLAN),
        ("{'tool': 'search', 'query': 'apple'}", PLAN),
        ('｛"tool"："search"，"query"："apple"｝', PLAN),
        ("{“tool”: “search”, “query”: “apple”}", PLAN),
        ('{"tool": "search", "query": "apple"', PLAN),
        ('```json\n{"tool": "search", "query": "apple"}', PLAN),
        ('{"tool": "search", "query": "apple"} {"tool": "data"}', PLAN),
        ('{"a": {"b": [1, 2,], },}', {"a": {"b": [1, 2]}}),
        ('{"text": "line one\nline two"}', {"text": "line one\nline two"}),
        ('{"text": "a } inside"}', {"text": "a } inside"}),
        ('{"text": "全角，保留"}', {"text": "全角，保留"}),
        ("{'ok': True, 'none': None}", {"ok": True, "none": None}),
        ('{"items": [{"x": 1}, {"x": 2}', {"items": [{"x": 1}, {"x": 2}]}),
        ('{"text": "cut off in the mid', None),
        ("no object here", None),
        ("", None),
        ("[1, 2]", None),
        ("{not json at all}", None),
    ],
)
def test_objects(text: str, expected: dict[str, Any] | None) -> None:
    assert read_object(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('["a", "b"]', ["a", "b"]),
        ('Queries:\n```json\n["a", "b",]\n```', ["a", "b"]),
        ("['a', 'b']", ["a", "b"]),
        ('［"a"，"b"］', ["a", "b"]),
        ('["a", "b"', ["a", "b"]),
        ('{"a": 1}', None),
    ],
)
def test_arrays(text: str, expected: list[Any] | None) -> None:
    assert read_array(text) == expected


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=200))
def test_no_text_breaks_a_reader(text: str) -> None:
    assert isinstance(read_object(text), dict | None)
    assert isinstance(read_array(text), list | None)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-1000, 1000) | st.text("ab{}[],:'\"\\，", max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", min_size=1, max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)


@settings(max_examples=200, deadline=None)
@given(st.dictionaries(st.text("abc", min_size=1, max_size=3), VALUES, max_size=4))
def test_well_formed_json_is_never_changed(value: dict[str, Any]) -> None:
    assert read_object(json.dumps(value, ensure_ascii=False)) == value
    assert read_object(f"```json\n{json.dumps(value)}\n```") == value
