"""Words of a question that its program does not use."""

from __future__ import annotations

import pytest

from fathom.services.datafetch.catalog.layer import Layer
from fathom.services.datafetch.catalog.schema import EntitySpec, IndicatorSpec
from fathom.services.datafetch.parser.mention import Mention, MentionKind
from fathom.services.datafetch.programs.reader import ProgramReading
from fathom.services.datafetch.programs.resolve import NamedSeries
from fathom.services.datafetch.programs.wording.unused import find_unused

K = MentionKind
PRICE, JOBS = (K.INDICATOR, "price", "close_adj"), (K.INDICATOR, "jobs", "payrolls")
ABOVE, ALL_OPEN = (K.CONDITION, "above 5", ">"), ["UNUSED_INDICATOR jobs", "UNUSED_NAME Alpha", "UNREAD the US"]
TWO_YEARS = K.PARAMETER, "two-year", "2 years"
ALPHA, BETA = (K.ENTITY, "Alpha", "AAA"), (K.ENTITY, "Beta", "BBB")


KNOWN = {
    "AAA": EntitySpec(id="AAA", name="Alpha", kind="stock", market="CN"),
    "BBB": EntitySpec(id="BBB", name="Beta", kind="stock"),
    "JPY": EntitySpec(id="JPY", name="Japanese yen", kind="currency"),
    "USD": EntitySpec(id="USD", name="US dollar", kind="currency"),
    "US": EntitySpec(id="US", name="United States", kind="economy"),
    "CN": EntitySpec(id="CN", name="China", kind="economy"),
}
LAYER = Layer(
    entities=KNOWN,
    indicators={
        "payrolls": IndicatorSpec(id="payrolls", name="jobs", unit="", kinds=["economy"]),
        "close_adj": IndicatorSpec(id="close_adj", name="closing price", unit="USD", default=True, kinds=["stock"]),
        "eur_rate": IndicatorSpec(id="eur_rate", name="rate of the euro", unit="per EUR"),
    },
)
STEP = "f.maximum(f.within(s1, f.period('2019-01-01', '2019-12-31')))"


def find(
    question: str,
    words: list[str],
    *mentions: tuple[MentionKind, str, str],
    series: str = "Alpha",
    link: float = 1.0,
    steps: tuple[str, ...] = (STEP,),
) -> list[str]:
    """Return reason and words of what a program with such words over one series leaves out of a question."""
    read = [
        Mention(kind, question.index(text), question.index(text) + len(text), value) for kind, text, value in mentions
    ]
    named = NamedSeries("s1", "AAA", "close_adj", series), NamedSeries("s2", "JPY", "eur_rate", "JPY")
    program = ProgramReading("", "calculation", 1.0, link, steps, named, (), tuple(words))
    return [f"{one.reason} {one.words}" for one in find_unused(question, read, program, LAYER)]


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
        ("two-year fall of Alpha and Beta", ["Alpha", "Beta"], [ALPHA, BETA, TWO_YEARS], ["UNUSED_NUMBER two-year"]),
        ("Alpha in the two years", ["Alpha"], [ALPHA, (K.PARAMETER, "two years", "2 years")], []),
        (
            "the 60 days to 2019: Alpha",
            ["2019", "Alpha"],
            [ALPHA, (K.PERIOD, "the 60 days to 2019", "x")],
            ["UNUSED_PERIOD the 60 days to 2019"],
        ),
        ("The 2 of Alpha and Beta", ["Alpha", "Beta"], [ALPHA, BETA, (K.PARAMETER, "2", "2")], []),
        ("US unemployment and Alpha", ["Alpha"], [(K.ENTITY, "US", "US"), ALPHA], ["UNREAD US"]),
        ("Alpha and China", ["Alpha"], [ALPHA, (K.ENTITY, "China", "CN")], ["UNREAD China"]),
        ("price of Alpha and the US", ["Alpha"], [PRICE, ALPHA, (K.ENTITY, "the US", "US")], ["UNREAD the US"]),
        ("jobs of Alpha and the US", ["Alpha"], [JOBS, ALPHA, (K.ENTITY, "the US", "US")], ALL_OPEN),
        (
            "Alpha when jobs were above 5",
            ["Alpha", "5"],
            [ALPHA, JOBS, ABOVE],
            ["UNUSED_INDICATOR jobs", "UNUSED_NUMBER above 5"],
        ),
        ("jobs of Alpha above 5", ["jobs of Alpha", "5"], [JOBS, ALPHA, ABOVE], []),
        ("Alpha of China", ["Alpha"], [ALPHA, (K.ENTITY, "China", "CN")], []),
        ("US Alpha", ["US Alpha"], [(K.ENTITY, "US", "US"), (K.ENTITY, "Alpha", "AAA")], []),
        ("Alpha's revenue", ["Alpha"], [ALPHA, (K.INDICATOR, "revenue", "rev")], ["UNUSED_INDICATOR revenue"]),
        ("Alpha's price", ["Alpha"], [ALPHA, (K.INDICATOR, "price", "close_adj")], []),
        ("Alpha widdershins", ["Alpha"], [ALPHA, (K.UNKNOWN, "widdershins", "")], ["UNREAD widdershins"]),
        ("Alpha closed above 30", ["Alpha"], [ALPHA, (K.CONDITION, "above 30", ">")], ["UNUSED_NUMBER above 30"]),
        ("Alpha closed above 30", ["Alpha", "30"], [ALPHA, (K.CONDITION, "above 30", ">")], []),
        ("Alpha, highest", ["Alpha"], [ALPHA, (K.MEASURE, "highest", "max")], []),
    ],
)
def test_names_periods_and_numbers_that_no_step_has_are_named(
    question: str, words: list[str], mentions: list[tuple[MentionKind, str, str]], unused: list[str]
) -> None:
    assert find(question, words, *mentions) == unused


@pytest.mark.parametrize(
    ("text", "operator", "step", "is_used"),
    [
        ("not above 30", "<=", "above", False),
        ("没有超过30", "<=", "above", False),
        ("not above 30", "<=", "at_most", True),
        ("below 30", "<", "above", False),
        ("above 30", ">", "at_least", True),
        # Never is said of the whole period: how often it was above tells it.
        ("never above 30", ">", "above", True),
    ],
)
def test_a_comparison_the_other_way_is_none_of_the_question(text: str, operator: str, step: str, is_used: bool) -> None:
    steps = (f"f.count_if(s1, {step!r}, 30)",)
    found = find(f"Alpha {text}", ["Alpha", "30"], ALPHA, (K.CONDITION, text, operator), steps=steps)
    assert found == ([] if is_used else [f"UNUSED_NUMBER {text}"])


def test_a_proper_name_before_a_series_makes_it_another_one() -> None:
    read = [(K.UNKNOWN, "UK", ""), (K.UNKNOWN, "gilt", "")]
    assert find("UK gilt Alpha, average", ["Alpha"], *read) == ["UNUSED_NAME UK", "UNUSED_NAME gilt"]
    assert find("average gilt Alpha", ["Alpha"], (K.UNKNOWN, "gilt", "")) == ["UNREAD gilt"]


def test_a_word_within_those_for_a_series_is_used_only_if_the_series_is_called_so() -> None:
    unknown = [(K.UNKNOWN, "Chilean", ""), (K.UNKNOWN, "Alpha", "")]
    for link, reason in ((0.7, "UNUSED_NAME"), (1.0, "UNREAD")):
        found = find("how Chilean Alpha did", ["Chilean Alpha"], *unknown, series="Chilean Alpha", link=link)
        assert found == [f"{reason} Chilean"]
    small = [(K.UNKNOWN, "shiny", ""), (K.UNKNOWN, "closing", "")]
    assert find("shiny closing Alpha", ["shiny closing Alpha"], *small, series="shiny closing Alpha") == [
        "UNREAD shiny"
    ]
    # All of the words for a company: nobody is called so, and it may be somebody else.
    assert find("Alfa in 2019", ["Alfa"], (K.UNKNOWN, "Alfa", ""), series="Alfa", link=0.7) == ["UNREAD Alfa"]
    assert find("智利Alpha", ["智利Alpha"], (K.UNKNOWN, "智利", ""), series="智利Alpha") == ["UNREAD 智利"]


@pytest.mark.parametrize(
    ("question", "mention", "series", "unused"),
    [
        ("Alpha in dollars", (K.OUTPUT, "in dollars", "dollars"), ["AAA"], []),
        ("阿尔法是多少美元", (K.OUTPUT, "多少美元", "美元"), ["AAA"], []),
        ("Alpha in per cent", (K.OUTPUT, "in per cent", "%"), ["AAA"], []),
        ("Alpha in yen", (K.OUTPUT, "in yen", "yen"), ["AAA"], ["UNUSED_NAME in yen"]),
        ("Alpha in yen", (K.OUTPUT, "in yen", "yen"), ["AAA", "JPY"], ["UNUSED_NAME in yen"]),
        ("Alpha in yen", (K.OUTPUT, "in yen", "JPY"), ["AAA", "JPY", "USD"], []),
        ("Alpha in euros", (K.OUTPUT, "in euros", "euros"), ["AAA"], ["UNUSED_NAME in euros"]),
        ("Alpha in euros", (K.OUTPUT, "in euros", "euros"), ["AAA", "USD"], []),
        ("yen per euro", (K.OUTPUT, "per euro", "euro"), ["JPY"], []),
        ("the dollar price of Alpha", (K.ENTITY, "dollar", "USD"), ["AAA"], []),
        ("the yen price of Alpha", (K.ENTITY, "yen", "JPY"), ["AAA"], ["UNUSED_NAME yen"]),
        ("Alpha and the dollar", (K.ENTITY, "dollar", "USD"), ["AAA"], ["UNUSED_NAME dollar"]),
        ("阿尔法和美元", (K.ENTITY, "美元", "USD"), ["AAA"], ["UNUSED_NAME 美元"]),
    ],
)
def test_money_is_used_where_the_values_are_in_it_or_are_converted(
    question: str, mention: tuple[MentionKind, str, str], series: list[str], unused: list[str]
) -> None:
    kind, text, value = mention
    read = [Mention(kind, question.index(text), question.index(text) + len(text), value)]
    named = [
        NamedSeries(f"s{at}", one, "eur_rate" if KNOWN[one].kind == "currency" else "close_adj", "yen" * (one == "JPY"))
        for at, one in enumerate(series)
    ]
    program = ProgramReading(
        "", "calculation", 1.0, 1.0, (STEP,), tuple(named), (), ("Alpha", "yen") if "JPY" in series else ("Alpha",)
    )
    assert [f"{one.reason} {one.words}" for one in find_unused(question, read, program, LAYER)] == unused


@pytest.mark.parametrize(
    ("step", "is_used"),
    [
        ("f.ret(f.within(s1, f.period('2019-01-01', '2019-12-31')))", False),
        ("f.count_if(f.moves(s1, 'day'), 'above', 3)", False),
        ("f.vol(s1, 'quarter')", False),
        ("f.average(s1, 3)", True),
        ("f.recent(s1, 3, 'month')", True),
        ("f.moves(s1, 'quarter')", True),
        ("f.recent(s1, 1, 'year')", False),
        (
            "f.ret(f.between(s1, f.end(f.period('2018-12-01', '2018-12-31')), f.period('2019-03-01', '2019-03-31')))",
            True,
        ),
    ],
)
def test_a_length_is_used_where_steps_compute_over_it(step: str, is_used: bool) -> None:
    length = (K.PARAMETER, "3-month", "3 months")
    assert find("3-month return of Alpha", ["Alpha", "3"], ALPHA, length, steps=(step,)) == (
        [] if is_used else ["UNUSED_NUMBER 3-month"]
    )


@pytest.mark.parametrize(
    ("step", "is_used"),
    [
        ("f.count_if(f.steps(s1, 'month'), 'at_least', 12)", False),
        ("f.yoy(s1)", True),
        ("f.moves(s1, 'year')", True),
        ("f.ret(s1)", True),
    ],
)
def test_a_change_over_a_length_is_no_bound(step: str, is_used: bool) -> None:
    change = (K.MEASURE, "12-month change", "yoy")
    assert find("12-month change of Alpha", ["Alpha", "12"], ALPHA, change, steps=(step,)) == (
        [] if is_used else ["UNUSED_NUMBER 12-month change"]
    )


@pytest.mark.parametrize(
    ("comparison", "is_used"), [("'below', f.neg(8)", True), ("'below', -8", True), ("'below', 8", False)]
)
def test_a_loss_above_a_bound_is_a_move_below_its_negative(comparison: str, is_used: bool) -> None:
    bound = (K.CONDITION, "more than 8%", ">")
    step = f"f.count_if(f.moves(s1, 'month'), {comparison})"
    assert find("months when Alpha lost more than 8%", ["Alpha", "8"], ALPHA, bound, steps=(step,)) == (
        [] if is_used else ["UNUSED_NUMBER more than 8%"]
    )


def test_a_number_word_is_part_of_a_period() -> None:
    period = (K.PERIOD, "the twelve months to 2020", "2019-01-01/2020-12-31")
    assert find("Alpha over the twelve months to 2020", ["Alpha", "2020"], period) == [
        "UNUSED_PERIOD the twelve months to 2020"
    ]
    assert not find("Alpha over the twelve months to 2020", ["Alpha", "12", "2020"], period)


def test_a_period_by_name_beside_its_dates_is_named_and_keeps_no_value_back() -> None:
    crisis, dated = (K.PERIOD, "crisis", "2007-12-01/2009-06-30"), (K.PERIOD, "2019", "2019-01-01/2019-12-31")
    assert find("Alpha in the crisis year 2019", ["Alpha"], crisis, dated) == ["UNREAD crisis"]
    assert find("Alpha in the crisis", ["Alpha"], crisis) == ["UNUSED_PERIOD crisis"]


def test_a_difference_that_no_step_computes_is_named() -> None:
    asked = (K.MEASURE, "difference", "spread")
    steps = ("f.drawdown(f.within(f.each(s1, s2), f.period('2019-01-01', '2019-12-31')))",)
    question = "Alpha and JPY in 2019: drawdown, and the difference"
    assert find(question, ["Alpha", "2019"], asked, steps=steps) == ["UNREAD difference"]
    assert not find(question, ["Alpha", "2019"], asked, steps=(*steps, "f.minus(_1, _1)"))


def test_the_first_word_of_a_question_is_no_proper_name() -> None:
    read = [(K.UNKNOWN, "Drug", ""), (K.UNKNOWN, "makers", "")]
    assert find("Drug makers Alpha, average", ["Alpha"], *read) == ["UNREAD Drug", "UNREAD makers"]
    # Where the link is not sure, it may be one.
    assert find("Drug makers Alpha, average", ["Alpha"], *read, link=0.8)[0] == "UNUSED_NAME Drug"
