"""Tables of commands on a terminal of 80 columns: what is copied into the next command is whole."""

from __future__ import annotations

import io

from rich.console import Console
from rich.table import Table

from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.cli.console import make_table, open_console
from fathom.cli.records.runs import tabulate_runs
from fathom.core.ids import new_id


def print_narrow(table: Table) -> str:
    written = io.StringIO()
    Console(file=written, width=80).print(table)
    return written.getvalue()


def test_the_ids_of_runs_stand_on_one_line() -> None:
    runs = [pb.RunSummary(run_id=new_id("run"), question="What was the price? " * 4) for _ in range(2)]
    shown = print_narrow(tabulate_runs(runs))
    assert all(run.run_id in shown for run in runs)
    assert "…" not in shown
    runs[1].parent_run_id = runs[0].run_id
    shown = print_narrow(tabulate_runs(runs))
    assert all(run.run_id in shown for run in runs)
    assert "…" not in shown, "a parent's id is folded"


def test_numbers_and_days_of_a_wide_table_are_whole() -> None:
    table = make_table("day", *(f"a long heading {number}" for number in range(8)), whole="day")
    table.add_row("2026-01-31", *["123,456,789"] * 8)
    shown = print_narrow(table)
    assert "2026-01-31" in shown
    assert "…" not in shown


def test_a_pipe_is_wide(monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert open_console().width == 200
