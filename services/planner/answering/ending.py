"""Final stage of an episode: verify the draft, request a correction, draw figures, build the answer."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from fathom.errors import FathomError
from fathom.protocol.messages import Message, Role
from fathom.protocol.quoting import neutral, quoted
from services.planner.answering.citations import check_citations
from services.planner.answering.claims import sentences_of
from services.planner.answering.coder import PolicyJudge
from services.planner.answering.evidence import Evidence
from services.planner.answering.figures import Drawn, Figures
from services.planner.answering.material import listing
from services.planner.answering.missing import with_missing
from services.planner.answering.parsing import Event, FigureBlock, parse
from services.planner.answering.review import repeated_marks, resolved, typed_tables, uncited_marks, unresolved_marks
from services.planner.answering.verifier import Verifier
from services.planner.model import Answer, Doubt, Episode, Kind, Mark, Material

CHECKED = "Your answer was checked against its material, and these places do not hold."
AGAIN, AGAIN_IN_TEXT = "call `finish` with the whole answer again", "write the whole answer again"
HOW = (
    "Mend them and {again}. Cite with [n] what supports a statement, show a table"
    " with {{{{table:…}}}}, and leave out what no material says; name it as missing instead."
)
MENDED = frozenset(Doubt) - {Doubt.REPEATED, Doubt.FIGURE}
"""Kinds of findings that are worth a correction."""
MAX_LISTED = 20
RESERVE_S = 15.0
"""Seconds that must be left before the deadline for a correction to be requested."""


class Ending(Protocol):
    """Strategy that turns the final text into an answer or a correction request; raises ``FathomError``."""

    async def finish(self, text: str, episode: Episode, last: bool) -> Answer | Message:
        """Return the answer, or a message that requests a correction; never a message when ``last`` is True."""
        ...


class CitedEnding:
    """Ending that only resolves citations, for protocols whose answers are graded as text."""

    async def finish(self, text: str, episode: Episode, last: bool) -> Answer:
        checked = check_citations(text, [material.number for material in episode.material])
        model = episode.steps[-1].completion.model
        return Answer(checked.markdown, checked.cited, checked.unresolved, model)


@dataclass
class CheckedEnding:
    """Ending that verifies a draft, requests at most one correction, draws figures, and marks remaining findings."""

    evidence: Evidence
    figures: Figures | None = None
    judge: PolicyJudge | None = None
    """Optional model that also judges events; without it verification calls no model."""
    correct: bool = True
    material_tokens: int = 3_000
    _judged: dict[str, tuple[Mark, ...]] = field(default_factory=dict)

    async def finish(self, text: str, episode: Episode, last: bool) -> Answer | Message:
        """Return the answer, or a correction request, at most once per episode."""
        events = parse(text)
        wrong = list(unresolved_marks(events, episode.material))
        if self.correct and not last and room_for_correction(episode):
            doubts = sorted([*wrong, *await self._doubts(text, episode)], key=lambda mark: (mark.start, mark.end))
            worth = [mark for mark in doubts if mark.kind in MENDED]
            if worth and any(item.kind is not Kind.MISSING for item in episode.material):
                return correction(worth, episode, self.material_tokens)
        return await self._answer(events, wrong, episode)

    async def _answer(self, events: Sequence[Event], wrong: Sequence[Mark], episode: Episode) -> Answer:
        blocks = [event for event in events if isinstance(event, FigureBlock)]
        drawn = await self.figures.draw(blocks, episode) if self.figures is not None else []
        material = [*episode.material, *(record for done in drawn for record in done.records)]
        shown, failed = placed(events, drawn)
        markdown, cited, unresolved = resolved(shown, {item.number for item in material})
        markdown = with_missing(markdown.strip(), episode.material, episode.task.question)
        extended = replace_material(material, episode)
        found = [
            *await self._doubts(markdown, episode, extended),
            *(mark for mark in unresolved_marks(parse(markdown), material)),
            *removed(wrong, markdown),
            *failures(markdown, failed),
        ]
        drawn_by = {done.records[-1].number for done in drawn if done.records}
        cited = tuple(sorted({*cited, *drawn_by, *missing_cited(markdown, episode.material)}))
        return Answer(
            markdown,
            cited,
            unresolved,
            episode.steps[-1].completion.model,
            tuple(sorted(found, key=lambda mark: (mark.start, mark.end))),
            tuple(record for done in drawn for record in done.records),
        )

    async def _doubts(self, markdown: str, episode: Episode, material: Sequence[Material] = ()) -> list[Mark]:
        """Return the findings of all checks of a text."""
        known = material or episode.material
        sources = await self.evidence.gather(known)
        verifier = Verifier(said_by_user(episode), sources)
        found = list(await asyncio.to_thread(verifier.verify, markdown))
        found += [*uncited_marks(markdown, known), *typed_tables(markdown), *repeated_marks(markdown)]
        return [*found, *await self._judgements(markdown, episode, found)]

    async def _judgements(self, markdown: str, episode: Episode, found: Sequence[Mark]) -> tuple[Mark, ...]:
        """Return events that the judge model does not find in the material.

        Asked once per text, empty when the judge fails.
        """
        if self.judge is None:
            return ()
        if markdown not in self._judged:
            cited = [s for s in sentences_of(markdown) if s.own and not s.heading and not s.row]
            clean = [s for s in cited if not any(s.start <= mark.start < s.end for mark in found)]
            try:
                positions = await self.judge.unsupported(episode, [s.text.strip() for s in clean])
            except FathomError:
                positions = frozenset()
            self._judged[markdown] = tuple(
                Mark(s.start, s.start + len(s.text.rstrip()), Doubt.EVENT,
                     markdown[s.start : s.start + len(s.text.rstrip())],
                     "a second model does not find this event in the material", s.cited)
                for index, s in enumerate(clean) if index in positions
            )  # fmt: skip
        return self._judged[markdown]


def said_by_user(episode: Episode) -> str:
    """Return the question and the user's earlier messages, whose numbers and dates need no source."""
    earlier = [message.content for message in episode.task.history if message.role is Role.USER]
    return "\n".join([*earlier, episode.task.question])


def replace_material(material: Sequence[Material], episode: Episode) -> Sequence[Material]:
    """Return the material including figure records, or () when there are none."""
    return material if len(material) > len(episode.material) else ()


def room_for_correction(episode: Episode) -> bool:
    """Return whether no correction has been requested yet and enough time is left for another draft."""
    asked = any(CHECKED in message.content for step in episode.steps for message in step.new_messages)
    return not asked and episode.task.limits.deadline - time.monotonic() > RESERVE_S


def correction(doubts: Sequence[Mark], episode: Episode, tokens: int) -> Message:
    """Return the list of findings as the result of the ``finish`` call, together with the material."""
    lines = [
        f"- {mark.kind.value.replace('_', ' ')}: {mark.text.strip()[:200]!r}: {mark.detail}"
        for mark in doubts[:MAX_LISTED]
    ]
    if len(doubts) > MAX_LISTED:
        lines.append(f"- and {len(doubts) - MAX_LISTED} more")
    head = json.dumps({"tool": "finish", "status": "invalid", "error": CHECKED}, ensure_ascii=False)
    how = HOW.format(again=AGAIN if episode.steps[-1].stage is None else AGAIN_IN_TEXT)
    body = "\n".join([*map(neutral, lines), "", how, "", "# Material", quoted(listing(episode.material, tokens).text)])
    calls = episode.steps[-1].completion.tool_calls
    if calls:
        return Message(Role.TOOL, f"{head}\n\n{body}", tool_call_id=calls[0].id)
    return Message(Role.USER, f"{CHECKED}\n\n{body}")


def placed(events: Sequence[Event], drawn: Sequence[Drawn]) -> tuple[list[Event], list[Drawn]]:
    """Replace figure blocks by their results; return the reparsed events and the failed figures."""
    waiting = list(drawn)
    text, after_figure = "", False
    for event in events:
        if isinstance(event, FigureBlock) and waiting:
            text = f"{text.rstrip()}\n\n{waiting.pop(0).markdown}\n\n".lstrip("\n")
            after_figure = True
        else:
            text += event.source.lstrip("\n") if after_figure else event.source
            after_figure = False
    # What was put in is Markdown like the rest: its references are read, and offsets are those of the new text.
    return parse(text), [done for done in drawn if done.error]


def removed(wrong: Sequence[Mark], markdown: str) -> list[Mark]:
    """Return findings for removed citations, positioned at the end of the text because their place is gone."""
    gone = [mark for mark in wrong if mark.text.startswith("[")]
    end = len(markdown)
    return [replace(mark, start=end, end=end, detail=f"removed {mark.text}: {mark.detail}") for mark in gone]


def failures(markdown: str, failed: Sequence[Drawn]) -> list[Mark]:
    """Return a finding for each figure that could not be drawn, at its placeholder."""
    out = []
    for done in failed:
        chip = done.markdown.partition("\n")[0]
        start = max(0, markdown.find(chip))
        out.append(Mark(start, start + len(chip), Doubt.FIGURE, chip, done.error))
    return out


def missing_cited(markdown: str, material: Sequence[Material]) -> set[int]:
    """Return the numbers of missing-data records that the text cites, including those in the appended line."""
    numbers = {item.number for item in material if item.kind is Kind.MISSING}
    return numbers & set(check_citations(markdown, numbers).cited)
