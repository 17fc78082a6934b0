"""Test what differs between two answers: by cell of code and of tables, from the records alone."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fathom.api.datafetch.v1.datafetch_pb2 import Column, Sheet
from fathom.api.planner.v1 import trajectory_pb2 as pb
from fathom.domain import frames
from fathom.services.gateway.schedules.changes import pair_sheets
from fathom.services.gateway.schedules.comparing import (
    MAX_CELLS,
    MAX_ROWS,
    Cell,
    Figure,
    compare_code,
    compare_tables,
    read_figures,
)


def make_run(*cells: tuple[str, str], ok: bool = True) -> pb.Trajectory:
    """Return a run whose cells have a source and printed something."""
    material = [
        pb.Material(number=number, code=pb.CodeRecord(code=code, stdout=printed, ok=ok))
        for number, (code, printed) in enumerate(cells, 1)
    ]
    return pb.Trajectory(run_id="run_1", steps=[pb.Step(material=material)])


def make_table(**columns: list[Any]) -> bytes:
    return frames.write_table(frames.arrow().table(columns))


def test_figures_of_steps_are_named_by_what_the_step_computes() -> None:
    group = {"kind": "group", "count": 2, "members": [{"key": "Apple", "value": 4.2}, {"key": "Microsoft", "value": 5}]}
    line = {"kind": "line", "first": {"value": 1.5, "day": "2020-01-02"}, "last": {"value": None, "day": None}}
    lines = [{"computes": 1, "what": "the return"}, {"step": 1} | group, {"computes": 2, "what": "the price"}]
    printed = "\n".join(map(json.dumps, [*lines, {"step": 2} | line]))
    assert dict(read_figures(printed)) == {
        "the return · members · Apple": 4.2, "the return · members · Microsoft": 5.0, "the price · first": 1.5,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("AAA.close_adj   -0.387", {"AAA.close_adj": -0.387}),
        ("2020-03-16  61.2", {"2020-03-16": 61.2}),
        ("total 1,234,567.5 USD", {"total USD": 1_234_567.5}),
        ("low 1.5 high 2e3", {"low high #1": 1.5, "low high #2": 2_000.0}),
        ("sheet_1 has v2.1.3 and 12:30", {}),
        ("1e999 NaN", {}),
        ("x 1\nx 2", {"x": 1.0, "x (2)": 2.0}),
        ('{"a": 1e999, "b": NaN, "c": true, "d": [1, {"key": "k", "value": 2}]}', {"d · 1": 1.0, "d · k": 2.0}),
        ("{broken 5", {"{broken": 5.0}),
        ("[" * 5_000, {}),
        ('{"a":' * 40 + "1" + "}" * 40, {}),
        ('{"a": ' + "9" * 400 + "}", {}),
    ],
)
def test_figures_of_any_text_have_the_words_around_them_as_names(line: str, found: dict[str, float]) -> None:
    assert dict(read_figures(line)) == found


def test_cells_of_equal_source_are_compared_wherever_they_stand() -> None:
    before = make_run(("a()", "x 1\ny 2"), ("b()", "z 3"))
    after = make_run(("b()", "z 4"), ("a()", "x 1\nw 5"))
    figures, compared = compare_code(before, after)
    assert compared == 3
    assert figures == [Figure("z", 3.0, 4.0), Figure("w", None, 5.0), Figure("y", 2.0, None)]


def test_cells_that_were_written_anew_are_compared_in_their_order_and_failed_ones_not_at_all() -> None:
    before, after = make_run(("to('2026-01')", "x 1")), make_run(("to('2026-02')", "x 2"))
    assert compare_code(before, after)[0] == [Figure("x", 1.0, 2.0)]
    assert compare_code(make_run(("a()", "x 1"), ok=False), make_run(("a()", "x 2"), ok=False)) == ([], 0)


def test_a_cell_that_was_added_shifts_none_that_was_changed_elsewhere() -> None:
    before = make_run(("price = load('2026-01')\nprint(price)", "price 1"), ("print(volume('2026-01'))", "volume 5"))
    after = make_run(
        ("check(9)", "rows 7"),
        ("print(volume('2026-02'))", "volume 6"),
        ("price = load('2026-02')\nprint(price)", "price 2"),
    )
    assert sorted(compare_code(before, after)[0], key=lambda one: one.name) == [
        Figure("price", 1.0, 2.0), Figure("rows", None, 7.0), Figure("volume", 5.0, 6.0),
    ]  # fmt: skip


def test_tables_are_compared_by_their_first_column() -> None:
    old = make_table(date=["a", "b", "c"], x=[1.0, 2.0, None], gone=[1, 1, 1])
    new = make_table(date=["b", "c", "d", "d"], x=[2.5, None, 4.0, 5.0], added=[1, 1, 1, 1])
    pair = compare_tables("prices", old, new)
    assert (pair.added, pair.removed, pair.changed) == (2, 1, 1)
    assert pair.cells == (Cell("b", "x", 2.0, 2.5),)


def test_what_is_listed_and_compared_of_tables_is_bounded() -> None:
    rows = list(range(99))
    pair = compare_tables("many", make_table(n=rows, x=[0] * 99), make_table(n=rows, x=[1] * 99))
    assert (pair.changed, len(pair.cells)) == (99, MAX_CELLS)
    pair = compare_tables("large", make_table(n=rows), make_table(n=list(range(MAX_ROWS + 1))))
    assert (pair.added, pair.changed, pair.is_whole) == (MAX_ROWS + 1 - 99, 0, False)


def test_tables_of_equal_columns_and_other_content_belong_together() -> None:
    def sheet(name: str, *columns: str) -> Sheet:
        return Sheet(id=name, columns=[Column(name=column) for column in columns])

    same, rates, prices = sheet("t1", "date", "x"), sheet("t2", "date", "rate"), sheet("t3", "date", "x")
    newer = sheet("t4", "date", "x")
    assert pair_sheets([same, rates, prices], [newer, same]) == [(prices, newer)]
