"""Words that nothing takes: read as what they misspell or mean, and named with it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import date

import pytest

from fathom.services.datafetch.engine import Engine
from fathom.services.datafetch.parser.question import MOST_UNREAD, Understanding
from fathom.services.datafetch.parser.rewording import Meanings, Speller, is_slip, make_rewording, mark, reword
from fathom.services.datafetch.query.model import Frequency, Query, Statistic

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def read(engine: Engine, question: str) -> Query:
    return (await engine.read(question, None)).query


async def test_misspelt_words_are_read_and_named(engine: Engine) -> None:
    seen = await engine.read("unemploymnt rate in Novmber 2015", None)
    assert (seen.query.indicators, seen.query.start) == (("unrate",), date(2015, 11, 1))
    assert [(item.surface, item.id, item.how) for item in seen.matches[:2]] == [
        ("unemploymnt", "unemployment", "typo"),
        ("Novmber", "november", "typo"),
    ]
    assert [(item.start, item.confidence) for item in seen.mentions if item.value == "unrate"] == [(0, 0.85)]
    assert not seen.missing


@pytest.mark.parametrize(
    ("word", "known"),
    [
        ("novmber", "november"),
        ("clsoe", "close"),
        ("anual", "annual"),
        ("infaltion", "inflation"),
        ("retrun", "return"),
    ],
)
async def test_a_slip_of_the_keyboard_is_one(word: str, known: str) -> None:
    assert is_slip(word, known)


@pytest.mark.parametrize(
    ("word", "known"), [("stack", "stock"), ("scale", "sale"), ("graded", "grades"), ("deflation", "deviation")]
)
async def test_another_word_is_no_slip(word: str, known: str) -> None:
    assert not is_slip(word, known)


async def test_a_known_word_and_a_short_one_are_not_corrected(engine: Engine) -> None:
    speller = Speller(engine.layer)
    assert [speller.correct(word) for word in ("unemployment", "teh", "qzxvw")] == ["", "", ""]


async def test_a_word_is_read_as_the_term_that_means_it(engine: Engine) -> None:
    terms = {"nosedive": ("fall", 0.8), "hedge": ("shed", 0.3)}
    meanings = Meanings(lambda text: [terms[text]] if text in terms else [], lambda text: [])
    question = "by what percent did Apple nosedive in 2020"
    seen = engine.reader.read(question, None, meanings)
    assert [(item.surface, item.id, item.how) for item in seen.matches[:1]] == [("nosedive", "fall", "embedding")]
    assert seen.query.statistics == (Statistic.RETURN,)


@pytest.mark.parametrize(("count", "is_compared"), [(MOST_UNREAD, True), (MOST_UNREAD + 1, False)])
async def test_a_text_of_many_unread_words_asks_no_encoder(engine: Engine, count: int, is_compared: bool) -> None:
    asked: list[str] = []

    def compare(text: str) -> list[tuple[str, float]]:
        asked.append(text)
        return []

    words = [f"qz{chr(97 + at)}xv" for at in range(count)]
    seen = engine.reader.read("; ".join([*words, "drawdown"]), None, Meanings(compare, compare))
    assert len(seen.unread) == count
    assert bool(asked) == is_compared
    assert "max_drawdown" in [item.value for item in seen.mentions]


async def test_a_phrase_is_read_as_the_indicator_that_means_it(engine: Engine) -> None:
    likes = [("retail gasoline price (all grades)", 0.7), ("retail diesel price", 0.5)]
    sure = Meanings(lambda text: [], lambda text: likes if "gasoline" in text else [])
    unsure = Meanings(lambda text: [], lambda text: [likes[0], ("retail diesel price", 0.69)])
    assert engine.reader.read("gasoline in June 2021", None, sure).query.indicators == ("gasallm",)
    assert engine.reader.read("gasoline in June 2021", None, unsure).query.indicators == ()


async def test_what_is_missing_is_named_by_the_words_of_the_question(engine: Engine) -> None:
    meanings = Meanings(lambda text: [("correlation", 0.8)] if text == "comovement" else [], lambda text: [])
    seen = engine.reader.read("comovement of Apple and Microsoft in 2020", None, meanings)
    assert [(item.subject, "correlation" in item.detail) for item in seen.missing] == [("comovement", False)]


async def test_positions_follow_the_changed_words() -> None:
    change = make_rewording((0, 3), "longer", "typo", 0.85)
    assert reword("abc of Apple", [change]) == "longer of Apple"
    assert mark([], [change]) == []


async def test_after_a_period_excludes_it(engine: Engine) -> None:
    assert [
        (await read(engine, text)).start for text in ("Apple since 2018", "Apple after 2018", "苹果2018年之后")
    ] == [
        date(2018, 1, 1),
        date(2019, 1, 1),
        date(2019, 1, 1),
    ]


async def test_two_open_periods_are_refused_by_name(engine: Engine) -> None:
    result = await engine.ask("Housing starts: average before 2008 versus after 2010", None)
    assert not result.sheets
    assert {"before 2008", "after 2010"} <= {item.subject for item in result.missing}


@pytest.mark.parametrize(
    ("question", "start", "end"),
    [
        ("30-year mortgage rate against thirty-year Treasury from 2005 to 2010", date(2005, 1, 1), date(2010, 12, 31)),
        ("Apple between the start and end of 2021", date(2021, 1, 1), date(2021, 12, 31)),
        ("Walmart close on Christmas Eve 2020", date(2020, 12, 24), date(2020, 12, 24)),
        ("2019年哪一天苹果跌得最惨", date(2019, 1, 1), date(2019, 12, 31)),
    ],
)
async def test_a_period_is_the_one_that_is_named(engine: Engine, question: str, start: date, end: date) -> None:
    query = await read(engine, question)
    assert (query.start, query.end) == (start, end)


async def test_the_day_of_a_name_between_the_words_is_found(engine: Engine) -> None:
    query = await read(engine, "2019年哪一天苹果跌得最惨")
    assert (query.entities, query.every, query.outer) == (("AAPL",), Frequency.DAILY, Statistic.MIN)


async def test_a_verb_behind_a_name_is_no_part_of_it(engine: Engine) -> None:
    seen = await engine.read("how did unemployment and inflation move in 2019", None)
    assert (seen.query.indicators, seen.missing) == (("unrate", "yoy(cpiaucsl)"), [])


async def test_both_averages_of_a_comparison_are_given(engine: Engine) -> None:
    result = await engine.ask("did the ten-year Treasury average less in 2019 than it had in 2018", None)
    assert [sheet.rows for sheet in result.sheets] == [1, 1]


async def test_rows_and_names_are_ordered_as_asked(engine: Engine) -> None:
    query = await read(engine, "十年期美债收益率从高到低列出2022年各月")
    assert (query.order, query.descending, query.statistics) == ("gs10", True, ())
    query = await read(engine, "Sort the factor ETFs by their 2021 return, smallest first")
    assert (query.kind, query.descending, query.limit) == ("fund", False, 0)


async def test_a_time_named_by_an_event_gives_no_figures_of_all_times(engine: Engine) -> None:
    assert not (await engine.ask("Trough in payrolls during the savings and loan crisis", None)).sheets


async def test_a_time_named_by_a_known_event_says_its_days(engine: Engine) -> None:
    (sheet,) = (await engine.ask("Trough in payrolls during the covid recession", None)).sheets
    assert "2020-02-01 to 2020-04-30" in sheet.title


async def test_an_inversion_of_two_series_is_not_answered_with_the_first(engine: Engine) -> None:
    assert not (await engine.ask("两年期和十年期国债收益率倒挂了几个月（2006年到2007年）", None)).sheets


async def test_inflation_beside_price_indices_is_their_growth(engine: Engine) -> None:
    query = await read(engine, "PPI vs CPI, annual inflation, 1973 to 1975")
    assert query.indicators == ("yoy(ppiaco)", "yoy(cpiaucsl)")


async def test_coordinated_entities_share_their_tail(engine: Engine) -> None:
    query = await read(engine, "drawdowns of the min vol and momentum ETFs in 2020")
    assert set(query.entities) == {"USMV", "MTUM"}


async def test_the_words_of_a_text_are_prepared_together() -> None:
    prepared: list[Sequence[str]] = []
    meanings = Meanings(lambda text: [], lambda text: [], prepared.append)
    text = "gold nosedive ACME comovement"
    assert list(meanings.find(text, [(5, 13), (14, 18), (19, 29)], [(0, 4)])) == []
    assert prepared == [["gold", "nosedive", "comovement"]]


async def test_a_text_is_read_once_for_all_who_ask(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    question, reader, texts = "unemployment rate in May 2016, zorbly", engine.reader.read, list[str]()

    def read_and_count(question: str, as_of: date | None, meanings: Meanings | None = None) -> Understanding:
        texts.append(question)
        return reader(question, as_of, meanings)

    monkeypatch.setattr(engine.reader, "read", read_and_count)
    first, *others = await asyncio.gather(*(engine.read(question, None) for _ in range(12)))
    missing = list(first.missing)
    await engine.ask(question, None)
    assert texts == [question]
    assert all(other is first for other in others)
    assert first.missing == missing


async def test_a_reading_without_the_encoder_is_made_again(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    found = [None, Meanings(lambda text: [("fall", 0.8)] if text == "nosedive" else [], lambda text: [])]

    async def find_meanings() -> Meanings | None:
        return found.pop(0)

    monkeypatch.setattr(engine, "_config", engine._config.model_copy(update={"embedding": "auto"}))
    monkeypatch.setattr(engine, "_find_meanings", find_meanings)
    question = "by what percent did Apple nosedive in 2018"
    assert (await engine.read(question, None)).reworded == []
    for _ in range(2):
        assert [item.id for item in (await engine.read(question, None)).reworded] == ["fall"]
    assert not found


async def test_a_meaning_without_a_place_in_the_question_is_not_taken(engine: Engine) -> None:
    """Orders of goods are no order of rows: their name stays unknown, and no other series of goods is given."""
    ranks = Meanings(lambda text: [("order", 0.7)] if text == "orders" else [], lambda text: [])
    seen = engine.reader.read("durable goods orders in May 2021", None, ranks)
    assert not seen.reworded
    assert any("orders" in item.subject for item in seen.missing)


async def test_unread_characters_are_named_with_all_of_their_word(engine: Engine) -> None:
    question = "Apple公司盈利能力2020年"
    words = [(at, at + 2) for at in range(question.index("公司"), len(question) - 5, 2)]
    assert [question[slice(*span)] for span in words] == ["公司", "盈利", "能力"]
    seen = engine.reader.read(question, None, Meanings(lambda text: [], lambda text: [], cut=lambda text: words))
    assert [question[slice(*span)] for span in seen.unread] == ["能力"]
    assert "能力" in [one.subject for one in seen.missing]
    # A word that holds one with a meaning of its own stays as it was cut.
    wide = [(question.index("盈利"), question.index("能力") + 2)]
    seen = engine.reader.read(question, None, Meanings(lambda text: [], lambda text: [], cut=lambda text: wide))
    assert [question[slice(*span)] for span in seen.unread] == ["力"]


async def test_a_cue_of_one_character_is_none_within_an_unread_word(engine: Engine) -> None:
    question, word = "Apple的成长曲线", (6, 8)
    assert question[slice(*word)] == "成长"
    plain = engine.reader.read(question, None)
    assert [question[slice(*span)] for span in plain.unread] == ["长"]
    seen = engine.reader.read(question, None, Meanings(lambda text: [], lambda text: [], cut=lambda text: [word]))
    assert [question[slice(*span)] for span in seen.unread] == ["成长"]
    assert not [item for item in seen.mentions if item.start == word[0] and item.end == word[0] + 1]
