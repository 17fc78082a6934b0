"""``fathom eval rewrite``: outcomes of cases, shares with intervals, and files that are none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fathom.core.errors import InvalidField, NotFound
from fathom.services.planner.commands.follow_ups import (
    OUTCOMES,
    Case,
    Exchange,
    judge,
    list_shares,
    load_gold,
    read_cases,
    report,
)
from fathom.services.planner.workflow.rewriting import Reading

TURNS = (Exchange(question="What was Pfizer's maximum drawdown in 2020?", answer="It was -30.6% [1]."),)
PLAIN = Case(
    turns=TURNS,
    follow_up="and Lilly?",
    expected_mentions=("Lilly|LLY", "drawdown", "2020"),
    unexpected_mentions=("Pfizer",),
)
UNCLEAR = Case(turns=TURNS, follow_up="那个呢？", clarify=True)
WHOLE = Reading("What was the maximum DRAWDOWN of ＬＬＹ in 2020?")
RIGHT, WRONG, ASKED, NEEDLESS = OUTCOMES


@pytest.mark.parametrize(
    ("case", "reading", "outcome"),
    [
        (PLAIN, WHOLE, RIGHT),
        (PLAIN, Reading("and Lilly?"), WRONG),
        (PLAIN, Reading("What was the drawdown of Lilly and Pfizer in 2020?"), WRONG),
        (PLAIN, Reading("and Lilly?", asks_back=True), NEEDLESS),
        (UNCLEAR, Reading("那个呢？", asks_back=True), ASKED),
        (UNCLEAR, Reading("辉瑞2020年的回撤？"), WRONG),
    ],
)
def test_outcomes(case: Case, reading: Reading, outcome: str) -> None:
    assert judge(case, reading) == outcome


def test_shares_have_wilson_s_interval_by_hand() -> None:
    cases = [PLAIN] * 8 + [UNCLEAR] * 2
    shares = {share.name: share for share in list_shares(cases, [RIGHT] * 7 + [WRONG] + [ASKED] * 2)}
    assert {name: (share.good, share.count) for name, share in shares.items()} == {
        "all": (9, 10), "rewrite": (7, 8), "clarify": (2, 2), "en": (7, 8), "zh": (2, 2),
    }  # fmt: skip
    # Wilson (1927) for 9 of 10 with z = 1.96: from 0.5958 to 0.9821.
    assert (shares["all"].low, shares["all"].high) == pytest.approx((0.5958, 0.9821), abs=1e-4)


def test_the_report_prints_intervals_and_fails_below_the_wanted_share(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cases, readings = [PLAIN] * 10, [*[WHOLE] * 9, Reading("and Lilly?")]
    assert report(cases, readings, tmp_path / "out.jsonl", 0.9) == 0
    printed = capsys.readouterr().out
    assert "right or rightly asked back 9 of 10 = 90.0% (95 % 59.6% to 98.2%)" in printed
    assert "wrong without a word: and Lilly? => and Lilly?" in printed
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [row["outcome"] for row in rows] == [RIGHT] * 9 + [WRONG]
    assert report(cases, readings, None, 0.96, tmp_path / "page.html") == 1
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert page.count("<rect") == 3, "a bar for all, for those to rewrite, and for English"
    assert "95 % 59.6% to 98.2%" in page
    assert "Lilly|LLY / drawdown / 2020" in page
    assert "90.0% is below --least 96.0%" in capsys.readouterr().err


def test_the_shipped_cases_are_in_both_languages_and_have_what_they_expect() -> None:
    cases = load_gold()
    assert {language for case in cases for language in case.groups[2:]} == {"en", "zh"}
    assert all(case.expected_mentions for case in cases)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("# nothing", "has no case"),
        ("{", r"cases.jsonl:1: case: Invalid JSON"),
        ('{"turns": [], "follow_up": "x"}', r"cases.jsonl:1: turns"),
        ('\n{"turns": [{"question": "q"}], "follow_up": "x"}', r"cases.jsonl:2: turns.0.answer"),
    ],
)
def test_files_of_another_form_are_named_by_line_and_field(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "cases.jsonl").write_text(text, encoding="utf-8")
    with pytest.raises(InvalidField, match=message):
        read_cases(tmp_path / "cases.jsonl")
    with pytest.raises(NotFound):
        read_cases(tmp_path / "absent.jsonl")
