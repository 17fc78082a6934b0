"""Views that a language model types: what of a reply is taken, and what the code then makes of it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from fathom.services.planner.model.memory import Statement, View
from fathom.services.planner.model.programs import ReadProgram
from fathom.services.planner.model.slots import ReadText, Slot, SlotKind
from fathom.services.planner.remembering import asking
from fathom.services.planner.remembering.contradictions import find_contradictions, write_notes
from fathom.services.planner.remembering.typed_views import ViewTypist, restore_tolerance

NAMES = {"Apple": "AAPL", "AAPL": "AAPL", "Microsoft": "MSFT"}


class NameReader:
    """Reads the names of two companies."""

    async def read(self, text: str, as_of: Any = None) -> ReadText | None:
        return ReadText(text, (Slot(SlotKind.ENTITY, text, NAMES[text]),) if text in NAMES else ())

    async def read_program(self, text: str, earlier: Sequence[str] = (), as_of: Any = None) -> ReadProgram | None:
        return None


def write_view(**changes: Any) -> dict[str, Any]:
    """Return a view as a model writes it."""
    usual = {"statement": 1, "things": ["Apple"], "quantity": "Total return", "statistic": "reading", "direction": "up"}
    period = {"from": "2020-01-01", "to": "2020-12-31", "value": 82.31, "number": "82.31%", "unit": "%"}
    return {**usual, **period, **changes}


async def type_views(
    monkeypatch: pytest.MonkeyPatch, text: str, *said: Any, known: Sequence[View] = (), asked: list[str] | None = None
) -> list[View]:
    """Return the views of a sentence of which a model says this."""

    async def complete(clients: Any, model: str, system: str, request: str, *_: Any) -> str:
        if asked is not None:
            asked.append(request)
        return json.dumps({"views": said})

    async def find(*_: Any) -> str:
        return "model"

    monkeypatch.setattr(asking, "complete", complete)
    monkeypatch.setattr(asking, "find_language_model", find)
    clients: Any = None
    found = await ViewTypist(clients, NameReader(), "prompt").read([Statement(text, "2022-12-30")], "", known, "m")
    assert found is not None
    return found


async def test_a_view_has_ids_a_measure_and_the_rounding_of_its_words(monkeypatch: pytest.MonkeyPatch) -> None:
    (view,) = await type_views(monkeypatch, "Apple returned 82.31% in 2020.", write_view())
    assert view == View(
        "AAPL", "total return/reading", "2020-01-01", "2020-12-31", 82.31, "%", "Apple returned 82.31% in 2020.",
        "2022-12-30", tolerance=pytest.approx(0.005),  # type: ignore[arg-type]
    )  # fmt: skip


@pytest.mark.parametrize(
    "changes",
    [
        {"statement": 2},
        {"statement": True},
        {"things": []},
        {"things": [3]},
        {"quantity": ""},
        {"statistic": "median"},
        {"from": "2020"},
        {"from": "2021-01-01"},
        # Words that the sentence does not have, and a value that its words do not have.
        {"number": "75.1%", "value": 75.1},
        {"value": 28.31},
        {"value": float("inf")},
        {"value": None, "direction": ""},
        {"value": "2020-13", "statistic": "date", "number": ""},
    ],
)
async def test_what_a_model_makes_up_is_no_view(monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any]) -> None:
    assert await type_views(monkeypatch, "Apple returned 82.31% in 2020.", write_view(**changes), "nonsense") == []


@pytest.mark.parametrize(
    ("text", "changes", "value", "tolerance"),
    [
        ("The profit was 3.2亿元.", {"number": "3.2亿元", "value": 3.2e8, "unit": "CNY"}, 3.2e8, 5e6),
        ("The curve was inverted by 34 basis points.", {"number": "34 basis points", "value": -0.34}, -0.34, 0.005),
        ("It outdid the other by some seventy points.", {"number": "seventy points", "value": 70}, 70.0, 5.0),
    ],
)
async def test_a_number_in_another_scale_or_in_words_has_its_own_rounding(
    monkeypatch: pytest.MonkeyPatch, text: str, changes: dict[str, Any], value: float, tolerance: float
) -> None:
    (view,) = await type_views(monkeypatch, text, write_view(**changes))
    assert (view.value, view.tolerance) == (value, pytest.approx(tolerance))


async def test_a_gap_is_the_same_whichever_thing_is_named_first(monkeypatch: pytest.MonkeyPatch) -> None:
    gap = {"statistic": "gap", "value": None, "number": ""}
    views = []
    for things in (["Apple", "Microsoft"], ["Microsoft", "Apple"]):
        views += await type_views(monkeypatch, "The first did better.", write_view(things=things, **gap))
    assert [(one.entity, one.value) for one in views] == [("AAPL,MSFT", 1.0), ("AAPL,MSFT", -1.0)]
    assert len(find_contradictions(views[1:], views[:1])) == 1


@pytest.mark.parametrize(
    ("then", "now", "is_wrong"),
    [
        ("2020-04-23", "2021", True),
        ("2020-04-23", "2020", False),
        ("2020-04", "2020-04-30", False),
        ("2020-03-23", "2020-04-21", True),
        ("2011-09-05", "1980-01-21", True),
    ],
)
async def test_dates_exclude_each_other_unless_one_contains_the_other(
    monkeypatch: pytest.MonkeyPatch, then: str, now: str, is_wrong: bool
) -> None:
    told = {"statistic": "date", "number": "", "unit": "date", "quantity": "day of the low", "from": "", "to": ""}
    views = [(await type_views(monkeypatch, "The low.", write_view(value=day, **told)))[0] for day in (then, now)]
    assert bool(find_contradictions(views[1:], views[:1])) is is_wrong


async def test_the_extreme_of_a_longer_period_may_lie_outside_of_a_shorter_one(monkeypatch: pytest.MonkeyPatch) -> None:
    told = {"statistic": "date", "number": "", "unit": "date", "quantity": "day of the low"}
    (whole,) = await type_views(monkeypatch, "Low.", write_view(value="2020-03-23", to="2022-12-31", **told))
    part = {"from": "2021-01-01", "to": "2021-12-31", **told}
    (year,) = await type_views(monkeypatch, "Low.", write_view(value="2021-01-04", **part))
    assert find_contradictions([year], [whole]) == []
    (other,) = await type_views(monkeypatch, "Low.", write_view(value="2021-01-04", to="2022-12-31", **told))
    assert len(find_contradictions([other], [whole])) == 1


async def test_a_name_of_several_entities_is_none_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    class PairReader(NameReader):
        async def read(self, text: str, as_of: Any = None) -> ReadText | None:
            return ReadText(text, (Slot(SlotKind.ENTITY, "USD", "USD"),))

    clients: Any = None
    typist = ViewTypist(clients, PairReader(), "prompt")
    assert await typist._identify("EUR/USD") == "eur/usd"
    assert await typist._identify("usd") == "USD"


async def test_the_model_is_shown_the_names_of_earlier_views(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    known = View("AAPL", "total return/reading", "2019-01-01", "2019-12-31", 88.96, "%", "It made 88.96%.")
    await type_views(monkeypatch, "Apple returned 82.31% in 2020.", known=[known], asked=asked)
    assert '"quantity": "total return"' in asked[0]
    assert "1. Apple returned 82.31% in 2020." in asked[0]


async def test_without_a_language_model_or_in_another_form_the_answer_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    clients: Any = None
    typist = ViewTypist(clients, NameReader(), "prompt")

    async def find_none(*_: Any) -> str:
        return ""

    monkeypatch.setattr(asking, "find_language_model", find_none)
    assert await typist.read([Statement("It rose.")], "", (), "rules") is None

    async def find(*_: Any) -> str:
        return "model"

    async def complete(*_: Any) -> str:
        return "I think that it rose."

    monkeypatch.setattr(asking, "find_language_model", find)
    monkeypatch.setattr(asking, "complete", complete)
    assert await typist.read([Statement("It rose.")], "", (), "m") is None


def test_a_stored_view_gets_its_rounding_back_from_its_words() -> None:
    stored = View("AAPL", "profit/reading", "", "", 4.2e7, "GBP", "In 2022 it earned £42m.")
    assert restore_tolerance(stored).tolerance == pytest.approx(5e5)


def test_a_note_on_two_different_statistics_repeats_both_sentences() -> None:
    then = View("EURJPY", "rate/highest", "2022-01-01", "2022-12-31", 147.59, "JPY", "It peaked at 147.59.")
    now = View("EURJPY", "rate/reading", "2022-12-01", "2022-12-01", 151.3, "JPY", "It was 151.3 on 1 December.")
    note = write_notes(find_contradictions([now], [then]), "en")
    assert "It peaked at 147.59." in note
    assert "It was 151.3 on 1 December." in note
