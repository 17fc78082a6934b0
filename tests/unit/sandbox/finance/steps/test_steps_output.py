"""Results as lines of JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fathom.services.sandbox.inside.finance import steps
from tests.unit.sandbox.finance.series import make_daily, make_line, year


def read(capsys: pytest.CaptureFixture[str]) -> Any:
    """The one line that was printed."""
    [line] = capsys.readouterr().out.splitlines()
    return json.loads(line)


def test_a_point_has_its_days_and_its_convention_in_both_languages(capsys: pytest.CaptureFixture[str]) -> None:
    steps.show(2, steps.ret(make_daily([1, 2, 3])))
    found = read(capsys)
    assert {key: found[key] for key in ("step", "kind", "name", "value", "unit", "day", "first_day")} == {
        "step": 2, "kind": "point", "name": "x", "value": 200.0, "unit": "%", "day": "2020-03-04", "first_day": "2020-03-02",
    }  # fmt: skip
    assert found["convention"].startswith("simple return")
    assert found["convention_zh"].startswith("简单收益率")


def test_what_is_missing_is_null(capsys: pytest.CaptureFixture[str]) -> None:
    steps.show(1, steps.first_if(make_daily([1, 2]), "above", 9))
    found = read(capsys)
    assert (found["value"], found["day"], found["first_day"]) == (None, None, None)


def test_a_line_has_its_ends_and_extremes_in_the_window(capsys: pytest.CaptureFixture[str]) -> None:
    steps.show(1, steps.within(make_daily([1, 5, 2, 3, 9]), steps.period(None, "2020-03-05")))
    found = read(capsys)
    assert [found[key] for key in ("kind", "count", "start", "end")] == ["line", 4, None, "2020-03-05"]
    assert found["max"] == {"value": 5.0, "day": "2020-03-03"}
    assert [found[key]["value"] for key in ("first", "last", "min")] == [1, 3, 1]


def test_a_group_lists_forty_members_and_counts_the_rest(capsys: pytest.CaptureFixture[str]) -> None:
    steps.show(1, steps.top(make_daily([float(n) for n in range(50)]), 50))
    found = read(capsys)
    assert (found["kind"], len(found["members"]), found["more"], found["count"]) == ("group", 40, 10, 50)
    assert found["members"][0]["key"] == found["members"][0]["day"]


def test_counted_days_are_listed_alike(capsys: pytest.CaptureFixture[str]) -> None:
    steps.show(1, steps.count_if(make_daily([1.0] * 50), "above", 0))
    found = read(capsys)
    assert (found["value"], found["of"], len(found["days"]), found["more"]) == (50, 50, 40, 10)


@pytest.mark.parametrize("name", ["ret", "cagr", "vol", "sharpe", "sortino", "drawdown"])
def test_measures_state_their_convention(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    steps.show(1, getattr(steps, name)(make_daily([100, 110, 99, 108.9, 98.01])))
    found = read(capsys)
    assert found["convention"]
    assert found["convention_zh"]


def test_a_selected_line_without_values_and_a_period_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    line = make_line({"2020-01-01": 1, "2020-01-02": 2})
    steps.show(1, steps.where(line, line, "above", 9))
    assert read(capsys)["first"] == {"value": None, "day": None}
    steps.show(2, year("2020"))
    assert read(capsys) == {"step": 2, "kind": "period", "start": "2020-01-01", "end": "2020-12-31"}
