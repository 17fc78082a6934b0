"""The gold questions themselves: enough of them, of every kind, in both languages, with cells that the parquet holds."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.golden.datafetch.oracle import Oracle
from tests.golden.datafetch.schema import (
    FRESH,
    HELD,
    LATE,
    Cell,
    Computed,
    Measure,
    Question,
    Range,
    load_pairs,
    load_questions,
)

QUESTIONS = load_questions()
HELD_OUT = [question for path in (HELD, LATE, *FRESH) for question in load_questions(path)]
CELLS = [pytest.param(q, cell, id=f"{q.id}-{i}") for q in (*QUESTIONS, *HELD_OUT) for i, cell in enumerate(q.cells)]
RANGES = [
    pytest.param(q, wanted, id=f"{q.id}-{i}") for q in (*QUESTIONS, *HELD_OUT) for i, wanted in enumerate(q.ranges)
]
COMPUTED = [pytest.param(made, id=f"{q.id}-{i}") for q in HELD_OUT for i, made in enumerate(q.computed)]
NATIVE = (Measure.VALUE, Measure.MAX, Measure.MIN, Measure.MEAN, Measure.SUM)


@pytest.fixture(scope="module")
def oracle(tables_dir: Path) -> Iterator[Oracle]:
    oracle = Oracle(tables_dir)
    yield oracle
    oracle.close()


def test_there_are_enough_of_every_kind() -> None:
    assert len(QUESTIONS) >= 200
    assert (
        len({question.id for question in QUESTIONS}) == len({question.ask for question in QUESTIONS}) == len(QUESTIONS)
    )
    languages = Counter(question.lang for question in QUESTIONS)
    assert min(languages.values()) >= 90
    assert min(Counter(question.kind for question in QUESTIONS).values()) >= 5
    assert {cell.measure for question in QUESTIONS for cell in question.cells} == set(Measure)
    assert len(HELD_OUT) >= 108
    assert not {question.ask for question in QUESTIONS} & {question.ask for question in HELD_OUT}
    assert {question.kind for question in HELD_OUT} >= {question.kind for question in QUESTIONS}


@pytest.mark.parametrize(("question", "cell"), CELLS)
def test_a_cell_is_in_the_parquet(oracle: Oracle, question: Question, cell: Cell) -> None:
    assert math.isclose(oracle.value(cell), cell.value, rel_tol=1e-7, abs_tol=1e-9)
    if cell.measure in NATIVE:
        assert oracle.unit(cell.of) == cell.unit
    if cell.measure in (Measure.MAX, Measure.MIN):
        assert oracle.days_of(cell)[0] == cell.day
    if question.as_of is not None:
        assert (cell.day or cell.end or question.as_of) <= question.as_of


@pytest.mark.parametrize(("question", "wanted"), RANGES)
def test_a_range_is_in_the_parquet(oracle: Oracle, question: Question, wanted: Range) -> None:
    points = oracle.range(wanted)
    assert (len(points), oracle.unit(wanted.of)) == (wanted.rows, wanted.unit)
    for point, edge in ((points[0], wanted.first), (points[-1], wanted.last)):
        assert point.day == edge.day
        assert math.isclose(point.value, edge.value, rel_tol=1e-7)


@pytest.mark.parametrize("made", COMPUTED)
def test_a_computed_column_is_what_its_statement_makes(oracle: Oracle, made: Computed) -> None:
    points = oracle.compute(made)
    assert len(points) == made.rows
    for value, written in ((points[0][1], made.first), (points[-1][1], made.last)):
        assert math.isclose(value, written, rel_tol=1e-7)


def test_pairs_name_indicators_that_exist(oracle: Oracle) -> None:
    pairs, names = load_pairs(), oracle.names()
    assert len(pairs) >= 120
    assert len({pair.text for pair in pairs}) == len(pairs)
    assert min(Counter(pair.lang for pair in pairs).values()) >= 50
    assert {ident for pair in pairs for ident in pair.ids} <= set(names)
    # Nobody needs a matcher for the indicator's own name.
    stored = {name.casefold() for name in names.values()}
    assert not [pair.text for pair in pairs if pair.text.casefold() in stored]
