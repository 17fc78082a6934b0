"""Programs as calls of ``finance.steps``: periods and numbers read, series named, gaps reported."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

import pytest

from fathom.core.errors import InvalidField
from fathom.domain.programs.language import parse
from fathom.services.datafetch.programs.resolve import Catalogue, Gap, GapReason, NamedSeries, Resolved, resolve

DAYS = {
    ("SP500", "close_adj"): date(2022, 12, 28),
    ("GOLD", "close_adj"): date(2022, 12, 28),
    ("USD", "eur_rate"): date(2026, 10, 30),
    ("US", "unrate"): date(2022, 9, 30),
    ("US", "cpiaucsl"): date(2022, 9, 30),
}
NAMES = {"SP500": ("S&P 500", "标普500"), "GOLD": ("Gold", "黄金")}
IDS = {entity if entity != "US" else indicator: (entity, indicator) for entity, indicator in DAYS}


def find_last_day(series: Sequence[tuple[str, str]]) -> date | None:
    return min((DAYS[one] for one in series), default=None)


def find_members(group: str) -> list[tuple[str, str]]:
    return [IDS["SP500"], IDS["GOLD"]] if group == "factor_etfs" else []


def find_name(entity: str, is_zh: bool) -> str:
    return NAMES[entity][is_zh]


CATALOGUE = Catalogue(IDS.get, find_members, lambda *series: series in DAYS, find_last_day, find_name)


def resolve_text(text: str, today: date | None = None, catalogue: Catalogue = CATALOGUE) -> Resolved:
    return resolve(parse(text), catalogue, today)


def resolve_steps(text: str) -> tuple[str, ...]:
    found = resolve_text(text)
    assert found.missing == ()
    return found.steps


def test_periods_become_days_and_series_become_names() -> None:
    found = resolve_text('maximum(within(series("the S&P", SP500), "2014-2018"))')
    assert found.steps == ("f.maximum(f.within(s1, f.period('2014-01-01', '2018-12-31')))",)
    assert found.series == (NamedSeries("s1", "SP500", "close_adj", "the S&P"),)
    assert found.words == ("the S&P", "2014-2018")
    assert found.kind == "calculation"


def test_a_series_that_is_named_twice_has_one_name() -> None:
    text = 'first(series("gold", GOLD))\nlast(series("gold", GOLD))\nminus(_2, _1)'
    assert resolve_steps(text) == ("f.first(s1)", "f.last(s1)", "f.minus(_2, _1)")


def test_an_open_period_has_no_last_day() -> None:
    (step,) = resolve_steps('mean(within(series("gold", GOLD), "since 2015"))')
    assert step == "f.mean(f.within(s1, f.period('2015-01-01', None)))"


def test_a_relative_period_counts_from_the_last_day_that_all_series_have() -> None:
    text = 'mean(within(over(series("gold", GOLD), series("dollars", USD)), "last year"))'
    (step,) = resolve_steps(text)
    assert "f.period('2021-01-01', '2021-12-31')" in step
    assert "f.period('2018-01-01', '2018-12-31')" in resolve_text(text, date(2019, 5, 1)).steps[0]


def test_a_period_that_counts_from_today_and_lies_behind_the_data_is_missing() -> None:
    found = resolve_text('mean(within(series("gold", GOLD), "last year"))', date(2026, 11, 29))
    assert found.steps == ()
    assert found.missing == (Gap("last year", GapReason.PERIOD, "the data end on 2022-12-28, and 'last year' is 2025"),)


def test_a_period_that_goes_beyond_the_data_is_computed_with_their_last_day() -> None:
    text = 'mean(within(series("gold", GOLD), "the past five years"))'
    found = resolve_text(text, date(2026, 11, 29))
    assert found.steps == ("f.mean(f.within(s1, f.period('2021-11-29', '2026-11-29')))",)
    assert found.last == date(2022, 12, 28)
    assert resolve_text(text, date(2022, 12, 30)).last is None


def test_the_newest_value_counts_from_the_last_day_of_the_data() -> None:
    (step,) = resolve_text('mean(within(series("gold", GOLD), "the latest month"))', date(2026, 11, 29)).steps
    assert "f.period('2022-11-28', '2022-12-28')" in step


def test_edges_of_periods_stay_calls() -> None:
    (step,) = resolve_steps('ret(between(series("gold", GOLD), end("1999"), start("2010")))')
    year = "f.period('1999-01-01', '1999-12-31')"
    assert step == f"f.ret(f.between(s1, f.end({year}), f.start(f.period('2010-01-01', '2010-12-31'))))"


@pytest.mark.parametrize(("words", "month"), [('"2020", "4月"', "2020-04"), ('"March", "2020"', "2020-03")])
def test_words_of_one_period_that_stand_apart_are_read_together(words: str, month: str) -> None:
    (step,) = resolve_steps(f'at(series("gold", GOLD), when({words}))')
    assert f"'{month}-01'" in step


def test_numbers_words_and_directions_are_written_as_python_has_them() -> None:
    assert resolve_steps('count_if(moves(series("gold", GOLD), month), below, neg("5%"))') == (
        "f.count_if(f.moves(s1, 'month'), 'below', f.neg(5))",
    )
    assert resolve_steps(
        'crossings(average(series("gold", GOLD), "50-day"), average(series("gold", GOLD), 200), up)'
    ) == ("f.crossings(f.average(s1, 50), f.average(s1, 200), 'up')",)


def test_a_rate_that_is_left_out_before_a_unit_of_time_is_nought() -> None:
    assert resolve_steps('sharpe(series("gold", GOLD), month)') == ("f.sharpe(s1, 0, 'month')",)
    assert resolve_steps('sharpe(series("gold", GOLD), "2%")') == ("f.sharpe(s1, 2)",)


def test_the_euro_is_a_word() -> None:
    assert resolve_steps('rate(series("dollar", USD), EUR)') == ("f.rate(s1, 'EUR')",)


@pytest.mark.parametrize(("words", "names"), [("factor ETFs", ["S&P 500", "Gold"]), ("因子ETF", ["标普500", "黄金"])])
def test_a_group_is_all_its_members_by_their_own_names(words: str, names: list[str]) -> None:
    found = resolve_text(f'rank(ret(members("{words}", factor_etfs)))')
    assert found.steps == ("f.rank(f.ret(f.each(s1, s2)))",)
    assert [one.words for one in found.series] == names
    assert found.words == (words,)


def test_real_values_take_consumer_prices_along() -> None:
    found = resolve_text('ret(real(series("gold", GOLD)))\nat(real(series("gold", GOLD), "2010"), "2000")')
    assert found.steps[0] == "f.ret(f.real(s1, cpi))"
    assert found.steps[1].startswith("f.at(f.real(s1, cpi, f.period('2010-01-01', '2010-12-31'))")
    assert [one for one in found.series if one.name == "cpi"] == [NamedSeries("cpi", "US", "cpiaucsl", "")]


def test_without_consumer_prices_nothing_is_real() -> None:
    bare = Catalogue(IDS.get, find_members, lambda *series: False, find_last_day, find_name)
    found = resolve_text('ret(real(series("gold", GOLD)))', catalogue=bare)
    assert (found.steps, [gap.reason for gap in found.missing]) == ((), ["UNKNOWN_SERIES"])


@pytest.mark.parametrize(
    ("shares", "written"),
    [
        (("60%", "40%"), ("60", "40")),
        (("half", "30%"), ("50", "30")),
        # Equal shares need no number.
        (("evenly", "evenly"), ("1", "1")),
    ],
)
def test_shares_of_a_portfolio_are_in_percent(shares: tuple[str, str], written: tuple[str, str]) -> None:
    text = f'portfolio("{shares[0]}", series("gold", GOLD), "{shares[1]}", series("the S&P", SP500), year)'
    assert resolve_steps(text) == (f"f.portfolio({written[0]}, s1, {written[1]}, s2, 'year')",)


@pytest.mark.parametrize(
    ("text", "words", "reason", "detail"),
    [
        ('ret(within(series("Tesla", none), "2021"))', "Tesla", "UNKNOWN_SERIES", "no series"),
        ('rank(members("banks", big_banks))', "banks", "UNKNOWN_SERIES", "no series"),
        ('at(series("gold", GOLD), "February 30, 2015")', "February 30, 2015", "PERIOD", "no such day"),
        ('at(series("gold", GOLD), "shiny")', "shiny", "PERIOD", "no period"),
        ('ret(between(series("gold", GOLD), "2018", "2014"))', "2018 2014", "PERIOD", "begins on 2018-01-01"),
        ('ret(between(series("gold", GOLD), end("2018"), start("2014")))', "2018 2014", "PERIOD", "ends on 2014"),
        ('top(moves(series("gold", GOLD), day), "several")', "several", "NUMBER", "no number"),
    ],
)
def test_words_that_cannot_be_used_are_missing_and_nothing_is_computed(
    text: str, words: str, reason: str, detail: str
) -> None:
    found = resolve_text(text)
    (gap,) = found.missing
    assert (gap.words, gap.reason) == (words, reason)
    assert detail in gap.detail
    assert found.steps == ()


def test_the_same_gap_is_told_once() -> None:
    found = resolve_text('ret(within(series("Tesla", none), "2021"))\nvol(within(series("Tesla", none), "2021"))')
    assert found.missing == (Gap("Tesla", found.missing[0].reason, found.missing[0].detail),)


@pytest.mark.parametrize("kind", ["documents", "outside", "unclear", "chat"])
def test_what_no_calculation_answers_has_a_kind_of_its_own(kind: str) -> None:
    found = resolve_text(f"{kind}()")
    assert (found.kind, found.steps, found.missing) == (kind, (), ())


def test_texts_beside_a_calculation_do_not_count_as_steps() -> None:
    text = 'first(series("gold", GOLD))\ndocuments()\nlast(series("gold", GOLD))\nminus(_3, _1)'
    assert resolve_steps(text) == ("f.first(s1)", "f.last(s1)", "f.minus(_2, _1)")
    with pytest.raises(InvalidField, match="_1 is the value of no calculation"):
        resolve_text('documents()\nminus(_1, first(series("gold", GOLD)))')


def test_too_many_arguments_are_refused() -> None:
    with pytest.raises(InvalidField, match="too many"):
        resolve_text('first(series("gold", GOLD), 2)')


def test_a_period_of_which_a_part_is_not_read_is_missing() -> None:
    found = resolve_text('minimum(within(series("金价", GOLD), "1999年7至9月"))')
    assert [(gap.words, gap.reason) for gap in found.missing] == [("1999年7至9月", "PERIOD")]
