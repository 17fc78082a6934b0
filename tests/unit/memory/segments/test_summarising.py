"""Summaries: by a model or of chosen sentences, each with its turns, once, and not of a segment that has changed."""

from __future__ import annotations

from collections.abc import Callable

from fathom.core.errors import DependencyFailed
from fathom.services.memory.segments.summarising import MAX_SUMMARY_CHARS
from tests.unit.memory.segments.conftest import Memory


class Scripted:
    """Writer that says a line, or fails; ``meanwhile`` runs while it writes."""

    name = "writer"

    def __init__(self, line: str = "Bullion was discussed.", meanwhile: Callable[[], object] | None = None) -> None:
        self.line, self.meanwhile, self.asked = line, meanwhile, []  # type: str, object, list[tuple[str, str]]

    async def write(self, request_id: str, dialogue: str) -> str:
        self.asked.append((request_id, dialogue))
        if callable(self.meanwhile):
            await self.meanwhile()
        if not self.line:
            raise DependencyFailed("policy", "is away")
        return self.line


async def summary_of(memory: Memory) -> tuple[str, str, tuple[tuple[str, int], ...]]:
    (one,) = (await memory.search("bullion")).segments
    return one.segment.summary, one.segment.written_by, one.segment.sources


async def test_a_model_writes_once_per_growth_and_names_its_turns(memory: Memory) -> None:
    writer = Scripted()
    middle = memory.make(writer=writer)
    await memory.say("What did bullion do in 2010?", "It rose.")
    await memory.file()
    assert await middle.summarise() == 1
    assert await middle.summarise() == 0
    assert await summary_of(memory) == ("Bullion was discussed.", "writer", (("c", 1),))
    await memory.say("What did bullion do in 2011?", "It rose, too.")
    await memory.file()
    assert await middle.summarise() == 1
    assert (await summary_of(memory))[2] == (("c", 1), ("c", 2))
    # A replica that lost its answer asks for the same again, and policy knows the request.
    assert len({request for request, _ in writer.asked}) == len(writer.asked) == 2
    assert "It rose, too." in writer.asked[1][1]


async def test_sentences_are_chosen_where_no_model_writes(memory: Memory) -> None:
    await memory.say("What did bullion do?", "A long story. It rose by 5.5% in all.")
    await memory.file()
    assert await memory.make(writer=Scripted("")).summarise() == 1
    text, written_by, sources = await summary_of(memory)
    assert (text, written_by, sources) == ("What did bullion do? — It rose by 5.5% in all.", "", (("c", 1),))


async def test_what_grew_while_its_summary_was_written_is_summarised_again(memory: Memory) -> None:
    await memory.say("What did bullion do in 2010?", "It rose.")
    await memory.file()

    async def grow() -> None:
        await memory.say("What did bullion do in 2011?", "It rose, too.")
        await memory.file()

    await memory.make(writer=Scripted(meanwhile=grow)).summarise()
    assert (await summary_of(memory))[0] == ""
    assert await memory.make(writer=Scripted()).summarise() == 1
    assert (await summary_of(memory))[2] == (("c", 1), ("c", 2))


async def test_a_summary_is_bounded(memory: Memory) -> None:
    for number in range(20):
        await memory.say(f"What did bullion do in {2000 + number}? {'why ' * 40}", f"It rose by {number}%. " * 30)
    await memory.file()
    await memory.middle.summarise()
    for one in (await memory.search("bullion", top_k=50)).segments:
        assert 0 < len(one.segment.summary) <= MAX_SUMMARY_CHARS
        assert one.segment.sources
