"""The judge of datafetch's answers: right cells pass, and each way to be wrong is named."""

from __future__ import annotations

from datetime import date

import pytest

from tests.bench.datafetch.datafetch_scoring import Answer, Given, Lack, judge, same, unit
from tests.golden.datafetch.schema import Question

DAY, NEXT = date(2020, 3, 16), date(2020, 3, 17)
NAMES = [{"aapl", "apple", "苹果"}]


def question(**expected: object) -> Question:
    return Question.model_validate({"id": "q", "class": "lookup", "lang": "en", "ask": "Apple?", **expected})


VALUE = question(cells=[{"of": "AAPL.close_adj", "day": DAY, "unit": "USD", "value": 58.7}])
RETURN = question(
    cells=[{"of": "AAPL.close_adj", "measure": "return", "start": DAY, "end": NEXT, "unit": "%", "value": 4.5}]
)
RANGE = question(
    ranges=[
        {"of": "AAPL.close_adj", "start": DAY, "end": NEXT, "unit": "USD", "rows": 2,
         "first": {"day": DAY, "value": 1.0}, "last": {"day": NEXT, "value": 2.0}}
    ]
)  # fmt: skip
ABSENT = question(missing=[{"subject": "Apple", "reasons": ["NO_MATCH"]}])
COLUMN = ((DAY, 1.0), (NEXT, 2.0))


def price(*points: tuple[date | None, float], unit: str = "USD", formula: str = "", entity: str = "AAPL") -> Given:
    return Given(entity, "close_adj", unit, formula, points)


RIGHT = [
    (VALUE, Answer((price((DAY, 58.7)),))),
    (RETURN, Answer((price((None, 4.5), unit="%", formula="last / first - 1"),))),
    (RETURN, Answer((price((None, 0.045), unit="fraction", formula="last / first - 1"),))),
    (RETURN, Answer((Given("AAPL", "return(close_adj)", "", "x", ((NEXT, 0.045),), inputs=("close_adj",)),))),
    (RETURN, Answer((Given("AAPL", "return", "percent", "return(AAPL.close_adj)", ((NEXT, 4.5),)),))),
    (RANGE, Answer((price(*COLUMN),))),
    (ABSENT, Answer(missing=(Lack("AAPL", "NO_MATCH"),))),
    (VALUE.model_copy(update={"as_of": NEXT}), Answer((price((DAY, 58.7)),), (Lack("US", "NOT_YET_PUBLISHED"),))),
]
WRONG = [
    (VALUE, Answer((price((DAY, 58.8)),)), "58.8 USD instead of 58.7 USD"),
    (VALUE, Answer((price((DAY, 58.7), unit="EUR"),)), "58.7 EUR instead"),
    (VALUE, Answer((price((DAY, 58.7), (NEXT, 1.0)),)), "stands in 2 rows"),
    (VALUE, Answer((price((NEXT, 58.7)),)), "nothing instead"),
    (VALUE, Answer(), "no column"),
    (VALUE, Answer((price((DAY, 58.7)), price((DAY, 1.0), entity="MSFT"))), "which nobody asked for"),
    (VALUE, Answer((price((DAY, 58.7)),), (Lack("Compare", "UNKNOWN_ENTITY"),)), "Compare is missing"),
    (RETURN, Answer((price((None, 4.5), unit="%"),)), "no column"),
    (RETURN, Answer((price((None, 4.5), unit="pp", formula="x"),)), "instead of"),
    (RANGE, Answer((price(*COLUMN, (NEXT, 3.0)),)), "3 rows instead of 2"),
    (RANGE, Answer((price((DAY, 1.0), (NEXT, 9.0)),)), "other days, values or units"),
    (ABSENT, Answer((price((DAY, 1.0)),)), "should be missing"),
    (ABSENT, Answer(missing=(Lack("AAPL", "UNKNOWN_ENTITY"),)), "should be missing"),
]


def ranges(asked: Question) -> list[list[tuple[date, float]]]:
    return [list(COLUMN) for _ in asked.ranges]


@pytest.mark.parametrize(("asked", "answer"), RIGHT)
def test_right_answers_pass(asked: Question, answer: Answer) -> None:
    assert judge(asked, answer, ranges(asked), NAMES).faults == []


@pytest.mark.parametrize(("asked", "answer", "fault"), WRONG)
def test_wrong_answers_are_told_why(asked: Question, answer: Answer, fault: str) -> None:
    assert fault in "; ".join(judge(asked, answer, ranges(asked), NAMES).faults)


@pytest.mark.parametrize(
    ("text", "base", "scale"),
    [
        ("Bil. of $ (SAAR)", "usd", 1e9), ("Bil. of Chn. 2012 $ (SAAR)", "usd", 1e9), ("Mil. of $ (NSA)", "usd", 1e6),
        ("USD trillion", "usd", 1e12), ("万亿美元", "usd", 1e12), ("亿美元", "usd", 1e8), ("百分点", "pp", 1.0),
        ("Thous. of Persons (SA)", "persons", 1e3), ("million persons", "persons", 1e6), ("万人", "persons", 1e4),
        ("$ per Gallon (NSA)", "usd per gallon", 1.0), ("USD/barrel", "usd per barrel", 1.0), ("% (SA)", "%", 1.0),
        ("basis points", "bp", 1.0), ("percentage points", "pp", 1.0), ("1982-1984=100 (SA)", "1982-1984=100", 1.0),
    ],
)  # fmt: skip
def test_units_are_split_into_base_and_scale(text: str, base: str, scale: float) -> None:
    assert unit(text) == (base, scale)


@pytest.mark.parametrize(
    ("right", "right_unit", "given", "given_unit", "expected"),
    [
        (25744.1, "Bil. of $ (SAAR)", 25.7441, "USD trillion", True),
        (25744.1, "Bil. of $ (SAAR)", 25744.1, "USD", False),
        (1.25, "pp", 125.0, "bp", True),
        (1.25, "pp", 1.25, "%", False),
        (0.5, "ratio", 50.0, "%", True),
        (12.5, "%", 0.125, "fraction", True),
        (12.5, "%", 12.5, "fraction", False),
        (60.0, "EUR per barrel", 60.0, "欧元", True),
        (60.0, "EUR", 60.0, "EUR per barrel", False),
        (0.5, "ratio", 0.5, "", True),
        (7.2, "per EUR", 7.2, "CNY per EUR", True),
        (7.2, "CNY per USD", 7.2, "CNY/USD", True),
        (7.2, "CNY per USD", 7.2, "USD per CNY", False),
    ],
)
def test_the_same_number_in_another_scale_is_the_same(
    right: float, right_unit: str, given: float, given_unit: str, expected: bool
) -> None:
    assert same(right, right_unit, given, given_unit) is expected
