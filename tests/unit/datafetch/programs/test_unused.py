"""Words of a question that its program does not use."""

from __future__ import annotations

import pytest

from fathom.services.datafetch.catalog.schema import EntitySpec
from fathom.services.datafetch.parser.mention import Mention, MentionKind
from fathom.services.datafetch.programs.reader import ProgramReading
from fathom.services.datafetch.programs.resolve import NamedSeries
from fathom.services.datafetch.programs.wording.unused import find_unused

K = MentionKind
ALPHA, BETA = (K.ENTITY, "Alpha", "AAA"), (K.ENTITY, "Beta", "BBB")


KNOWN = {
    "AAA": EntitySpec(id="AAA", name="Alpha", kind="stock", market="CN"),
    "BBB": EntitySpec(id="BBB", name="Beta", kind="stock"),
    "JPY": EntitySpec(id="JPY", name="Japanese yen", kind="currency"),
    "US": EntitySpec(id="US", name="United States", kind="economy"),
    "CN": EntitySpec(id="CN", name="China", kind="economy"),
}
STEP = "f.maximum(f.within(s1, f.period('2019-01-01', '2019-12-31')))"


def find(question: str, words: list[str], *mentions: tuple[MentionKind, str, str], series: str = "Alpha") -> list[str]:
    """Return reason and words of what a program with such words over one series leaves out of a question."""
    read = [
        Mention(kind, question.index(text), question.index(text) + len(text), value) for kind, text, value in mentions
    ]
    named = NamedSeries("s1", "AAA", "close_adj", series), NamedSeries("s2", "JPY", "eur_rate", "JPY")
    program = ProgramReading("", "calculation", 1.0, 1.0, (STEP,), named, (), tuple(words))
    return [f"{one.reason} {one.words}" for one in find_unused(question, read, program, KNOWN)]


@pytest.mark.parametrize(
    ("question", "words", "mentions", "unused"),
    [
        ("When were Alpha and Beta highest?", ["Alpha"], [ALPHA, BETA], ["UNUSED_NAME Beta"]),
        ("Alpha in 2019 and 2020", ["Alpha", "2019"], [ALPHA, (K.PERIOD, "2020", "x")], ["UNUSED_PERIOD 2020"]),
        ("Alpha in March 2019", ["Alpha", "March 2019"], [ALPHA, (K.PERIOD, "2019", "x")], []),
        ("Alpha ever", ["Alpha"], [ALPHA, (K.PERIOD, "ever", "../..")], []),
        ("Alpha that year", ["Alpha"], [ALPHA, (K.PERIOD, "that year", "2019-01-01/2019-12-31")], []),
        ("the A share of Alpha", ["Alpha"], [(K.ENTITY, "A share", "AAA"), ALPHA], []),
        ("yen-based Alpha in JPY", ["Alpha", "JPY"], [(K.ENTITY, "yen", "JPY"), ALPHA], ["UNUSED_NAME yen"]),
        (
            "811汇改时的Alpha",
            ["Alpha"],
            [(K.PARAMETER, "811", "811"), (K.UNKNOWN, "汇改", ""), ALPHA],
            ["UNREAD 811", "UNREAD 汇改"],
        ),
        (
            "Alpha 破30点",
            ["Alpha"],
            [ALPHA, (K.UNKNOWN, "破", ""), (K.PARAMETER, "30", "30")],
            ["UNREAD 破", "UNUSED_NUMBER 30"],
        ),
        ("Alpha on 30 February", ["Alpha"], [ALPHA, (K.PERIOD, "30 February", "")], ["UNUSED_PERIOD 30 February"]),
        ("Alpha above 30", ["Alpha"], [ALPHA, (K.PARAMETER, "30", "30")], ["UNUSED_NUMBER 30"]),
        ("The 2 of Alpha and Beta", ["Alpha", "Beta"], [ALPHA, BETA, (K.PARAMETER, "2", "2")], []),
        ("US unemployment and Alpha", ["Alpha"], [(K.ENTITY, "US", "US"), ALPHA], ["UNREAD US"]),
        ("Alpha of China", ["Alpha"], [ALPHA, (K.ENTITY, "China", "CN")], []),
        ("US Alpha", ["US Alpha"], [(K.ENTITY, "US", "US"), (K.ENTITY, "Alpha", "AAA")], []),
        ("Alpha's revenue", ["Alpha"], [ALPHA, (K.INDICATOR, "revenue", "rev")], ["UNUSED_INDICATOR revenue"]),
        ("Alpha's price", ["Alpha"], [ALPHA, (K.INDICATOR, "price", "close_adj")], []),
        ("Alpha widdershins", ["Alpha"], [ALPHA, (K.UNKNOWN, "widdershins", "")], ["UNREAD widdershins"]),
        ("Alpha, highest", ["Alpha"], [ALPHA, (K.MEASURE, "highest", "max")], []),
    ],
)
def test_names_periods_and_numbers_that_no_step_has_are_named(
    question: str, words: list[str], mentions: list[tuple[MentionKind, str, str]], unused: list[str]
) -> None:
    assert find(question, words, *mentions) == unused


def test_a_proper_name_before_a_series_makes_it_another_one() -> None:
    read = [(K.UNKNOWN, "UK", ""), (K.UNKNOWN, "gilt", "")]
    assert find("UK gilt Alpha, average", ["Alpha"], *read) == ["UNUSED_NAME UK", "UNUSED_NAME gilt"]
    assert find("average gilt Alpha", ["Alpha"], (K.UNKNOWN, "gilt", "")) == ["UNREAD gilt"]
