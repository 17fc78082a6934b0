"""Comparisons in words, incomplete dates, kinds of units and causes in the check of answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import date

import numpy as np
import pytest

from fathom.api.datafetch.v1.datafetch_pb2 import Column, Sheet
from fathom.services.planner.answering.verification.claims import parse_sentences
from fathom.services.planner.answering.verification.clauses import ClauseLabels, label_clauses, list_clauses, list_texts
from fathom.services.planner.answering.verification.comparison.multiples import find_multiple
from fathom.services.planner.answering.verification.comparison.relations import find_relations
from fathom.services.planner.answering.verification.computed import find_entity_of
from fathom.services.planner.answering.verification.dates import find_moments
from fathom.services.planner.answering.verification.elliptical import complete_moments
from fathom.services.planner.answering.verification.evidence import (
    Series,
    Source,
    find_aliases,
    find_labels,
    index_line,
    index_lines,
)
from fathom.services.planner.answering.verification.lookup import add_acronyms, find_mentions
from fathom.services.planner.answering.verification.review import find_uncited, mark_unchecked
from fathom.services.planner.answering.verification.verifier import Verifier
from fathom.services.planner.classification.classifier import Classifier, Verdict, load_heads
from fathom.services.planner.classification.vectors import Encoded
from fathom.services.planner.model.episode import FindingKind, Material, MaterialKind

MONTHS = tuple(date(year, month, 28) for year in (2020, 2021) for month in range(1, 13))
# One peak, in April 2020, and a fall ever after, so that each sentence below is true or false without a doubt.
JOBLESS = np.array([4.0, 4.1, 4.5, 9.0, 8.5, 8.0, 7.5, 7.2, 7.0, 6.8, 6.7, 6.6, *np.linspace(6.5, 4.3, 12)])
PAYROLLS = np.array([150.0, 151, 149, 130, 133, 137, 139, 140, 141, 142, 143, 142, *range(143, 155)]) * 1e3


class NoVectors:
    """Encoder that does not answer."""

    async def encode(self, texts: Sequence[str]) -> Encoded | None:
        return None


def make_sheet() -> Source:
    """Return a sheet of two indicators of one country, material 1."""
    series = (
        Series("US.unrate", "US", "%", 1.0, JOBLESS, MONTHS, is_adverse=True),
        Series("US.payems", "US", "Thous. of Persons", 1e3, PAYROLLS, MONTHS),
    )
    labels = {"US.unrate": "unemployment rate 失业率", "US.payems": "nonfarm payrolls 非农就业"}
    about = index_line("sheet_1; United States: unemployment rate, nonfarm payrolls")
    moments = index_line(" ".join(day.isoformat() for day in MONTHS)).moments
    names = {"US": ("US", "United States")}
    return Source(1, MaterialKind.SHEET, about, series=series, moments=moments, aliases=names, labels=labels, rows=24)


def make_cell() -> Source:
    """Return a calculation, material 2."""
    lines = index_lines('{"label": "US", "volatility_pct": 12.5, "price_usd": 30.5}\n就业人数(千人): 130513')
    return Source(2, MaterialKind.CODE, index_line(""), lines)


@pytest.fixture(scope="module")
def verifier() -> Verifier:
    return Verifier("What happened?", [make_sheet(), make_cell()])


@pytest.mark.parametrize(
    ("true", "wrong"),
    [
        ("Unemployment was lower in December 2021 than in April 2020 [1].", "Unemployment was higher in December 2021 than in April 2020 [1]."),
        ("April was the worst month of 2020 for payrolls [1].", "May was the worst month of 2020 for payrolls [1]."),
        ("Unemployment fell in every quarter of 2021 [1].", "Unemployment rose in every quarter of 2021 [1]."),
        ("Payrolls fell faster in April 2020 than in March 2020 [1].", "Payrolls fell more slowly in April 2020 than in March 2020 [1]."),
        ("In each month of 2021 payrolls were above those of the same month of 2020 except the first two [1].", "In each month of 2021 unemployment was below that of 2020 [1]."),
        ("At 9.0%, unemployment of April 2020 was far above the 4.1% of February [1].", "At 9.0%, unemployment of April 2020 was far below the 4.1% of February [1]."),
        ("Unemployment fell by 2.4 percentage points between April and December 2020 [1].", "Unemployment fell by 2.4% between April and December 2020 [1]."),
        ("Unemployment stood at 9.0% in April 2020 [1].", "Unemployment stood at 9.0 points in April 2020 [1]."),
        ("Payrolls came to 130 million people in April 2020 [1].", "Payrolls came to 130 thousand people in April 2020 [1]."),
        ("The volatility was 12.5% [2].", "The volatility was $12.5 [2]."),
        ("December 2020 (6.6%) was a better month for unemployment than April (9.0%) [1].", "December 2020 (6.6%) was a worse month for unemployment than April (9.0%) [1]."),
        ("The 142 million of December 2020 had not overtaken the 143 million of November [1].", "Payrolls of 142 million in December 2020 had overtaken the 143 million of November [1]."),
        ("Unemployment stood at 9.0% in April 2020 [1].", "Unemployment stood at 9.0‰ in April 2020 [1]."),
        ("Unemployment rose by 4.5 percentage points from 4.5% in March 2020 to 9.0% in April [1].", "Unemployment rose by 4.5 basis points from 4.5% in March 2020 to 9.0% in April [1]."),
        ("Payrolls came to 130 million people in April 2020 [1].", "Payrolls came to 130 million hours in April 2020 [1]."),
        ("The highest unemployment rate of 2020 was 9.0% [1].", "The highest unemployment rate of 2021 came in May 2021, with 5.7% [1]."),
        ("2020年全年最高的失业率出现在4月28日，为9.0%[1]。", "2020年全年最高的失业率出现在5月28日，为8.5%[1]。"),
        ("There were more jobs in July 2020 (139 million) than in June (137 million) [1].", "There were fewer jobs in July 2020 (139 million) than in June (137 million) [1]."),
        ("April 2020 had 130 million people on payrolls, fewer than any other month of 2020 [1].", "April 2020 had 130 million people on payrolls, more than any other month of 2020 [1]."),
        ("与2020年7月的7.5%相比，9月的失业率7.0%更低[1]。", "与2020年7月的7.5%相比，9月的失业率7.0%更高[1]。"),
        ("Compared with the 7.5% of July 2020, the 7.0% of September were lower [1].", "Compared with the 7.5% of July 2020, the 7.0% of September were higher [1]."),
        ("2020年7月的失业率7.5%不及6月的8.0%[1]。", "2020年6月的失业率8.0%不及7月的7.5%[1]。"),
        ("就业人数为130,513千人[2]。", "就业人数为130,513万人[2]。"),
        ("Unemployment peaked in April 2020 [1].", "Unemployment peaked in July 2020 [1]."),
        ("April 2020 marked the trough of payrolls [1].", "July 2020 marked the trough of payrolls [1]."),
        ("Unemployment fell below 5% in 2021 [1].", "Unemployment fell below 4% in 2021 [1]."),
        ("Payrolls ended 2021 higher than they had begun it [1].", "Payrolls ended 2021 lower than they had begun it [1]."),
        ("Unemployment of 9.0% in April 2020 topped the 4.5% of March [1].", "Unemployment of 4.5% in March 2020 topped the 9.0% of April [1]."),
        ("Payrolls were higher at the end of 2021 than at the end of 2020 [1].", "Payrolls were lower at the end of 2021 than at the end of 2020 [1]."),
        ("Throughout 2021 unemployment was under 7% [1].", "Throughout 2021 unemployment was over 6% [1]."),
        ("失业率在2020年4月见顶[1]。", "失业率在2020年7月见顶[1]。"),
        ("2020年12月失业率高于2021年12月[1]。", "2020年12月失业率低于2021年12月[1]。"),
        ("2020年4月非农就业是2020年以来的最低点[1]。", "2020年9月非农就业是2020年以来的最低点[1]。"),
    ],
)  # fmt: skip
def test_a_false_comparison_or_unit_is_marked_and_the_true_one_is_not(
    verifier: Verifier, true: str, wrong: str
) -> None:
    assert [finding.detail for finding in verifier.verify(true)] == []
    assert verifier.verify(wrong)


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("on 2020-06-26, and one session later", "2020-06-27", "2020-07-01"),
        ("on 2020-06-29, up on the day before", "2020-06-24", "2020-06-28"),
        ("2020年6月29日，前一交易日", "2020-06-24", "2020-06-28"),
        ("on 2020-06-26 and a week later", "2020-07-03", "2020-07-07"),
        ("2020年6月29日高于26日", "2020-06-26", "2020-06-26"),
        ("less on June 29, 2020 than on the 26th", "2020-06-26", "2020-06-26"),
    ],
)
def test_days_near_a_date_are_found_with_those_on_which_markets_may_close(text: str, first: str, last: str) -> None:
    found = complete_moments(text, find_moments(text))[-1]
    assert (str(found.first), str(found.last)) == (first, last)


@pytest.mark.parametrize("text", ["in 2020, not of the 26th", "2020年，26日"])
def test_a_day_has_no_month_to_take_from_a_year(text: str) -> None:
    assert [moment.text for moment in complete_moments(text, find_moments(text))] in (["2020"], ["2020年"])


def test_a_value_of_another_day_than_the_named_one_is_marked() -> None:
    days = tuple(date(2020, 6, day) for day in (25, 26, 29, 30))
    series = (Series("A.close", "A", "USD", 1.0, np.array([31.5, 32.5, 34.5, 37.5]), days),)
    moments = index_line(" ".join(day.isoformat() for day in days)).moments
    verifier = Verifier("", [Source(1, MaterialKind.SHEET, index_line("A"), series=series, moments=moments, rows=4)])
    assert verifier.verify("A closed at 34.50 USD on 2020-06-29, up from 32.50 USD the day before [1].") == ()
    assert verifier.verify("A closed at 34.50 USD on 2020-06-29 and at 37.50 USD one session later [1].") == ()
    assert verifier.verify("A cost more on 2020-06-29 (34.50 USD) than on 2020-06-26 (32.50 USD) [1].") == ()
    (finding,) = verifier.verify("A closed at 34.50 USD on 2020-06-29, up from 37.50 USD the day before [1].")
    assert (finding.kind, finding.text) == (FindingKind.TIME, "37.50")


@pytest.mark.parametrize(
    ("text", "periods"),
    [
        ("Between January and March 2020", ["2020-01", "2020-03"]),
        ("in April 2020 and a year later", ["2020-04", "2021-04"]),
        ("2020年5月为133，4月为130", ["2020-05", "2020-04"]),
        ("2021年4月，比上年同月", ["2021-04", "2020-04"]),
        ("2021年第三季度，此前两个季度", ["2021-07", "2021-01"]),
        ("he may march", []),
    ],
)
def test_incomplete_dates_take_what_they_lack_from_the_nearest_date(text: str, periods: list[str]) -> None:
    found = complete_moments(text, find_moments(text))
    assert [f"{moment.first:%Y-%m}" for moment in found if moment.first] == periods


def test_both_ends_of_a_printed_range_are_dates() -> None:
    assert [moment.text for moment in find_moments("1990-09-30..2022-09-30")] == ["1990-09-30", "2022-09-30"]


@pytest.mark.parametrize(
    ("text", "signs"),
    [
        ("more slowly than", [-1]),
        ("the deepest fall", [1]),
        ("less volatile than", [-1]),
        ("环比增长", []),
        ("at least one of the highest, more than half", []),
        ("比上年低", [-1]),
    ],
)
def test_words_of_comparison_have_a_direction(text: str, signs: list[int]) -> None:
    assert [relation.sign for relation in find_relations(text)] == signs


def test_a_name_with_a_word_of_comparison_compares_nothing() -> None:
    sheet = replace(make_sheet(), aliases={"US": ("US", "Best Country")})
    text = "Best Country: unemployment rate 4% on 2020-01-28, 4.3% on 2021-12-28 [1]."
    assert Verifier("What happened?", [sheet]).verify(text) == ()


def test_names_with_digits_are_no_numbers() -> None:
    (sentence,) = parse_sentences("The U-6 rate and COVID-19.")
    assert sentence.numbers == ()


def test_an_event_that_only_a_document_can_tell_is_no_matter_of_a_table() -> None:
    text = "When hotels took guests again, payrolls rose to 137 million in June 2020 [1]."
    labels = ClauseLabels({"When hotels took guests again": Verdict("explained", 0.97, True)})
    (finding,) = Verifier("", [make_sheet()], labels).verify(text)
    assert (finding.text, "cannot show a cause" in finding.detail) == ("When hotels took guests again", True)


@pytest.mark.parametrize(
    ("words", "probability", "found"),
    [
        # Many words that the data do not know make an event likely at a lower probability; names of the data do not.
        ("A brutally cold winter kept builders at home", 0.6, True),
        ("A brutally cold winter kept builders at home", 0.4, False),
        ("Nonfarm payrolls of the United States went on", 0.6, False),
        ("A brutally cold winter", 0.6, False),
    ],
)
def test_words_foreign_to_the_data_need_less_to_be_an_event(words: str, probability: float, found: bool) -> None:
    text = f"{words}, 137 million in June 2020 [1]."
    labels = ClauseLabels({words: Verdict("explained", probability, False)})
    marks = Verifier("", [make_sheet()], labels).verify(text)
    assert [finding.text for finding in marks] == ([words] if found else [])


@pytest.mark.parametrize(
    ("text", "true", "false"),
    [("利润涨了将近一倍", 1.9, 1.48), ("价格上涨两倍", 3.0, 2.0), ("价格比去年高出1倍", 2.0, 1.0), ("今年的利润是去年的两倍", 2.0, 3.0)],
)  # fmt: skip
def test_what_grew_by_its_own_size_is_twice_as_large(text: str, true: float, false: float) -> None:
    multiple = find_multiple(text)
    assert multiple is not None
    assert multiple.allows(true)
    assert not multiple.allows(false)


def test_a_list_of_names_is_no_cause_whatever_the_classifier_makes_of_it() -> None:
    text = "Shops of Ulm: 137 million in June 2020 [1]."
    # The classifier is wrong here on purpose: the rules around it must hold whatever it says.
    labels = ClauseLabels({"Shops of Ulm": Verdict("explained", 0.97, True)})
    assert [finding.text for finding in Verifier("", [make_sheet()], labels).verify(text)] == ["Shops of Ulm"]
    assert Verifier("How many people work in the shops of Ulm?", [make_sheet()], labels).verify(text) == ()


def test_what_a_missing_item_says_is_no_cause() -> None:
    lack = Source(2, MaterialKind.MISSING, index_line("energy prices"))
    text = "Missing: energy prices; nearest: petrol in towns [2]."
    labels = ClauseLabels({"petrol in towns": Verdict("explained", 0.97, True)})
    assert Verifier("", [make_sheet(), lack], labels).verify(text) == ()


def test_a_clause_is_judged_whole_with_gaps_for_its_numbers_and_dates() -> None:
    text = "Payrolls came to 137 million people in June 2020, 1,200 more than planned [1]."
    (sentence,) = parse_sentences(text)
    assert [clause.text for clause in list_clauses(sentence)] == [
        "Payrolls came to … people in …",
        "… more than planned",
    ]
    assert [sentence.text[slice(*part)] for part in list_clauses(sentence)[0].parts] == [
        "Payrolls came to",
        "people in",
    ]


def test_a_part_of_a_clause_is_no_cause_by_itself() -> None:
    text = "Payrolls came to 137 million people in June 2020 [1]."
    event = Verdict("explained", 0.97, True)
    assert Verifier("", [make_sheet()], ClauseLabels({"people in": event})).verify(text) == ()
    labels = ClauseLabels({"people in": event, "Payrolls came to … people in …": event})
    assert [finding.text for finding in Verifier("", [make_sheet()], labels).verify(text)] == ["people in"]


def test_a_reason_for_not_answering_is_no_cause() -> None:
    text = "因为没有数据，无法给出结论[1]。"
    (sentence,) = parse_sentences(text)
    own = {words: Verdict("own", 0.9, True) for words in list_texts([sentence])}
    assert Verifier("", [make_sheet()]).verify(text)
    assert Verifier("", [make_sheet()], ClauseLabels(own)).verify(text) == ()


def test_an_assumption_needs_no_citation() -> None:
    text = "假设失业率保持5.5%。"
    material = [Material(1, MaterialKind.SHEET, None, "sheet_1")]
    labels = ClauseLabels({"假设失业率保持": Verdict("own", 0.9, True)})
    assert len(list(find_uncited(text, material))) == 1
    assert list(find_uncited(text, material, labels)) == []


async def test_without_an_encoder_the_answer_says_that_causes_were_not_checked() -> None:
    labels = await label_clauses("Payrolls rose [1].", Classifier(NoVectors(), load_heads()))
    assert [finding.kind for finding in mark_unchecked("Payrolls rose [1].", labels)] == [FindingKind.UNCHECKED]
    assert list(mark_unchecked("Payrolls rose [1].", await label_clauses("Payrolls rose [1].", None))) == []


def test_an_acronym_and_a_column_name_stand_for_their_entity() -> None:
    names = add_acronyms({"wti": ("wti", "WTI crude"), "brent": ("brent", "Brent crude")})
    assert list(find_mentions("WTI was at 40", names)) == ["wti"]
    assert find_entity_of("AAPL.close_adj", {"aapl": "AAPL"}) == "AAPL"
    assert find_entity_of("Apple", {"apple": "AAPL"}) == "AAPL"
    assert list(find_mentions("截至年末AAPL收于", {"AAPL": ("AAPL",)})) == ["AAPL"]


def test_the_names_of_a_sheet_are_known_in_every_language() -> None:
    columns = [
        Column(name="AAPL.close_adj", entity="AAPL", indicator="close_adj", entity_names=["Apple", "苹果"],
               indicator_names=["adjusted close", "复权收盘价"]),
        # A column without names of its entity: the entity's id is all that can be looked for.
        Column(name="US.unrate", entity="US", indicator="unrate", indicator_names=["unemployment rate", "失业率"]),
    ]  # fmt: skip
    sheet = Sheet(title="a comparison without names", columns=columns)
    assert find_aliases(sheet)["AAPL"] == ("AAPL", "Apple", "苹果")
    assert "失业率" in find_labels(sheet)["US.unrate"]


@pytest.mark.parametrize(("column", "is_held"), [("US.unrate - US.u6rate", True), ("US.unrate", False)])
def test_the_extreme_of_a_printed_spread_is_none_of_its_columns(column: str, is_held: bool) -> None:
    series = tuple(Series(name, "US", "%", 1.0, JOBLESS, MONTHS) for name in ("US.unrate", "US.u6rate"))
    labels = {"US.unrate": "unemployment rate", "US.u6rate": "U-6 rate"}
    sheet = Source(1, MaterialKind.SHEET, index_line("sheet_1"), series=series, labels=labels, rows=24)
    line = f'{{"series": "{column}", "max": 2.83, "max_date": "2021-02-28"}}'
    cell = Source(2, MaterialKind.CODE, index_line(""), index_lines(line))
    marks = Verifier("What happened?", [sheet, cell]).verify(
        "Unemployment rate – U-6 rate: highest 2.83% on 2021-02-28 [1][2]"
    )
    assert (not [mark for mark in marks if "another one" in mark.detail]) is is_held
