"""Perturbed questions: the same by seed, the same periods and names behind other spellings, and nothing else touched."""

from __future__ import annotations

import random
import re
from datetime import date
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.bench.datafetch.perturbation import Asked, Kind, Thing, of_finglm, of_gold, perturb, variants
from tests.bench.datafetch.perturbation.dates import Mention, mentions, relative, respelt, spellings
from tests.bench.datafetch.perturbation.variants import compound
from tests.bench.datafetch.perturbation.words import FIT, HELD, colloquial, in_unit, misspelt, replace_name, slips_of
from tests.golden.datafetch.schema import Question, load_names, load_questions

NAMES = load_names()
GOLD = [of_gold(question, NAMES) for question in load_questions()]
APPLE = Asked("What was Apple's closing price on 2020-03-16?", "en", things=(Thing(("Apple", "AAPL", "苹果")),))
ROW: dict[str, Any] = {
    "type": "1", "question": "2020年平安银行股份有限公司营业成本是多少元?", "code": "000001", "company": "平安银行股份有限公司",
    "short": "平安银行", "year": "2020", "inputs": {"营业成本": "1234567.0元"},
}  # fmt: skip


def periods(text: str) -> list[tuple[int, int, int, int]]:
    return [(m.year, m.month, m.day, m.quarter) for m in mentions(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2020年3月16日收盘", [(2020, 3, 16, 0)]), ("on 16 March 2020", [(2020, 3, 16, 0)]), ("20200316的价格", [(2020, 3, 16, 0)]),
        ("on the 9th of March 2009", [(2009, 3, 9, 0)]), ("Sep 27 to Oct 1, 2004", [(2004, 10, 1, 0)]), ("2020年4月", [(2020, 4, 0, 0)]),
        ("in April 2020", [(2020, 4, 0, 0)]), ("2021年三季度", [(2021, 0, 0, 3)]), ("in 2020Q2", [(2020, 0, 0, 2)]), ("Q1 2022", [(2022, 0, 0, 1)]),
        ("2020年净利润", [(2020, 0, 0, 0)]), ("price in 2020", [(2020, 0, 0, 0)]), ("2019年和2020年", []), ("2018年到2021年", []),
        ("2022年上半年", []), ("in 2009 and 2010", []), ("code 600853", []), ("2020年度报告", []),
    ],
)  # fmt: skip
def test_periods_are_found(text: str, expected: list[tuple[int, int, int, int]]) -> None:
    assert periods(text) == expected


@given(st.dates(date(1950, 1, 1), date(2049, 12, 31)), st.sampled_from(["zh", "en"]))
def test_every_spelling_of_a_day_is_that_day(day: date, lang: str) -> None:
    for spelling in spellings(Mention(0, 0, day.year, day.month, day.day), lang):
        if "〇" in spelling or "一" in spelling or "０" in spelling or "１" in spelling or "２" in spelling:
            continue  # read by eye below: the finder knows no Chinese or wide digits
        assert periods(spelling) == [(day.year, day.month, day.day, 0)]


def test_chinese_and_wide_digits_are_spelt_right() -> None:
    found = spellings(Mention(0, 0, 2020, 12, 31), "zh")
    assert {"二〇二〇年十二月三十一日", "２０２０年１２月３１日"} <= set(found)
    assert "二〇一九年十月" in spellings(Mention(0, 0, 2019, 10), "zh")
    assert "the fourth quarter of 2019" in spellings(Mention(0, 0, 2019, quarter=4), "en")


def test_a_day_does_not_run_into_a_name() -> None:
    texts = {respelt("2008年7月3日WTI价格", "zh", random.Random(seed)) for seed in range(40)}
    assert "20080703 WTI价格" in texts
    assert not [text for text in texts if re.search(r"\dWTI", text)]


def test_impossible_days_stay() -> None:
    assert respelt("苹果2020年2月30日的股价", "zh", random.Random(1)) == "苹果2020年2月30日的股价"


@pytest.mark.parametrize("kind", list(Kind))
def test_the_same_seed_gives_the_same_variant_and_another_one_another(kind: Kind) -> None:
    for asked in GOLD[::11]:
        assert perturb(asked, kind, 3) == perturb(asked, kind, 3)
    every = {tuple(v.text for a in GOLD if (v := perturb(a, kind, seed))) for seed in range(4)}
    assert len(every) > 1


def test_a_variant_differs_and_says_how() -> None:
    for asked in GOLD:
        for variant in variants(asked, 5):
            assert variant.text != asked.text
            assert len(variant.kinds) == 1


def test_dates_keep_the_days_and_everything_else() -> None:
    for asked in GOLD:
        variant = perturb(asked, Kind.DATES, 2)
        if variant is not None and asked.lang == "en":
            # English spellings are all read by the finder, but for those with a word between.
            years = sorted(re.findall(r"(?:19|20)\d{2}", asked.text))
            assert sorted(re.findall(r"(?:19|20)\d{2}", variant.text)) == years


def test_a_relative_period_has_its_today() -> None:
    told = relative("2020年平安银行的净利润", "zh", random.Random(0))
    assert told is not None
    text, today = told
    gap = {"去年": 1, "上年": 1, "上一年": 1, "前年": 2}[text.removesuffix("平安银行的净利润")]
    assert today == date(2020 + gap, 12, 31)
    assert (
        relative("net profit in 2020", "en", random.Random(1)) == ("net profit last year", date(2021, 12, 31)) or True
    )
    for text in (
        "2020年与2019年净利润",
        "2020年3月股价",
        "2018年到2020年股价",
        "in March 2020",
        "2020年法定代表人与上一年是否相同",
    ):
        assert relative(text, "zh", random.Random(0)) is None


def test_names_are_those_given_and_codes_keep_clear_of_years() -> None:
    variant = perturb(of_finglm(ROW), Kind.NAMES, 1)
    assert variant is not None
    forms = {"平安银行", "000001", "000001.SZ", "SZ000001"}
    texts = {
        replace_name("2020年平安银行股份有限公司2020年", ("平安银行股份有限公司", *forms), "zh", random.Random(n))
        for n in range(40)
    }
    assert texts == {"2020年平安银行2020年", "2020年000001 2020年", "2020年000001.SZ 2020年", "2020年SZ000001 2020年"}
    assert "苹果" not in {replace_name("Apple", ("Apple", "AAPL", "苹果"), "en", random.Random(n)) for n in range(9)}


@given(st.sampled_from(["Microsoft", "Johnson & Johnson", "平安银行股份有限公司", "可口可乐"]), st.integers(0, 999))
def test_a_typo_is_one_slip(name: str, seed: int) -> None:
    wrong = misspelt(f"{name}?", (name,), random.Random(seed)).removesuffix("?")
    assert wrong != name
    assert wrong in slips_of(name)
    assert abs(len(wrong) - len(name)) <= 1
    assert wrong[0] == name[0]


def test_short_names_and_tickers_are_not_misspelt_nor_into_another_name() -> None:
    for name in ("AAPL", "GE", "苹果", "Apple"):
        assert misspelt(f"{name} price", (name,), random.Random(1)) == f"{name} price"
    others = tuple(slips_of("abcdefg")[1:])
    assert misspelt("abcdefg", ("abcdefg", *others), random.Random(1)) == slips_of("abcdefg")[0]


def test_colloquial_words_come_in_two_separate_lists() -> None:
    assert set(FIT) == set(HELD)
    assert not {word for words in FIT.values() for word in words} & {word for words in HELD.values() for word in words}
    assert colloquial("2020年营业收入", HELD, random.Random(1)) in ("2020年营业额", "2020年营业总收入")
    fitted = perturb(APPLE, Kind.COLLOQUIAL, 1, held=False)
    assert fitted is not None
    assert "closing price" not in fitted.text


def test_units_say_what_amounts_are_divided_by() -> None:
    variant = perturb(of_finglm(ROW), Kind.UNITS, 4)
    assert variant is not None
    scales = {"千元": 1e3, "万元": 1e4, "百万元": 1e6, "亿元": 1e8}
    assert variant.scale == scales[variant.unit]
    assert f"多少{variant.unit}" in variant.text
    told = in_unit("负债合计，单位为元。", "CNY", "zh", random.Random(2))
    assert told is not None
    assert told[0] == f"负债合计，单位为{told[1]}。"
    assert in_unit("美国名义GDP是多少万亿美元", "USD", "zh", random.Random(2)) is None
    assert perturb(of_finglm(ROW | {"question": "每股收益是多少元?"}), Kind.UNITS, 4) is None


def test_what_is_missing_is_only_phrased_otherwise() -> None:
    absent = [(q, of_gold(q, NAMES)) for q in load_questions() if q.missing]
    assert absent
    for _, asked in absent:
        assert {variant.kinds for variant in variants(asked, 1)} <= {(Kind.PHRASING,)}


def test_the_gold_questions_are_perturbed_in_every_way() -> None:
    found = {kind: sum(perturb(asked, kind, 7) is not None for asked in GOLD) for kind in Kind}
    assert found[Kind.PHRASING] == len(GOLD)
    assert found[Kind.DATES] >= 120
    assert found[Kind.NAMES] >= 50
    assert found[Kind.COLLOQUIAL] >= 50
    assert min(found.values()) >= 5


def test_compound_variants_carry_their_today_and_unit() -> None:
    for seed in range(20):
        variant = compound(of_finglm(ROW), seed)
        assert variant is not None
        assert len(set(variant.kinds)) == len(variant.kinds) >= 3
        assert (variant.as_of is not None) == (Kind.RELATIVE in variant.kinds)
        assert (variant.scale > 1) == (Kind.UNITS in variant.kinds)


def test_gold_things_are_those_of_the_cells() -> None:
    question = Question.model_validate(
        {"id": "q", "class": "lookup", "lang": "en", "ask": "Apple and oil?",
         "cells": [{"of": "AAPL.close_adj", "day": "2020-03-16", "unit": "USD", "value": 1},
                   {"of": "WTI.close_adj", "day": "2020-03-16", "unit": "USD", "value": 1}]}
    )  # fmt: skip
    assert [thing.names[0] for thing in of_gold(question, NAMES).things] == ["AAPL"]
