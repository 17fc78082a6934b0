"""Turns become pages: chains of interleaved subjects, segments, heat, eviction, and one filing by many replicas."""

from __future__ import annotations

import asyncio

import pytest
from sqlalchemy import Connection, text

from fathom.core.errors import FathomError, Internal
from fathom.services.memory.rounds import Rounds
from fathom.services.memory.segments import storage
from fathom.services.memory.segments.filing import Bounds
from fathom.services.memory.segments.scoring import HEAT_DECAY_S, measure_heat
from fathom.services.memory.segments.storage import Owner, Page
from tests.support.waiting import eventually
from tests.unit.memory.segments.conftest import Memory

NOBODY = Owner("default", "")
GOLD = ("How much did bullion cost in {}?", "Bullion cost {} dollars an ounce in {}.")
BANK = ("What was the dividend of Pfizer in {}?", "Pfizer paid a dividend of {} cents in {}.")


async def tell(memory: Memory, *subjects: tuple[str, str], conversation: str = "c") -> None:
    for year, (question, answer) in enumerate(subjects, 2010):
        await memory.say(question.format(year), answer.format(year * 2, year), conversation)
    await memory.file()


async def load_pages(memory: Memory) -> list[Page]:
    def work(db: Connection) -> list[Page]:
        numbers = [segment.number for segment in storage.load_segments(db, NOBODY)]
        return storage.load_pages(db, NOBODY, numbers)

    return await memory.engine.database.run_transaction(work)


async def test_interleaved_subjects_are_separate_chains_and_segments(memory: Memory) -> None:
    await tell(memory, GOLD, BANK, GOLD, BANK, GOLD)
    pages = await load_pages(memory)
    assert [(page.number, page.continues, page.chain) for page in pages] == [
        (1, 0, 1), (2, 0, 2), (3, 1, 1), (4, 2, 2), (5, 3, 1),
    ]  # fmt: skip
    assert pages[0].segment == pages[2].segment == pages[4].segment
    assert pages[1].segment == pages[3].segment != pages[0].segment


async def test_a_subject_taken_up_in_another_conversation_joins_its_segment(memory: Memory) -> None:
    await tell(memory, GOLD, BANK)
    await tell(memory, GOLD, conversation="d")
    pages = await load_pages(memory)
    assert [(page.conversation, page.continues, page.chain) for page in pages] == [
        ("c", 0, 1),
        ("c", 0, 2),
        ("d", 0, 1),
    ]
    assert pages[2].segment == pages[0].segment != pages[1].segment


async def test_turns_are_filed_by_words_where_no_encoder_answers_and_get_their_vectors_later(memory: Memory) -> None:
    memory.vectors.is_away = True
    await tell(memory, GOLD, BANK, GOLD)
    assert {page.encoder for page in await load_pages(memory)} == {""}
    assert await memory.middle.add_vectors() == 0
    memory.vectors.is_away = False
    assert await memory.middle.add_vectors() == 3
    pages = await load_pages(memory)
    assert {(page.encoder, len(page.vectors)) for page in pages} == {("words", 3)}, "question, answer, and both"
    assert await memory.middle.add_vectors() == 0, "all have them"


async def test_replicas_file_each_turn_once(memory: Memory) -> None:
    for year in range(2000, 2012):
        await memory.say(f"bullion in {year}?", "It rose.")
    replicas = [memory.make() for _ in range(3)]
    await asyncio.gather(*(replica.file_all() for replica in replicas))
    assert [page.number for page in await load_pages(memory)] == list(range(1, 13))
    (segment,) = await memory.engine.database.run_transaction(lambda db: storage.load_segments(db, NOBODY))
    assert segment.pages == 12


async def test_the_background_files_and_summarises_what_is_appended(memory: Memory) -> None:
    rounds = Rounds((memory.middle.file_all, memory.middle.summarise), lambda error: None)
    await rounds.start()
    await memory.say("bullion in 2010?", "It rose by 5%.")
    rounds.nudge()

    def find_summary(db: Connection) -> bool:
        return bool(db.execute(text("select count(*) from segments where summary <> ''")).scalar_one())

    async def is_summarised() -> bool:
        return await memory.engine.database.run_transaction(find_summary)

    await eventually(is_summarised)
    await rounds.close()


async def test_a_defect_of_one_step_ends_no_other() -> None:
    done: list[str] = []
    reported: list[FathomError] = []

    async def fail() -> int:
        raise ValueError("a defect")

    async def work() -> int:
        done.append("a round")
        return len(done) == 1

    rounds = Rounds((fail, work), reported.append)
    await rounds.start()
    rounds.nudge()
    await eventually(lambda: len(done) == 2)
    await rounds.close()
    assert [(type(error), error.message) for error in reported] == [(Internal, "ValueError: a defect")] * 2


@pytest.mark.parametrize("limit", ["segments", "bytes"])
async def test_the_coldest_segment_goes_first_and_its_turns_stay(memory: Memory, limit: str) -> None:
    await tell(memory, GOLD, BANK)
    size = await memory.engine.database.run_transaction(lambda db: storage.count_bytes(db, NOBODY))
    # The older one is the warmer one: it was asked for.
    await memory.search("bullion in 2010", top_k=1)
    memory.middle = memory.make(Bounds(2) if limit == "segments" else Bounds(bytes=size + 100))
    await memory.say("Which planet is the largest?", "Jupiter, of course.")
    await memory.file()
    left = {page.number for page in await load_pages(memory)}
    assert 1 in left
    assert 2 not in left
    assert len((await memory.engine.list_turns("c"))[0]) == 3, "what is evicted stays in its conversation"
    await memory.file()
    assert {page.number for page in await load_pages(memory)} == left, "and is not filed again"


def test_heat_is_use_and_length_and_recency() -> None:
    now = 10 * HEAT_DECAY_S
    fresh, old = measure_heat(0, 1, now, now), measure_heat(0, 1, now - HEAT_DECAY_S, now)
    assert fresh == pytest.approx(2.0)
    assert old == pytest.approx(1.0 + 2.718281828**-1)
    assert measure_heat(1, 1, 0, now) > measure_heat(0, 1, 0, now)
    assert measure_heat(0, 2, 0, now) > measure_heat(0, 1, 0, now)
    assert measure_heat(0, 1, now + 99, now) == fresh, "a clock that is ahead adds nothing"
