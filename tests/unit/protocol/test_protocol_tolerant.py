"""The tolerant readers on what models really write (rows P02, P07): every case is one habit."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fathom.protocol.tolerant import Entry, read_array, read_choice, read_list, read_object, read_xml

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


REPORT_SEARCH = [Entry("Apple annual report 2020", "report"), Entry("analyst views on Apple", "search")]


@pytest.mark.parametrize(
    "text",
    [
        "1. report: Apple annual report 2020\n2. search: analyst views on Apple",
        "1. report: Apple annual report 2020 2. search: analyst views on Apple",
        "1) report: Apple annual report 2020\n2) search: analyst views on Apple",
        "(1) report: Apple annual report 2020\n(2) search: analyst views on Apple",
        "（1）report：Apple annual report 2020\n（2）search：analyst views on Apple",
        "（一）report：Apple annual report 2020\n（二）search：analyst views on Apple",
        "一、report：Apple annual report 2020\n二、search：analyst views on Apple",
        "① report: Apple annual report 2020\n② search: analyst views on Apple",
        "①report: Apple annual report 2020；②search: analyst views on Apple",
        "Step 1: report: Apple annual report 2020\nStep 2: search: analyst views on Apple",
        "第一步：report：Apple annual report 2020\n第二步：search：analyst views on Apple",
        "- report: Apple annual report 2020\n- search: analyst views on Apple",
        "* **report**: Apple annual report 2020\n* **search**: analyst views on Apple",
        "• Report: Apple annual report 2020\n• SEARCH: analyst views on Apple",
        "a) report: Apple annual report 2020\nb) search: analyst views on Apple",
        "report: Apple annual report 2020\nsearch: analyst views on Apple",
        "I will do this:\n\n1. report: Apple annual report 2020\n2. search: analyst views on Apple\n\nHope it helps!",
        "1. report: Apple annual\n   report 2020\n2. search: analyst views on Apple",
        "1. greeting: hello\n2. report: Apple annual report 2020\n3. search: analyst views on Apple\n4. note: none",
        '["report: Apple annual report 2020", "search: analyst views on Apple"]',
        "```\n1. report: Apple annual report 2020\n2. search: analyst views on Apple\n```",
        "1. [report]: Apple annual report 2020\n2. [search]: analyst views on Apple",
    ],
)
def test_labelled_lists_drop_what_does_not_belong(text: str) -> None:
    assert read_list(text, ("report", "search")) == REPORT_SEARCH


def test_lists_without_labels_and_numbers_that_are_no_numbering() -> None:
    assert read_list("1. Revenue grew 3.5 percent\n2. Margin was 12.1") == [
        Entry("Revenue grew 3.5 percent"),
        Entry("Margin was 12.1"),
    ]
    assert read_list("nothing numbered here") == []
    assert read_list("1. \n2. x") == [Entry("x")]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<plan>a</plan><why>b</why>", {"plan": ["a"], "why": ["b"]}),
        ("<plan>a</plan>\n<plan>b</plan>", {"plan": ["a", "b"], "why": []}),
        ("<PLAN>a</Plan>", {"plan": ["a"], "why": []}),
        ("＜plan＞a＜／plan＞", {"plan": ["a"], "why": []}),
        ("<plan>a <why>b</why>", {"plan": ["a"], "why": ["b"]}),
        ("<plan>never closed", {"plan": ["never closed"], "why": []}),
        ("```xml\n<plan>a</plan>\n```", {"plan": ["a"], "why": []}),
        ('<plan id="1">\n a < b \n</plan>', {"plan": ["a < b"], "why": []}),
        ("no tags", {"plan": [], "why": []}),
    ],
)
def test_xml(text: str, expected: dict[str, list[str]]) -> None:
    assert read_xml(text, ("plan", "why")) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [("The answer is easy.", "easy"), ('{"level": "hard"}', "hard"), ("easy or hard", None), ("easily", None)],
)
def test_choices(text: str, expected: str | None) -> None:
    assert read_choice(text, ("easy", "hard")) == expected


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=200))
def test_no_text_breaks_a_reader(text: str) -> None:
    assert isinstance(read_object(text), dict | None)
    assert isinstance(read_array(text), list | None)
    assert all(isinstance(entry, Entry) for entry in read_list(text))
    assert read_xml(text, ("a", "b")).keys() == {"a", "b"}
    assert read_choice(text, ("a",)) in ("a", None)


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
