"""Recall: a planted turn among others, by meaning and by words, within times, page by page, for its owner alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import date

import numpy as np
import pytest

from fathom.core.call import Call, calling
from fathom.core.errors import InvalidField
from fathom.services.memory.engine import Turn
from fathom.services.memory.segments.meaning import Origin, list_parallel
from fathom.services.memory.segments.passages import TOLD, is_told, read_turn
from fathom.services.memory.segments.scoring import FULL_TERMS, measure_length, read_query
from fathom.services.memory.segments.searching import (
    MAX_QUESTION_CHARS,
    MAX_TOP_K,
    PAGES_READ,
    RecalledSegment,
    select_said,
    take_pages,
)
from fathom.services.memory.segments.storage import Segment
from fathom.services.memory.segments.vectors import Encoded
from tests.unit.memory.segments.conftest import DAY, START, Memory
from tests.unit.memory.segments.vectors import make_vector

A = Call.new(tenant="fund-7")
ANNE, BERT = replace(A, principal="user:anne"), replace(A, principal="user:bert")


async def fill(memory: Memory) -> None:
    """Say ten things on ten days in two conversations; the third is about bullion, the eighth in Chinese."""
    for number in range(10):
        question, answer = f"What about matter{number} of firm{number}?", f"Matter{number} was settled at {number}.5%."
        if number == 2:
            question, answer = "When did bullion peak?", f"{'Markets were calm. ' * 40}It peaked at 1,895 dollars."
        if number == 7:
            question, answer = "北川机械的毛利率是多少？", "北川机械的毛利率为31.2%。"
        await memory.say(question, answer, f"c{number % 2}", days=1)


async def test_a_turn_is_found_by_meaning_where_no_word_is_the_same(memory: Memory) -> None:
    await fill(memory)
    found = await memory.search("gold")
    assert found.has_meaning
    best = found.turns[0]
    assert (best.turn.conversation, best.turn.number) == ("c0", 2)
    assert best.passage == "When did bullion peak?"
    memory.vectors.is_away = True
    by_words = await memory.search("gold")
    assert not by_words.has_meaning, "and the caller can tell"
    assert not by_words.turns


async def test_a_fact_in_the_middle_of_an_answer_is_found_with_its_passage(memory: Memory) -> None:
    await fill(memory)
    best = (await memory.search("what was 1,895 dollars?")).turns[0]
    assert best.turn.question == "When did bullion peak?"
    assert "1,895" in best.passage


async def test_languages_mixed_in_a_question_find_their_turn(memory: Memory) -> None:
    await fill(memory)
    for question in ("毛利率是多少来着", "the 毛利率 of 北川机械, please"):
        assert (await memory.search(question)).turns[0].turn.question.startswith("北川机械")


async def test_a_name_in_another_spelling_finds_its_turn(memory: Memory) -> None:
    memory.vectors.names = {"Coca-Cola": "KO", "可口可乐": "KO", "Pfizer": "PFE"}
    for name in ("Pfizer", "Coca-Cola", "Merck"):
        await memory.say(f"How did {name} do?", f"{name} did well.")
    assert (await memory.search("可口可乐那次呢")).turns[0].turn.question == "How did Coca-Cola do?"


async def test_pages_filed_without_an_encoder_get_their_names_with_their_vectors(memory: Memory) -> None:
    memory.vectors.names = {"Coca-Cola": "KO", "可口可乐": "KO"}
    memory.vectors.is_away = True
    await memory.say("How did Coca-Cola do?", "Coca-Cola did well.")
    await memory.file()
    memory.vectors.is_away = False
    assert await memory.middle.add_vectors() == 1
    (found,) = (await memory.search("可口可乐那次呢")).turns
    assert found.turn.number == 1
    assert found.page.terms["@KO"] == 2, "once in the question and once in the answer"


async def test_what_the_user_told_goes_before_what_was_asked_where_it_is_the_users_own(memory: Memory) -> None:
    await memory.say("The limit of a share is 7%.", "The limit of a share, 7%.", "told")
    await memory.say("The limit of a share right now?", "The limit of a share, 7%.", "asked")
    await memory.say("When did copper peak?", "Copper peaked in May.", "other")
    for question, first in (("Is my limit of a share kept?", "told"), ("Is the limit of a share kept?", "asked")):
        assert (await memory.search(question)).turns[0].turn.conversation == first


async def test_a_turn_that_goes_on_from_another_is_found_by_what_stands_before_it(memory: Memory) -> None:
    await memory.say("When did copper peak?", "Copper peaked at 4.9.", "other")
    await memory.say("And the next year?", "4.1 then.", "other")
    await memory.say("When did bullion peak?", "Bullion peaked at 1,895.", "meant")
    await memory.say("And the next year?", "1,794 then.", "meant")
    followed = [one.turn for one in (await memory.search("the next year of gold", top_k=4)).turns]
    asked = [turn.conversation for turn in followed if turn.question == "And the next year?"]
    assert asked == ["meant", "other"]


async def test_a_short_question_and_its_short_answer_are_found_by_what_they_say_together(memory: Memory) -> None:
    await memory.say("Cocoa, coffee, cotton, sugar?", "Wheat, maize, barley, rubber.", "meant")
    await memory.say("Bullion?", "Dropped.", "meant")
    await memory.say("Bullion dropped, copper?", "Bullion dropped, copper.", "other")
    best = max((await memory.search("gold fell")).turns, key=lambda one: one.score)
    assert best.turn.question == "Bullion?"
    assert best.passage == "Dropped.", "the question is shown anyway"


def test_question_and_answer_together_are_one_more_vector_of_a_turn() -> None:
    answered = read_turn("Its guidance?", "Cut in May.")
    assert answered.list_texts() == ("Its guidance?", "Cut in May.", "Its guidance? Cut in May.")
    assert [answered.show(row) for row in range(3)] == ["Its guidance?", "Cut in May.", "Cut in May."]
    alone = read_turn("Its guidance?", "")
    assert alone.list_texts() == ("Its guidance?",)
    long = read_turn("word " * 400, "Cut in May.")
    assert long.list_texts() == long.passages, "no room beside it"
    # Turns may have been cut otherwise when their vectors were made.
    assert alone.show(5) == "Its guidance?"


async def test_an_answer_about_what_is_asked_goes_before_a_question_about_it(memory: Memory) -> None:
    await memory.say("Is copper in your data?", "Prices fell.", "c1")
    await memory.say("And here?", "Copper data fell.", "c2")
    await memory.say("Wheat or barley?", "Zinc fell.", "c3")
    found = (await memory.search("copper data", top_k=2)).turns
    assert [one.turn.conversation for one in found] == ["c2", "c1"]


async def test_of_turns_with_the_same_words_the_one_that_says_more_goes_first(memory: Memory) -> None:
    await memory.say("Copper?", "Copper, zinc.", "c1")
    await memory.say("Copper?", "Copper, zinc. Copper, zinc. Copper, zinc.", "c2")
    found = (await memory.search("copper", top_k=2)).turns
    assert [one.turn.conversation for one in found] == ["c2", "c1"]


def test_a_report_says_as_much_as_a_paragraph() -> None:
    paragraph, report = ({f"word{number}": 1 for number in range(count)} for count in (FULL_TERMS, 900))
    assert measure_length({"one": 1}) < measure_length(paragraph) == measure_length(report)


@pytest.mark.parametrize(
    ("count", "told", "rows"),
    [(1, False, [0]), (2, False, [1]), (2, True, [0, 1]), (3, False, [1]), (3, True, [0, 1]), (5, False, [1, 2, 3])],
)
def test_what_a_turn_says_is_its_answer_and_what_the_user_told(count: int, told: bool, rows: list[int]) -> None:
    """Rows of a turn are its question, the passages of its answer, and the first two together."""
    assert select_said(np.arange(count, dtype=np.float32), is_told=told).tolist() == rows


async def test_turns_of_many_small_segments_are_all_looked_at(memory: Memory) -> None:
    words = [
        "copper",
        "zinc",
        "nickel",
        "cocoa",
        "coffee",
        "cotton",
        "sugar",
        "wheat",
        "maize",
        "barley",
        "rubber",
        "timber",
        "lead",
        "iron",
        "uranium",
    ]
    for word in words:
        await memory.say(f"{word} {word}?", f"{word} rose.")
    found = (await memory.search("rose", top_k=50)).turns
    assert len({one.page.segment for one in found}) > 12
    assert len(found) == len(words)


@pytest.mark.parametrize(
    ("question", "answer", "told"),
    [
        ("My limit is 8% a share.", "Noted: 8% a share.", True),
        ("我妈2013年初买了80股家得宝。", "记下了，80股。", True),
        ("Is my limit 8%?", "Yes, 8%.", False),
        ("辉瑞2021年收益率", "66.7%。", False),
    ],
)
def test_a_turn_is_told_where_nothing_is_asked_and_no_number_comes_back(question: str, answer: str, told: bool) -> None:
    assert is_told(question, answer) is told
    assert (TOLD in read_turn(question, answer).terms) is told


@pytest.mark.parametrize(
    ("question", "own"),
    [
        ("How did my basket do?", True),
        ("How did the US do?", False),
        ("我们那笔远期", True),
        ("Did it reach us?", True),
    ],
)
def test_the_first_person_makes_a_question_ones_own(question: str, own: bool) -> None:
    assert read_query(question, date(2026, 1, 1)).is_own is own


def make_segment(number: int, pages: int) -> RecalledSegment:
    segment = Segment(number, "", np.zeros(0, np.float32), {}, pages, 0, 0.0, 0.0, 0, 0.0, "", "", (), 0)
    return RecalledSegment(segment, 1.0 - number / 100, 0.0)


def test_as_many_segments_are_read_as_their_pages_allow() -> None:
    full = [make_segment(number, 32) for number in range(20)]
    assert [one.segment.number for one in take_pages(full)] == list(range(12))
    assert len(take_pages([make_segment(0, PAGES_READ + 1), make_segment(1, 1)])) == 1
    assert take_pages([]) == []


async def test_a_day_in_the_question_decides_between_equal_turns(memory: Memory) -> None:
    for _ in range(4):
        await memory.say("What is the spread?", "It is 40 basis points.", days=1)
    best = (await memory.search("What was the spread on 3 January 2026?")).turns[0]
    assert best.turn.ended == START + 2 * DAY


async def test_times_and_conversations_bound_what_is_found(memory: Memory) -> None:
    await fill(memory)
    asked = "What was settled?"
    numbers = {one.turn.ended for one in (await memory.search(asked, top_k=50, after=START + 5 * DAY)).turns}
    assert numbers
    assert min(numbers) >= START + 5 * DAY
    before = (await memory.search(asked, top_k=50, before=START + 5 * DAY)).turns
    assert before
    assert max(one.turn.ended for one in before) < START + 5 * DAY
    own = (await memory.search(asked, top_k=50, conversation="c1", through=2)).turns
    assert {(one.turn.conversation, one.turn.number) for one in own} == {("c1", 1), ("c1", 2)}
    assert not (await memory.search(asked, conversation="unknown")).turns


async def test_turns_older_than_the_window_are_found_by_one_request(memory: Memory) -> None:
    await memory.say("When did bullion peak?", "At 1,895 dollars.", "c0")
    with calling(ANNE):
        # Of somebody else nobody has turns.
        assert not (await memory.search("bullion", conversation="c0", newest=2)).has_turns
    inside = await memory.search("bullion", conversation="c0", newest=2)
    assert (inside.turns, inside.has_turns) == ((), True)
    assert memory.vectors.encoded == 0, "nothing is encoded where the window has all"
    for number in range(2):
        await memory.say(f"Did bullion rise in 201{number}?", "Bullion rose.", "c0")
    found = await memory.search("bullion", top_k=3, conversation="c0", newest=2)
    assert [one.turn.number for one in found.turns] == [1]
    assert found.has_turns
    with pytest.raises(InvalidField, match="older_than_window"):
        await memory.search("bullion", newest=2)


async def test_a_question_that_follows_an_earlier_turn_is_reminded_of_none_beside_it(memory: Memory) -> None:
    for number in range(4):
        await memory.say(f"Did bullion rise in 201{number}?", "Bullion rose.", "c0")

    async def recall(through: int) -> list[int]:
        found = await memory.search("bullion", top_k=9, conversation="c0", newest=1, through=through)
        return sorted(one.turn.number for one in found.turns)

    assert (await recall(0), await recall(3)) == ([1, 2, 3], [1, 2])
    # The second turn asked again: what was said after the first attempt leads nowhere.
    await memory.engine.append("again", "c0", Turn("Did bullion rise in 2011?", "", "Bullion rose.", "", parent=1))
    assert (await recall(0), await recall(4)) == ([1], [1, 2, 3])


async def test_a_chinese_word_of_one_character_is_found_beside_others(memory: Memory) -> None:
    memory.vectors.is_away = True
    await memory.say("英镑2021年底", "1欧元兑0.8403英镑。")
    await memory.say("我妈2013年初买了80股家得宝，一直没动。", "记下了。")
    await memory.say("家得宝2021年收益率？", "59.5%。")
    best = (await memory.search("帮我算算我妈那笔赚了多少")).turns[0]
    assert best.turn.question.startswith("我妈")


async def test_pages_go_on_without_gap_or_repeat(memory: Memory) -> None:
    await fill(memory)
    asked = "matter settled of firm"
    whole = await memory.search(asked, top_k=50)
    seen, token = [], ""
    while not seen or token:
        page = await memory.search(asked, top_k=2, token=token)
        assert len(page.turns) <= 2
        seen += [(one.turn.conversation, one.turn.number, one.score) for one in page.turns]
        token = page.token
    assert seen == [(one.turn.conversation, one.turn.number, one.score) for one in whole.turns]
    assert len(seen) == len(set(seen)) > 4
    first = await memory.search(asked, top_k=1)
    with pytest.raises(InvalidField, match="page_token"):
        await memory.search("another question", token=first.token)


async def test_a_question_visits_a_segment_once_however_many_pages_are_read(memory: Memory) -> None:
    await memory.say("bullion in 2010?", "Up.")
    await memory.say("bullion in 2011?", "Up.")
    first = await memory.search("bullion", top_k=1)
    await memory.search("bullion", top_k=1, token=first.token)
    (segment,) = (await memory.search("bullion")).segments
    assert segment.segment.visits == 1


async def test_nobody_recalls_what_another_user_said(memory: Memory) -> None:
    for call, word in ((ANNE, "bullion"), (BERT, "copper"), (Call.new(tenant="fund-8"), "zinc")):
        with calling(call):
            await memory.say("What is my plan?", f"To buy {word}.", f"conv_{word}")
    with calling(ANNE):
        assert [one.turn.answer for one in (await memory.search("my plan to buy copper")).turns] == ["To buy bullion."]
        # Whoever guesses an id finds nothing either.
        assert not (await memory.search("my plan", conversation="conv_copper")).turns
        assert not (await memory.search("my plan", conversation="conv_zinc")).turns
    with calling(A):
        assert not (await memory.search("my plan")).turns, "nobody in particular is somebody else"


async def test_a_deleted_conversation_is_in_no_segment_and_no_summary(memory: Memory) -> None:
    await memory.say("What did bullion do in May?", "Bullion rose to 1,895.", "gone")
    await memory.say("What did bullion do in June?", "Bullion rose to 1,900.", "left")
    await memory.file()
    await memory.middle.summarise()
    (one,) = (await memory.search("bullion")).segments
    assert "1,895" in one.segment.summary
    assert one.segment.sources == (("gone", 1), ("left", 1))
    await memory.engine.delete("gone")
    found = await memory.search("bullion 1,895")
    assert [item.turn.conversation for item in found.turns] == ["left"]
    assert (found.segments[0].segment.summary, found.segments[0].segment.pages) == ("", 1)
    assert "895" not in " ".join(found.segments[0].segment.terms)
    await memory.middle.summarise()
    assert "1,895" not in (await memory.search("bullion")).segments[0].segment.summary
    await memory.engine.delete("left")
    assert (await memory.count("segments"), await memory.count("pages")) == (0, 0)


@pytest.mark.parametrize(
    ("wanted", "field"),
    [
        ({"question": " "}, "question"),
        ({"question": "x" * (MAX_QUESTION_CHARS + 1)}, "question"),
        ({"question": "a\0b"}, "question"),
        ({"top_k": -1}, "top_k"),
        ({"top_k": MAX_TOP_K + 1}, "top_k"),
        ({"token": "nonsense"}, "page_token"),
        ({"through": 3}, "through"),
        ({"through": -3, "conversation": "c"}, "through"),
        ({"conversation": "a\0"}, "conversation_id"),
        ({"after": 5.0, "before": 5.0}, "before"),
    ],
)
async def test_bad_questions_are_named(memory: Memory, wanted: dict[str, object], field: str) -> None:
    with pytest.raises(InvalidField) as refused:
        await memory.search(**{"question": "bullion", **wanted})  # type: ignore[arg-type]
    assert refused.value.field == field


async def test_a_question_that_refers_to_nothing_finds_nothing(memory: Memory) -> None:
    assert not (await memory.search("What did we say?")).turns
    await fill(memory)
    memory.vectors.is_away = True
    assert not (await memory.search("zebra")).turns


async def test_a_question_that_refers_to_nothing_gets_no_turn(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    origin = Origin.from_parallel(np.stack([make_vector(text) for text in list_parallel()]))
    encode = memory.vectors.encode

    async def encode_with_controls(texts: Sequence[str]) -> Encoded | None:
        encoded = await encode(texts)
        return None if encoded is None else replace(encoded, origin=origin)

    monkeypatch.setattr(memory.vectors, "encode", encode_with_controls)
    for metal in ("gold", "silver", "copper"):
        await memory.say(f"What is the price of {metal}?", f"The price of {metal} is 25 dollars.")
    # Both share "what is" with every turn.
    assert not (await memory.search("What is a zebra?")).turns
    found = await memory.search("What is the price of silver?")
    assert found.turns[0].turn.number == 2
