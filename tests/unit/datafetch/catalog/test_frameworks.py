"""The framework library: ten whole trees, errors that say where, levels that end at three, topics by their words."""

from __future__ import annotations

from collections import Counter
from dataclasses import FrozenInstanceError
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from fathom.core.errors import InvalidField, NotFound
from fathom.services.datafetch.catalog.frameworks import (
    BUNDLED,
    Frameworks,
    InvalidFramework,
    Tool,
    load_frameworks,
    read_framework,
)
from tests.golden.datafetch.schema import load_topics

ROOT = Path(__file__).resolve().parents[4]
TOPICS = [
    "bond", "company", "event", "financial_report", "fund", "industry", "macro", "policy", "stock", "strategy",
]  # fmt: skip
LIBRARY = load_frameworks()
QUESTIONS = load_topics()


def small(**changes: Any) -> dict[str, Any]:
    """A whole framework of one indicator."""
    leaf = {"name": "tea price", "zh": "茶价"}
    aspect = {"name": "Prices", "zh": "价格", "nodes": [leaf]}
    whole = {
        "version": 1, "topic": "tea", "name": "Tea", "zh": "茶叶", "about": "Leaves.",
        "signals": {"strong": ["tea", "茶叶"]}, "nodes": [{"name": "Market", "zh": "市场", "nodes": [aspect]}],
    }  # fmt: skip
    return whole | changes


def write(folder: Path, content: Any, name: str = "tea.yaml") -> Path:
    path = folder / name
    path.write_text(
        content if isinstance(content, str) else yaml.safe_dump(content, allow_unicode=True), encoding="utf-8"
    )
    return path


def test_the_library_has_ten_whole_trees() -> None:
    assert list(LIBRARY.topics) == TOPICS
    for topic in TOPICS:
        places = LIBRARY.list_nodes(topic)
        levels = Counter(place.level for place in places)
        assert 6 <= levels[1] <= 8
        assert levels[2] >= 12
        assert levels[3] >= 30
        tools = Counter(place.node.tool for place in LIBRARY.list_indicators(topic))
        assert tools[Tool.DATA]
        assert tools[Tool.SEARCH]


def test_profitability_widens_to_many_indicators_and_to_segments() -> None:
    for topic in ("company", "financial_report"):
        below = [place for place in LIBRARY.list_indicators(topic) if place.path[0] == "Profitability"]
        assert len(below) >= 6
        assert any("segment" in place.node.name for place in below)


def test_indicators_are_those_of_level_three() -> None:
    leaves = LIBRARY.list_indicators("bond")
    assert {place.level for place in leaves} == {3}
    slope = next(place for place in leaves if place.node.name == "10-year less 2-year spread")
    assert slope.path == ("Rates", "Curve", "10-year less 2-year spread")
    assert (slope.node.zh, slope.node.ids) == ("10年与2年期利差", ("gs10", "gs2"))
    assert [place.path for place in LIBRARY.list_indicators("bond", level=1)] == [
        (n.name,) for n in LIBRARY["bond"].nodes
    ]
    # The files may go deeper; what is used does not.
    assert "price and volume of a segment" in (BUNDLED / "financial_report.yaml").read_text(encoding="utf-8")
    assert not [p for p in LIBRARY.list_nodes("financial_report") if p.node.name == "price and volume of a segment"]


@pytest.mark.parametrize("level", [0, 4, -1])
def test_other_levels_are_refused(level: int) -> None:
    with pytest.raises(InvalidField, match="level"):
        LIBRARY.list_indicators("bond", level)


def test_an_unknown_topic_brings_the_nearest() -> None:
    with pytest.raises(NotFound, match="industry"):
        LIBRARY.list_indicators("industries")


def test_the_library_cannot_be_changed() -> None:
    with pytest.raises(TypeError):
        LIBRARY.topics["new"] = LIBRARY["bond"]  # type: ignore[index]
    with pytest.raises(FrozenInstanceError):
        LIBRARY.topics = {}  # type: ignore[misc]
    with pytest.raises(ValidationError):
        LIBRARY["bond"].nodes[0].name = "x"


TREES: st.SearchStrategy[list[Any]] = st.recursive(
    st.just([]),
    lambda below: st.lists(below, min_size=1, max_size=3),
    max_leaves=20,
)


def grow_nodes(shape: list[Any], path: str = "n") -> list[dict[str, Any]]:
    """Grow nodes of a random shape; every branch reaches level 3."""
    shape = shape or ([[]] if path.count(".") < 3 else [])
    return [
        {"name": f"{path}.{i}", "zh": f"节点{path}.{i}", "nodes": grow_nodes(below, f"{path}.{i}")}
        for i, below in enumerate(shape)
        if path.count(".") < 6
    ]


@given(TREES)
def test_no_tree_is_used_below_level_three(tmp_path_factory: pytest.TempPathFactory, shape: list[Any]) -> None:
    folder = tmp_path_factory.mktemp("tree")
    write(folder, small(nodes=grow_nodes(shape)))
    library = load_frameworks(folder)
    assert {place.level for place in library.list_indicators("tea")} == {3}
    assert max(place.level for place in library.list_nodes("tea")) == 3


BROKEN = [
    ({"zh": "tea"}, "", "zh", "needs a Chinese character"),
    ({"version": 2}, "", "version", "Input should be 1"),
    ({"signals": {"strong": []}}, "", "signals.strong", "at least 1"),
    ({"surprise": 1}, "", "surprise", "not permitted"),
    ({"topic": "Tea leaves"}, "", "topic", "pattern"),
    ({"nodes": []}, "", "nodes", "has no nodes"),
    ({"nodes": [{"name": "Market", "zh": "市场", "nodes": [{"name": "Prices"}]}]}, "Market / Prices", "zh", "required"),
    ({"nodes": [{"name": "Market", "zh": "市场", "nodes": [{"zh": "价格"}]}]}, "Market / node 1", "name", "required"),
    ({"nodes": [{"name": "Market", "zh": "市场"}]}, "Market", "nodes", "ends at level 1"),
    ({"nodes": [{"name": "Market", "zh": "市场", "tool": "guess"}]}, "Market", "tool", "'data' or 'search'"),
    (
        {"nodes": [{"name": "Market", "zh": "市场", "nodes": [{"name": "A", "zh": "甲"}, {"name": "a", "zh": "乙"}]}]},
        "Market", "", "two nodes are called 'a'",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("change", "place", "field", "message"), BROKEN)
def test_errors_name_file_place_and_field(
    tmp_path: Path, change: dict[str, Any], place: str, field: str, message: str
) -> None:
    path = write(tmp_path, small(**change))
    with pytest.raises(InvalidFramework) as caught:
        load_frameworks(tmp_path)
    problem = caught.value.problems[0]
    assert (problem.file, problem.place, problem.field) == (str(path), place, field)
    assert message in problem.message
    assert str(path) in caught.value.message
    assert caught.value.metadata["field"].startswith(str(path))


def test_all_problems_of_a_file_are_told_at_once(tmp_path: Path) -> None:
    path = write(tmp_path, small(zh="x", about="", nodes=[{"name": "Market"}]))
    with pytest.raises(InvalidFramework) as caught:
        read_framework(path)
    assert [(problem.place, problem.field) for problem in caught.value.problems] == [
        ("", "zh"),
        ("", "about"),
        ("Market", "zh"),
    ]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a: [", "while parsing"),
        ("- 1", "valid dictionary"),
        ("", "valid dictionary"),
        ("[" * 3000, ""),
        # These ended the process: nothing bounded the recursion that builds them.
        ("[" * 250_000, "nested more than 50 deep"),
        ("- " * 100_000, "nested more than 50 deep"),
        # These were no error of a framework, but a defect of the reader.
        ("topic: 2026-02-31", "cannot be read"),
        (f"version: {'1' * 5_000}", "more than 40 characters"),
        (f"name: 0x{'f' * 5_000}", "more than 40 characters"),
        (f"version: 1{':1' * 2_000}.5", "more than 40 characters"),
        ("version: !!int ''", "tags are not allowed"),
        ("about: !!timestamp soon", "tags are not allowed"),
        ("? [topic]\n: tea", "a key is a list"),
        ("a: &x [1]\nb: *x", "aliases are not allowed"),
        ("zh: 甲\nzh: 乙", "'zh' stands twice"),
    ],
)
def test_files_that_are_no_framework_are_refused(tmp_path: Path, content: str, message: str) -> None:
    path = write(tmp_path, content)
    with pytest.raises(InvalidFramework, match=r"tea\.yaml") as caught:
        read_framework(path)
    assert message in caught.value.message


def test_large_undecodable_and_absent_files_are_refused(tmp_path: Path) -> None:
    large = write(tmp_path, "#" * 300_000, "large.yaml")
    with pytest.raises(InvalidFramework, match="larger than"):
        read_framework(large)
    (tmp_path / "bytes.yaml").write_bytes(b"name: \xff")
    with pytest.raises(InvalidFramework, match="not UTF-8"):
        read_framework(tmp_path / "bytes.yaml")
    with pytest.raises(InvalidFramework, match="No such file"):
        read_framework(tmp_path / "none.yaml")
    with pytest.raises(InvalidFramework, match="has 0"):
        load_frameworks(tmp_path / "none")


def test_a_topic_is_added_by_a_file_alone() -> None:
    library = load_frameworks(BUNDLED, ROOT / "examples" / "frameworks")
    assert list(library.topics) == sorted([*TOPICS, "esg"])
    assert library.classify("What are BP's carbon emissions and its net zero target?")[0][0] == "esg"
    assert library.classify("宝钢的碳排放强度和减排目标")[0][0] == "esg"
    assert any(place.node.ids == ("mcoilwtico", "gasdesm") for place in library.list_indicators("esg"))


def test_two_files_cannot_have_one_topic(tmp_path: Path) -> None:
    write(tmp_path, small(topic="bond"))
    with pytest.raises(InvalidFramework, match=r"'bond' is also in .*bond\.yaml"):
        load_frameworks(BUNDLED, tmp_path)


def shares(library: Frameworks, half: str) -> tuple[float, float]:
    """Share of a half whose first topic is right, and whose first two hold it."""
    asked = [question for question in QUESTIONS if question.half == half]
    found = [[topic for topic, _ in library.classify(question.ask)[:2]] for question in asked]
    first = sum(topics[:1] in ([q.topic], [q.also]) for q, topics in zip(asked, found, strict=True))
    both = sum(q.topic in topics for q, topics in zip(asked, found, strict=True))
    return first / len(asked), both / len(asked)


def test_the_classifier_finds_the_topic_of_the_labelled_questions() -> None:
    assert len(QUESTIONS) >= 120
    assert {question.topic for question in QUESTIONS} == set(TOPICS)
    for half in ("fit", "held"):
        first, both = shares(LIBRARY, half)
        assert first >= 0.9
        assert both >= 0.95


def test_shares_sum_to_one_in_a_fixed_order() -> None:
    again = load_frameworks()
    for question in QUESTIONS:
        found = LIBRARY.classify(question.ask)
        assert sum(share for _, share in found) == pytest.approx(1)
        assert found == again.classify(question.ask) == sorted(found, key=lambda pair: (-pair[1], pair[0]))


def test_questions_without_a_known_word_have_no_topic() -> None:
    assert LIBRARY.classify("hello there") == LIBRARY.classify("") == []


def test_width_case_and_plural_do_not_matter() -> None:
    for question in ("Ｅ Ｔ Ｆ", "etf", "ETFs", "ＥＴＦ"):
        assert [topic for topic, _ in LIBRARY.classify(question)] == (["fund"] if " " not in question else [])
    # A longer phrase of one topic hides the shorter one of another inside it.
    assert LIBRARY.classify("factor ETF")[0][0] == "fund"
