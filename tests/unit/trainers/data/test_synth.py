"""Three task generators over the bundled data; what they hold to be right is computed again by other means."""

from __future__ import annotations

import itertools
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from typer.testing import CliRunner

from fathom.cli.main import app
from fathom.core.errors import InvalidField, NotFound
from fathom.domain.grading.code_style import check
from fathom.domain.grading.graders import GRADERS, Item
from fathom.services.reward.engine import validate_request
from fathom.services.reward.request import GradingRequest
from fathom.trainers.data.records import read
from fathom.trainers.data.synth.bundle import Bundle
from fathom.trainers.data.synth.files import generate
from fathom.trainers.data.synth.search import GAP
from fathom.trainers.data.synth.task import SCENARIOS, SynthTask, split_tasks

COUNT = 120


@pytest.fixture(scope="module")
def bundle(tables_dir: Path, corpus_dir: Path) -> Iterator[Bundle]:
    assert tables_dir.parent == corpus_dir.parent
    found = Bundle(tables_dir.parent)
    yield found
    found.close()


@pytest.fixture(scope="module")
def tasks(bundle: Bundle) -> dict[str, list[SynthTask]]:
    return {scenario: generate(bundle, scenario, COUNT, 7) for scenario in SCENARIOS}


@pytest.fixture(scope="module")
def entities(tables_dir: Path) -> dict[str, pd.DataFrame]:
    """The bundled rows of each entity, by date, which is text."""
    frame = pd.read_parquet(tables_dir / "observations.parquet")
    frame = frame.assign(date=frame["date"].astype(str)).sort_values("date", kind="stable")
    return {str(entity): rows for entity, rows in frame.groupby("entity")}


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_there_are_enough_of_every_kind_in_both_languages(tasks: dict[str, list[SynthTask]], scenario: str) -> None:
    found = tasks[scenario]
    assert len(found) == len({task.id for task in found}) == len({task.question for task in found}) == COUNT
    assert min(Counter(task.language for task in found).values()) >= 40
    kinds = Counter(task.kind for task in found)
    assert len(kinds) >= 5
    assert min(kinds.values()) >= 4
    for task in found:
        assert bool(re.search(r"[\u4e00-\u9fff]", task.question)) == (task.language == "zh")
        assert "{" not in task.question
        assert task.tools == (("search", "fetch") if scenario == "search" else ("data", "python"))


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_seed_decides_and_nothing_else(bundle: Bundle, tasks: dict[str, list[SynthTask]], scenario: str) -> None:
    assert generate(bundle, scenario, 30, 7) == tasks[scenario][:30]
    assert {task.id for task in generate(bundle, scenario, 30, 8)} != {task.id for task in tasks[scenario][:30]}


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_held_out_tasks_share_no_fact_with_training(tasks: dict[str, list[SynthTask]], scenario: str) -> None:
    """Not in the other language either."""
    sides = split_tasks(tasks[scenario], 0.25, 7)
    assert len(sides["train"]) + len(sides["test"]) == COUNT
    assert len(sides["test"]) >= 15
    facts = {side: {(task.kind, task.fact) for task in found} for side, found in sides.items()}
    assert not facts["train"] & facts["test"]


def grade(task: SynthTask, answer: str) -> float:
    """The reward service's own verdict."""
    item = Item(answer, task.references, dict(task.grader_parameters))
    return (
        GRADERS[task.grader].grade(validate_request("item", GradingRequest(task.grader, item), GRADERS, {}).item).value
    )


def beside(reference: str) -> str:
    """A number two per cent and one further from zero."""
    value = float(reference.replace(",", ""))
    return f"{value * 1.02 + math.copysign(1.0, value)}"


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_graders_accept_the_references_and_nothing_near_by(tasks: dict[str, list[SynthTask]], scenario: str) -> None:
    for task in tasks[scenario]:
        assert all(grade(task, reference) == 1.0 for reference in task.references), task
        wrong = beside(task.references[-1]) if task.grader == "number" else "nobody"
        assert grade(task, wrong) == grade(task, "") == 0.0, task


def test_what_is_searched_for_is_in_its_document_and_in_no_other(
    bundle: Bundle, tasks: dict[str, list[SynthTask]]
) -> None:
    texts = {document.id: document.text for document in bundle.documents}
    for task in tasks["search"]:
        (document,) = task.documents
        if task.kind in ("figure", "person"):
            quoted = str(task.path[0].arguments["query"])
            assert quoted in task.question
            whole = quoted.replace(GAP, task.references[0])
            assert [key for key, text in texts.items() if whole in text] == [document]
            assert task.references[0] not in quoted
        elif task.kind == "described":
            assert document == f"note-company-{task.references[1].lower()}"
            assert str(task.path[0].arguments["query"]) in texts[document]
        else:
            assert task.references[0] in texts[document]
            assert any(company.name(task.language) in task.question for company in bundle.companies)


class Again:
    """Answers from the rows that a path asks for, in plain Python over pandas: no SQL, and none of the cells."""

    def __init__(self, entities: dict[str, pd.DataFrame], task: SynthTask) -> None:
        arguments = task.path[0].arguments
        self.task, self.code = task, str(task.path[1].arguments["code"])
        self.series = {}
        for entity in arguments["entities"]:
            rows = entities[entity]
            rows = rows[(rows["date"] >= arguments["start_date"]) & (rows["date"] <= arguments["end_date"])]
            for indicator, group in rows[rows["indicator"].isin(arguments["indicators"])].groupby("indicator"):
                self.series[f"{entity}.{indicator}"] = dict(zip(group["date"], group["value"], strict=True))

    def only(self) -> list[float]:
        (values,) = self.series.values()
        return list(values.values())

    def pair(self) -> tuple[list[float], list[float]]:
        """Both series in the order in which the question names them: that of the cell's arguments."""
        names = sorted(self.series, key=lambda name: self.code.index(repr(name)))
        common = [day for day in self.series[names[0]] if day in self.series[names[1]]]
        one, other = ([self.series[name][day] for day in common] for name in names)
        return one, other

    def numbers(self) -> list[int]:
        return [int(number) for number in re.findall(r"\d+", self.task.fact.split(" ", 1)[1])]


def returns(values: list[float]) -> list[float]:
    return [after / before - 1 for before, after in itertools.pairwise(values)]


def deviation(values: list[float]) -> float:
    middle = sum(values) / len(values)
    return math.sqrt(sum((value - middle) ** 2 for value in values) / (len(values) - 1))


def years_between(again: Again) -> float:
    (values,) = again.series.values()
    days = pd.to_datetime(list(values))
    return float((days[-1] - days[0]).days / 365.25)


def deepest(values: list[float]) -> float:
    return min(value / max(values[: place + 1]) - 1 for place, value in enumerate(values)) * 100


def best_month(again: Again) -> float:
    (values,) = again.series.values()
    ends = {day[:7]: value for day, value in values.items()}
    return max(returns(list(ends.values()))) * 100


def longest(values: list[float]) -> int:
    signs = "".join("u" if change > 0 else "." for change in returns(values))
    return max(len(run) for run in signs.split("."))


def correlation(again: Again) -> float:
    one, other = (returns(values) for values in again.pair())
    a, b = sum(one) / len(one), sum(other) / len(other)
    together = sum((x - a) * (y - b) for x, y in zip(one, other, strict=True)) / (len(one) - 1)
    return together / deviation(one) / deviation(other)


def winner(again: Again) -> str:
    growth = {name: list(values.values())[-1] / next(iter(values.values())) for name, values in again.series.items()}
    return str(max(growth, key=lambda name: growth[name])).split(".")[0]


def highest(again: Again) -> str:
    (values,) = again.series.values()
    return str(max(values, key=lambda day: values[day]))


ANSWERS: dict[str, Callable[[Again], Any]] = {
    "change": lambda again: (again.only()[-1] / again.only()[0] - 1) * 100,
    "growth": lambda again: ((again.only()[-1] / again.only()[0]) ** (1 / years_between(again)) - 1) * 100,
    "volatility": lambda again: deviation(returns(again.only())) * math.sqrt(252) * 100,
    "drawdown": lambda again: deepest(again.only()),
    "best_month": best_month,
    "longest_run": lambda again: longest(again.only()),
    "falls": lambda again: sum(change < -again.numbers()[-1] / 100 for change in returns(again.only())),
    "correlation": correlation,
    "close_on": lambda again: again.only()[0],
    "highest_day": highest,
    "best_of": winner,
    "cross": lambda again: again.pair()[0][0] / again.pair()[1][0],
    "level": lambda again: again.only()[0],
    "mean": lambda again: sum(again.only()) / 12,
    "spread": lambda again: again.pair()[0][0] - again.pair()[1][0],
    "months_above": lambda again: sum(value > again.numbers()[-1] for value in again.only()),
}


@pytest.mark.parametrize("scenario", ["code", "table"])
def test_answers_are_found_again_by_other_means(
    tasks: dict[str, list[SynthTask]], entities: dict[str, pd.DataFrame], scenario: str
) -> None:
    assert {task.kind for task in tasks[scenario]} <= set(ANSWERS)
    for task in tasks[scenario]:
        found = ANSWERS[task.kind](Again(entities, task))
        answer = found if isinstance(found, str) else f"{found:.6f}"
        assert grade(task, answer) == 1.0, (task, answer)


def test_questions_name_what_their_paths_ask_for(bundle: Bundle, tasks: dict[str, list[SynthTask]]) -> None:
    names = {company.ticker: company for company in bundle.companies}
    for task in tasks["code"] + tasks["table"]:
        for entity in task.path[0].arguments["entities"]:
            if entity != "US":
                shown = names[entity].name(task.language) if entity in names else entity
                assert shown in task.question


def test_cells_of_paths_have_the_style_that_is_rewarded(tasks: dict[str, list[SynthTask]]) -> None:
    for task in tasks["code"] + tasks["table"]:
        style = check(str(task.path[1].arguments["code"]))
        assert style.reward == 1.0, style.problems


def test_the_command_writes_three_sets(bundle: Bundle, tmp_path: Path, tables_dir: Path) -> None:
    home = str(tables_dir.parent.parent)
    done = CliRunner().invoke(app, ["data", "synth", "--home", home, "--target", str(tmp_path), "--count", "30"])
    assert done.exit_code == 0, done.output
    for scenario in SCENARIOS:
        records = [*read(tmp_path / scenario / "train.parquet"), *read(tmp_path / scenario / "test.parquet")]
        assert len(records) == 30
        assert {record.data_source for record in records} == {f"fathom_{scenario}"}
        assert {record.scenario for record in records} == {scenario}
        paths = [json.loads(line) for line in (tmp_path / scenario / "paths.jsonl").read_text().splitlines()]
        assert [path["id"] for path in paths] == [record.id for record in records]
        assert [path["split"] for path in paths] == [record.split for record in records]
        assert all(("</search>" in record.prompt[0][1]) == (scenario == "search") for record in records)


def test_wrong_requests_are_named(bundle: Bundle, tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="search, code, table"):
        generate(bundle, "poetry")
    with pytest.raises(InvalidField, match="100000 tasks are wanted"):
        generate(bundle, "search", 100_000)
    with pytest.raises(NotFound, match="fathom data"):
        Bundle(tmp_path)
