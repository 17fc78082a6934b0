"""Planning data: what is asked too early, staged plans, broken formats, prompts with and without frameworks."""

from __future__ import annotations

import asyncio
import json
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from fathom.domain.chat.pipeline import PLAN, ask, read_ask
from fathom.trainers.data.instructions import instruction
from fathom.trainers.data.stages.dependencies import find_dependent
from fathom.trainers.data.stages.episodes import Episode, StageCall
from fathom.trainers.data.stages.planning import (
    build_written,
    leave_out_framework,
    load_written,
    make_tasks,
    measure_saving,
)
from fathom.trainers.data.stages.record import Record, SubQuery, Turn, parse_plan
from fathom.trainers.data.stages.running import run_tasks
from tests.unit.trainers.data.stages.peers import by_title, make_asker, make_rules

RIGHT = {"reason": "so", "verdict": "right"}
FLAT = [
    {"tool": "data", "subquery": "Apple revenue 2020"},
    {"tool": "data", "subquery": "revenue of Apple's competitors 2020"},
]
STAGED = [FLAT[0], {"tool": "search", "subquery": "Who competes with Apple?"}]


def make_episode(output: str, framework: str = "profitability\n- gross margin [data]") -> Episode:
    sections = {"question": "How does Apple compare?", "framework": framework, "tools": "- data: numbers"}
    messages = (
        Turn(role="system", content=instruction(PLAN, "en")),
        Turn(role="user", content=ask(PLAN, sections)),
    )
    call = StageCall(stage=PLAN, messages=messages, output=output)
    return Episode(
        id="e1",
        question="How does Apple compare?",
        language="en",
        source="q:1",
        query="q",
        model="rules",
        calls=(call,),
    )


def make_row(target: Path, output: str, **replies: Any) -> Record:
    asker = make_asker(by_title({"verdict": RIGHT} | replies))
    rows = asyncio.run(run_tasks(make_tasks([make_episode(output)], asker, asker), target, Record))
    (record,) = rows.values()
    return record


# Written after the words of the lint, with relations, forms and subjects of their own.
@pytest.mark.parametrize(
    ("tool", "text", "is_early"),
    [
        ("data", "gross margin of Samsung's rivals in 2021", True),
        ("data", "Netflix' competitor net income", True),
        ("data", "dividend yield of the peers of Unilever", True),
        ("data", "cash flow of Airbus suppliers", True),
        ("data", "net income of Ford's subsidiaries", True),
        ("data", "their operating margins 2019 to 2021", True),
        ("search", "news about these companies in March", True),
        ("data", "特斯拉主要竞争对手的销量", True),
        ("data", "海天味业同行业公司的毛利率", True),
        ("data", "上述公司2021年净利润", True),
        ("search", "这些银行的不良率为何上升", True),
        ("data", "Samsung gross margin 2021", False),
        ("search", "Who are Samsung's rivals in memory chips?", False),
        ("search", "suppliers of Airbus that are listed", False),
        ("data", "unemployment rate United States 2008 to 2010", False),
        ("data", "operating margin by segment, Siemens 2020", False),
        ("data", "the three banks with the largest loss in 2008", False),
        ("search", "特斯拉有哪些竞争对手", False),
        ("data", "贵州茅台2020年毛利率", False),
        ("data", "沪深300成分股中市值最大的五只", False),
    ],
)
def test_a_subject_that_is_not_known_yet_is_found(tool: str, text: str, is_early: bool) -> None:
    assert bool(find_dependent([SubQuery(tool=tool, subquery=text)])) == is_early


def test_it_does_not_help_that_the_same_round_asks_who_they_are() -> None:
    queries = [SubQuery.model_validate(one) for one in (*STAGED, FLAT[1])]
    (found,) = find_dependent(queries)
    assert (found.place, found.words) == (2, "competitors")


def test_a_plan_that_asks_too_early_becomes_a_pair(tmp_path: Path) -> None:
    staged = {"first": STAGED, "later": [FLAT[1]]}
    record = make_row(tmp_path / "p.jsonl", json.dumps(FLAT), staged_plan=staged)
    assert (record.status, record.tags["kind"]) == ("accepted", "over_planning")
    assert json.loads(record.output) == STAGED
    assert json.loads(record.rejected) == FLAT


def test_a_staged_plan_that_asks_too_early_waits_for_a_person(tmp_path: Path) -> None:
    staged = {"first": [{"tool": "data", "subquery": "margins of Apple's peers"}], "later": []}
    record = make_row(tmp_path / "p.jsonl", json.dumps(FLAT), staged_plan=staged)
    assert (record.status, record.reason) == ("review", "still unknown: peers")


def test_the_reference_policy_stages_a_plan(tmp_path: Path) -> None:
    rules = make_rules()
    tasks = make_tasks([make_episode(json.dumps(FLAT))], rules, rules)
    (record,) = asyncio.run(run_tasks(tasks, tmp_path / "p.jsonl", Record)).values()
    assert record.status == "accepted"
    assert not find_dependent(parse_plan(record.output).queries)


def test_a_fenced_plan_is_the_worse_side_of_a_pair(tmp_path: Path) -> None:
    fenced = f"Here it is:\n```json\n{json.dumps(STAGED)}\n```"
    record = make_row(tmp_path / "p.jsonl", fenced)
    assert (record.status, record.rejected, record.tags["kind"]) == ("accepted", fenced, "format")
    assert json.loads(record.output) == STAGED


@pytest.mark.parametrize("text", ["", "I cannot plan this.", "[]", '{"tool": "data"}', '[{"tool": "data"}]'])
def test_an_unreadable_plan_is_dropped(text: str, tmp_path: Path) -> None:
    assert make_row(tmp_path / "p.jsonl", text).status == "dropped"


def test_no_row_is_usable_without_a_plan_of_the_schema() -> None:
    fields = {
        "id": "a",
        "stage": "plan",
        "status": "accepted",
        "source": "s",
        "messages": [{"role": "user", "content": "q"}],
    }
    with pytest.raises(ValidationError, match="Expecting value"):
        Record.model_validate(fields | {"output": "```json\n[]\n```"})


def test_what_is_served_has_no_framework_and_all_else() -> None:
    messages = make_episode("[]").calls[0].messages
    short = leave_out_framework(messages)
    asked = read_ask(short[-1].content)
    assert asked is not None
    assert "gross margin" in messages[-1].content
    assert "gross margin" not in short[-1].content
    assert asked["question"] == "How does Apple compare?"
    assert short[0] == messages[0]


def test_the_saving_is_counted(tmp_path: Path) -> None:
    record = make_row(tmp_path / "p.jsonl", json.dumps(STAGED))
    full, short = measure_saving([record])
    assert full - short == len("<framework>\nprofitability\n- gross margin [data]\n</framework>\n\n")


def test_the_written_pairs_are_thirty_and_more_in_both_languages() -> None:
    records = build_written(load_written())
    assert len(records) >= 30
    assert {one.language for one in records} == {"en", "zh"}
    assert len({one.id for one in records}) == len(records)
    for one in records:
        assert find_dependent(parse_plan(one.rejected).queries)
        assert not find_dependent(parse_plan(one.output).queries)


@pytest.mark.parametrize("stage", ["rewrite", "plan"])
@pytest.mark.parametrize("language", ["en", "zh"])
def test_training_shows_the_words_that_serving_shows(stage: str, language: str) -> None:
    served = resources.files("fathom.services.planner.prompts").joinpath(f"{stage}.v1.{language}.md")
    own = resources.files("fathom.trainers.data.prompts").joinpath(f"{stage}.v1.{language}.md")
    assert own.read_bytes() == served.read_bytes()
