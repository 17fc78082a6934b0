"""Queues of review over both databases: added once, one reviewer at a time, decided once, taken back, listed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio

from fathom.core.call import Call, calling
from fathom.core.errors import Conflict, FailedPrecondition, InvalidField, NotFound, PermissionDenied
from fathom.services.memory.engine import Engine
from fathom.services.memory.reviews import store
from fathom.services.memory.reviews.items import MAX_ITEM_BYTES, Decision, Item, Kind, Machine, NewItem, Text, Verdict
from fathom.services.memory.reviews.store import HELD_S, UNDO_S, Reviews

FUND = Call.new(tenant="fund-7")
ANNE, BERT = replace(FUND, principal="user:anne"), replace(FUND, principal="user:bert")
PAIR = NewItem("k1", Kind.COMPARISON, "Why?", (Text("It rose.", "ours"), Text("It fell.", "rival")), source="a.jsonl:1")
REWRITING = NewItem("w1", Kind.REWRITING, "And Apple?", (Text("What of Apple?", "tiny@3"),), "en", (("Q", "A"),))
ACCEPT, REJECT = Decision(Verdict.ACCEPT), Decision(Verdict.REJECT)


@pytest.fixture
def now() -> list[float]:
    """Return the time that the store sees, to be changed."""
    return [1_000.0]


@pytest_asyncio.fixture
async def reviews(place: Path | str, now: list[float]) -> AsyncIterator[Reviews]:
    engine = Engine(place, clock=lambda: now[0])
    await engine.start()
    with calling(ANNE):
        yield engine.reviews
    await engine.close()


async def claim(reviews: Reviews, kind: Kind = Kind.COMPARISON, after: str = "") -> Item:
    item = await reviews.claim(kind, after)
    assert item is not None
    return item


def grade(number: int, reason: str = "") -> Decision:
    return Decision(Verdict.GRADE, number, reason)


async def test_an_item_is_added_once_and_another_one_under_its_key_is_refused(reviews: Reviews) -> None:
    assert await reviews.add([PAIR, REWRITING]) == (2, 0)
    assert await reviews.add([PAIR, replace(PAIR, key="k2")]) == (1, 1)
    for other in (replace(PAIR, question="Why not?"), replace(REWRITING, key="k1")):
        with pytest.raises(Conflict) as refused:
            await reviews.add([replace(PAIR, key="k3"), other])
        assert refused.value.metadata["field"] == "items[1].key"
    # All or none: the first of a refused request is not there.
    assert (await reviews.list_queues())[Kind.COMPARISON] == (2, 0)


async def test_nothing_tells_whose_the_texts_are_before_the_decision(reviews: Reviews) -> None:
    await reviews.add([replace(PAIR, machine=Machine("better", 2, "It is true.", "judge"))])
    shown = await claim(reviews)
    assert [(one.label, one.owner) for one in shown.texts] == [("A", ""), ("B", "")]
    assert (shown.machine, shown.key, shown.source, shown.run) == (None, "", "", "")
    decided = await reviews.decide(shown.id, 1, grade(1))
    assert {one.text: one.owner for one in decided.texts} == {"It rose.": "ours", "It fell.": "rival"}
    assert decided.machine is not None
    assert (decided.machine.by, decided.key, decided.source) == ("judge", "k1", "a.jsonl:1")


async def test_sides_are_drawn_and_grades_are_of_the_sides_that_are_shown(reviews: Reviews) -> None:
    verdict = Machine("better", 2, "", "judge")
    await reviews.add([replace(PAIR, key=f"k{number}", machine=verdict) for number in range(40)])
    firsts = set()
    for _ in range(40):
        shown = await claim(reviews)
        first = shown.texts[0].text
        firsts.add(first)
        # Whoever always prefers the answer that rose agrees with the judge, on whichever side it stands.
        better = 2 if first == "It rose." else -2
        decided = await reviews.decide(shown.id, 1, grade(better))
        assert decided.machine is not None
        assert decided.decision is not None
        assert (decided.machine.grade, decided.decision.grade) == (better, better)
    assert firsts == {"It rose.", "It fell."}
    assert (await reviews.list_queues())[Kind.RECHECK] == (0, 0)


async def test_two_reviewers_get_two_items_until_a_claim_has_ended(reviews: Reviews, now: list[float]) -> None:
    await reviews.add([PAIR, replace(PAIR, key="k2")])
    mine = await claim(reviews)
    assert (await claim(reviews)).id == mine.id
    with calling(BERT):
        other = await claim(reviews)
        assert other.id != mine.id
    with calling(replace(FUND, principal="user:carl")):
        assert await reviews.claim(Kind.COMPARISON) is None
        now[0] += HELD_S + 1
        assert (await claim(reviews)).id == mine.id


async def test_a_skipped_item_is_left_to_others(reviews: Reviews) -> None:
    await reviews.add([PAIR, replace(PAIR, key="k2")])
    first = await claim(reviews)
    second = await claim(reviews, after=first.id)
    assert second.id != first.id
    assert await reviews.claim(Kind.COMPARISON, second.id) is None
    with calling(BERT):
        assert (await claim(reviews)).id == first.id
    with pytest.raises(NotFound):
        await reviews.claim(Kind.COMPARISON, "review_unknown")


async def test_an_item_is_decided_once_and_the_same_decision_again_changes_nothing(reviews: Reviews) -> None:
    await reviews.add([REWRITING])
    shown = await claim(reviews, Kind.REWRITING)
    decided = await reviews.decide(shown.id, 1, ACCEPT)
    assert (decided.version, await reviews.decide(shown.id, 1, ACCEPT)) == (2, decided)
    with calling(BERT), pytest.raises(Conflict) as late:
        await reviews.decide(shown.id, 1, ACCEPT)
    assert late.value.metadata == {"field": "version", "version": "2"}
    with pytest.raises(Conflict):
        await reviews.decide(shown.id, 1, REJECT)
    assert (await reviews.list_queues())[Kind.REWRITING] == (0, 1)


async def test_an_edit_keeps_the_text_before_and_after(reviews: Reviews) -> None:
    await reviews.add([REWRITING])
    edit = Decision(Verdict.EDIT, reason="names the measure", after="What of Apple's margin?")
    decided = (await reviews.decide((await claim(reviews, Kind.REWRITING)).id, 1, edit)).decision
    assert decided is not None
    assert (decided.before, decided.after) == ("What of Apple?", "What of Apple's margin?")
    assert (decided.reviewer, decided.created) == ("user:anne", 1_000.0)


async def test_a_decision_is_taken_back_by_its_reviewer_for_ten_minutes(reviews: Reviews, now: list[float]) -> None:
    await reviews.add([REWRITING])
    ident = (await claim(reviews, Kind.REWRITING)).id
    await reviews.decide(ident, 1, REJECT)
    with calling(BERT), pytest.raises(PermissionDenied):
        await reviews.undo(ident)
    now[0] += UNDO_S
    undone = await reviews.undo(ident)
    assert (undone.version, undone.decision, await reviews.undo(ident)) == (3, None, undone)
    with calling(BERT):
        # It is still before the one who took it back.
        assert await reviews.claim(Kind.REWRITING) is None
    # What was shown before is of another version, also to him.
    with pytest.raises(Conflict):
        await reviews.decide(ident, 1, ACCEPT)
    await reviews.decide(ident, 3, ACCEPT)
    now[0] += UNDO_S + 1
    with pytest.raises(FailedPrecondition):
        await reviews.undo(ident)


async def test_another_tenants_items_are_not_there(reviews: Reviews) -> None:
    await reviews.add([REWRITING])
    ident = (await claim(reviews, Kind.REWRITING)).id
    with calling(Call.new(tenant="fund-8")):
        assert set((await reviews.list_queues()).values()) == {(0, 0)}
        assert await reviews.claim(Kind.REWRITING) is None
        assert await reviews.add([replace(REWRITING, question="Another one")]) == (1, 0)
        for attempt in (
            reviews.decide(ident, 1, ACCEPT),
            reviews.undo(ident),
            reviews.claim(Kind.REWRITING, ident),
        ):
            with pytest.raises(NotFound):
                await attempt
    with pytest.raises(NotFound):
        await reviews.undo("review_\0")


async def test_decisions_are_listed_page_by_page_the_last_one_first(reviews: Reviews) -> None:
    await reviews.add([replace(REWRITING, key=f"w{number}") for number in range(3)])
    await reviews.add([PAIR])
    for _ in range(3):
        await reviews.decide((await claim(reviews, Kind.REWRITING)).id, 1, ACCEPT)
    await reviews.decide((await claim(reviews)).id, 1, grade(0))
    pages, token = list[list[str]](), ""
    while not pages or token:
        page, token = await reviews.list_decisions(Kind.REWRITING, 2, token)
        pages.append([item.key for item in page])
    assert pages == [["w2", "w1"], ["w0"]]
    everything, _ = await reviews.list_decisions()
    assert [item.kind for item in everything] == [Kind.COMPARISON, *[Kind.REWRITING] * 3]


async def test_a_page_of_decisions_has_no_more_bytes_than_a_message_takes(
    reviews: Reviews, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "MAX_PAGE_BYTES", 5_000)
    monkeypatch.setattr(store, "BATCH", 2)
    await reviews.add([replace(REWRITING, key=f"w{number}", material="字" * 700) for number in range(5)])
    for _ in range(5):
        await reviews.decide((await claim(reviews, Kind.REWRITING)).id, 1, ACCEPT)
    pages, token = list[list[str]](), ""
    while not pages or token:
        page, token = await reviews.list_decisions(None, 0, token)
        pages.append([item.key for item in page])
    # In bytes: of the characters alone there would be room for five.
    assert pages == [["w4", "w3"], ["w2", "w1"], ["w0"]]
    monkeypatch.setattr(store, "MAX_PAGE_BYTES", 1)
    assert [len((await reviews.list_decisions(None, 0, ""))[0])] == [1]


async def test_a_program_that_adds_without_end_is_stopped(reviews: Reviews, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "MAX_OPEN", 3)
    await reviews.add([replace(REWRITING, key=f"w{number}") for number in range(3)])
    with pytest.raises(FailedPrecondition, match="let people decide"):
        await reviews.add([PAIR])
    await reviews.decide((await claim(reviews, Kind.REWRITING)).id, 1, ACCEPT)
    assert await reviews.add([PAIR]) == (1, 0)


TWO = (Text("a"), Text("b"))


@pytest.mark.parametrize(
    ("item", "field"),
    [
        (replace(PAIR, key=""), "key"),
        (replace(PAIR, key="a\nb"), "key"),
        (replace(PAIR, kind=Kind.RECHECK), "kind"),
        (replace(PAIR, question=" "), "question"),
        (replace(PAIR, language="fr"), "language"),
        (replace(PAIR, texts=(Text("one"),)), "texts"),
        (replace(PAIR, texts=(Text("one"), Text(" "))), "texts[1].text"),
        (replace(PAIR, machine=Machine(grade=3)), "machine.grade"),
        (replace(REWRITING, machine=Machine(grade=1)), "machine.grade"),
        (replace(REWRITING, texts=TWO), "texts"),
        (replace(REWRITING, history=(("q", "a"),) * 51), "history"),
        (replace(PAIR, run="../x"), "run_id"),
        (replace(PAIR, kind=Kind.HALLUCINATION, texts=TWO[:1]), "material"),
        (replace(PAIR, kind=Kind.CANDIDATE, texts=(Text("same"), Text("same"))), "texts[1].text"),
        (replace(PAIR, source="x" * 1_001), "source"),
    ],
)
async def test_an_item_that_nobody_could_decide_on_names_its_field(reviews: Reviews, item: NewItem, field: str) -> None:
    with pytest.raises(InvalidField) as refused:
        await reviews.add([item])
    assert refused.value.field == f"items[0].{field}"


async def test_the_limit_of_an_item_is_one_of_bytes(reviews: Reviews) -> None:
    fits = replace(PAIR, material="清" * (MAX_ITEM_BYTES // 3 - 50))
    assert await reviews.add([fits]) == (1, 0)
    with pytest.raises(InvalidField, match="256 KiB"):
        await reviews.add([replace(fits, key="k2", material="清" * (MAX_ITEM_BYTES // 3))])


CANDIDATE = NewItem("c1", Kind.CANDIDATE, "Why?", (Text("bad [9]"), Text("")))


@pytest.mark.parametrize(
    ("item", "decision", "field"),
    [
        (PAIR, ACCEPT, "decision"),
        (PAIR, Decision(Verdict.GRADE), "grade"),
        (PAIR, grade(3), "grade"),
        (REWRITING, grade(1), "decision"),
        (REWRITING, Decision(Verdict.ACCEPT, 1), "grade"),
        (REWRITING, Decision(Verdict.EDIT), "text"),
        (REWRITING, Decision(Verdict.EDIT, after=" "), "text"),
        (REWRITING, Decision(Verdict.EDIT, after="What of Apple?"), "text"),
        (REWRITING, Decision(Verdict.EDIT, after="x" * (MAX_ITEM_BYTES + 1)), "text"),
        (REWRITING, Decision(Verdict.ACCEPT, after="x"), "text"),
        (REWRITING, Decision(Verdict.ACCEPT, reason="x" * 10_001), "reason"),
        # Nobody has proposed an answer that could be accepted.
        (CANDIDATE, ACCEPT, "decision"),
    ],
)
async def test_a_decision_that_does_not_fit_the_item_names_its_field(
    reviews: Reviews, item: NewItem, decision: Decision, field: str
) -> None:
    await reviews.add([item])
    shown = await claim(reviews, item.kind)
    with pytest.raises(InvalidField) as refused:
        await reviews.decide(shown.id, 1, decision)
    assert refused.value.field == field
    assert (await reviews.list_queues())[item.kind] == (1, 0)
