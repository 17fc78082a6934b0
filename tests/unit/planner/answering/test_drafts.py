"""Test what readers have of an answer while it is written: each piece once, whichever worker wrote it; taken back."""

from __future__ import annotations

import asyncio
import io
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

import pytest
from rich.console import Console

from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.api.planner.v1 import trajectory_pb2 as trajectory
from fathom.cli.ask import print_trace
from fathom.services.planner.answering.parsing import parse
from fathom.services.planner.answering.rendering.drafting import Draft
from fathom.services.planner.answering.verification.review import render_markdown
from fathom.services.planner.engine import Engine
from fathom.services.planner.runs.log.events import EventLog
from tests.support.clock import pass_time, simulate_time
from tests.support.policy import FakePolicy, PolicyRequest
from tests.support.waiting import eventually
from tests.unit.planner.house import House, echo, finish, numbers

TEXTS = [
    "Plain words, 12.5 % of it [1].", "Lists [1, 2] and [2](http://a.b) and [9].", "Code `[1]` and\n\n```\n[1] <b>\n```\nend",
    "HTML <script>x</script> &amp; \\<b> and 3 < 4", "{{table:sheet_1}}\n\n{{figure:fig_1}} 苹果上涨😀[2]。", "[", "<fig", "``",
]  # fmt: skip


def read(events: Sequence[pb.RunEvent]) -> str:
    text = ""
    for event in events:
        text = "" if event.HasField("answer_replaced") else text + event.answer_delta.text
    return text


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("seed", range(6))
def test_a_draft_reads_as_the_checked_text_does(text: str, seed: int) -> None:
    """Prefixes all the way, and in the end what ``resolved`` makes of the whole, wherever the call was cut."""
    wanted = render_markdown(parse(text), {1, 2})[0].strip()
    call, draft, random_, out = finish(f"  {text}\n"), Draft.of({1, 2}, prose=False), random.Random(seed), ""
    while call:
        cut = random_.randint(1, 7)
        out += draft.feed(call[:cut])
        assert wanted.startswith(out)
        call = call[cut:]
    assert out + draft.end() == wanted


def test_a_figures_code_is_no_text() -> None:
    draft = Draft.of({1}, prose=True)
    text = "Before [1].\n\n<figure>\n```python\npx.line(x)\n```\n</figure>\n\nBehind."
    assert draft.feed(finish(text)) + draft.end() == "Before [1].\n\n\n\nBehind."


@dataclass
class Typist(FakePolicy):
    """Says its lines piece by piece, and stands still once in the middle of a line, until it is released."""

    lines: Sequence[str]
    hold: int = -1
    held: asyncio.Event = field(default_factory=asyncio.Event)
    release: asyncio.Event = field(default_factory=asyncio.Event)

    async def write(self, request: PolicyRequest) -> str:
        line = self.lines[request.index]
        for start in range(0, len(line), 8):
            if request.index == self.hold and start > len(line) // 2:
                self.held.set()
                await self.release.wait()
            if request.hear is not None:
                request.hear(line[start : start + 8])
            await pass_time(0.005)
        return line


ANSWER = "This is the answer, and it is long enough to be written in several pieces [1]. " * 3


@pytest.mark.parametrize("second", [ANSWER, "Another answer altogether, sampled anew [1]. " * 3], ids=["same", "other"])
@simulate_time
async def test_a_lost_workers_draft_is_gone_on_with_or_taken_back(second: str) -> None:
    house = House()
    first = Typist((echo("a"), finish(ANSWER)), hold=1)
    after = Typist((echo("a"), finish(second)))
    await house.ask()
    async with house.working(house.worker(lambda: Engine(lambda protocol: first, house.stage))):
        await asyncio.wait_for(first.held.wait(), 5)
        await house.events(until="answer_delta")
    async with house.working(house.worker(lambda: Engine(lambda protocol: after, house.stage))):
        events = await house.events()
    finished = events[-1].finished
    assert finished.stop_reason == trajectory.STOP_REASON_FINISHED, finished.error
    assert finished.answer.markdown == second.strip()
    assert read(events) == second.strip()
    assert numbers(events) == list(range(1, len(events) + 1))
    replaced = [event.answer_replaced.why for event in events if event.HasField("answer_replaced")]
    assert replaced == ([] if second == ANSWER else ["again"])
    assert sum(event.answer_delta.draft for event in events) >= 2


@simulate_time
async def test_a_draft_that_was_no_answer_is_taken_back() -> None:
    """Prose before a call, in the round after a word of correction, when prose would have been taken for the answer."""
    house = House()
    typist = Typist(("", "I will look. " + echo("a"), finish("Done [1].")))
    await house.ask()
    async with house.working(house.worker(lambda: Engine(lambda protocol: typist, house.stage))):
        events = await house.events()
    told = [event.answer_replaced.why for event in events if event.HasField("answer_replaced")]
    assert told == ["dropped"]
    assert read(events) == "Done [1]."


@simulate_time
async def test_a_stopped_run_leaves_no_draft_behind() -> None:
    house = House()
    typist = Typist((echo("a"), finish(ANSWER)), hold=1)
    await house.ask()
    async with house.working(house.worker(lambda: Engine(lambda protocol: typist, house.stage))) as _:
        await asyncio.wait_for(typist.held.wait(), 5)
        await house.runs.stop("run_1")
        events = await house.events()
    assert events[-1].finished.stop_reason == trajectory.STOP_REASON_STOPPED
    assert read(events) == ""


async def test_what_readers_have_is_not_sent_again() -> None:
    house = House()
    events = EventLog(house.bus, "run_9")
    await events.acquire(1)
    events.publish_answer("One ", 2, draft=True)
    events.publish_answer("One two", 2, draft=True)
    events.publish_answer("One", 2, draft=True)  # on its way to where it was
    events.publish_answer("One two three", 2, draft=False)
    events.publish_answer("Else", 3, draft=False)
    events.publish(finished=pb.RunFinished())
    await events.flush()
    found = await house.events("run_9")
    assert [event.answer_delta.text or event.answer_replaced.why for event in found[:-1]] == [
        "One ", "two", " three", "checked", "Else",
    ]  # fmt: skip


async def render_events(*events: pb.RunEvent) -> str:
    """Return the output of ``fathom ask`` for these events on a terminal."""

    async def source() -> object:
        for event in events:
            yield event
            await eventually(partial(is_shown, event.answer_delta.text.partition("\n")[0]))

    def is_shown(text: str) -> bool:
        return text in output.getvalue()

    output = io.StringIO()
    console = Console(file=output, force_terminal=True, width=80, color_system=None)
    await print_trace(source(), console, "")  # type: ignore[arg-type]
    return output.getvalue()


async def test_the_terminal_shows_the_draft_and_then_only_the_answer() -> None:
    answer = trajectory.Answer(markdown="The right answer.")
    printed = await render_events(
        pb.RunEvent(answer_delta=pb.AnswerDelta(text="A wrong\ndraft", draft=True)),
        pb.RunEvent(answer_replaced=pb.AnswerReplaced(why="correction")),
        pb.RunEvent(answer_delta=pb.AnswerDelta(text="The right", draft=True)),
        pb.RunEvent(finished=pb.RunFinished(answer=answer)),
    )
    assert "A wrong" in printed
    assert "is being corrected" in printed
    assert printed.index("A wrong") < printed.index("is being corrected") < printed.rindex("The right answer.")
    assert printed.count("The right answer.") == 1
