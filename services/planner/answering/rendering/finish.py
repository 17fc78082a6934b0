"""Final stage of an episode: verify the draft, request a correction, draw figures, build the answer."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from fathom.core.errors import FathomError
from fathom.domain.chat.messages import Message, Role
from fathom.domain.chat.quoting import neutral, quote
from fathom.domain.text.markup import count_visible
from fathom.services.planner.answering.calculation import drop_misreadings
from fathom.services.planner.answering.parsing import Event, FigureBlock, parse
from fathom.services.planner.answering.rendering.citations import resolve_citations
from fathom.services.planner.answering.rendering.coder import PolicyJudge
from fathom.services.planner.answering.rendering.figures import DrawnFigure, Figures
from fathom.services.planner.answering.rendering.material import list_material
from fathom.services.planner.answering.rendering.missing import append_missing, drop_nameless
from fathom.services.planner.answering.rendering.report import find_missing_sections, is_report
from fathom.services.planner.answering.rendering.skeleton import Skeleton, place_omissions
from fathom.services.planner.answering.verification.causes import label_answer
from fathom.services.planner.answering.verification.claims import parse_sentences
from fathom.services.planner.answering.verification.evidence import Evidence, Source
from fathom.services.planner.answering.verification.review import (
    find_repeated,
    find_uncited,
    find_unresolved,
    mark_unchecked,
    render_markdown,
)
from fathom.services.planner.answering.verification.typed.marking import ClaimMarks, mark_claims
from fathom.services.planner.answering.verification.verifier import Verifier
from fathom.services.planner.classification.classifier import Classifier
from fathom.services.planner.model.episode import Answer, Episode, Finding, FindingKind, Material, MaterialKind

CHECKED = "Your answer was checked against its material, and these places do not hold."
AGAIN, AGAIN_IN_TEXT = "call `finish` with the whole answer again", "write the whole answer again"
HOW = (
    "Mend them and {again}. Cite with [n] what supports a statement, show a table"
    " with {{{{table:…}}}}, and leave out what no material says; name it as missing instead."
)
MENDED = frozenset(FindingKind) - {FindingKind.REPEATED, FindingKind.FIGURE, FindingKind.UNCHECKED, FindingKind.LENGTH}
"""Kinds of findings that are worth a correction."""
# A model that gets more findings at once rewrites the answer instead of correcting it.
MAX_LISTED = 20
RESERVE_S = 15.0
"""Seconds that must be left before the deadline for a correction to be requested."""


class Ending(Protocol):
    """Strategy that turns the final text into an answer or a correction request; raises ``FathomError``."""

    async def finish(self, text: str, episode: Episode, last: bool) -> Answer | Message:
        """Return the answer, or a message that requests a correction; never a message when ``last`` is True."""
        ...


@dataclass(frozen=True)
class LengthBand:
    """Characters that a reader is to see of an answer; 0 leaves a side open."""

    least: int = 0
    most: int = 0

    def find_miss(self, markdown: str) -> list[Finding]:
        """Return the finding of an answer outside of the band, at its end; [] within it."""
        count, end = count_visible(markdown), len(markdown)
        if count >= self.least and (count <= self.most or not self.most):
            return []
        bound = f"at least {self.least:,}" if count < self.least else f"at most {self.most:,}"
        return [Finding(end, end, FindingKind.LENGTH, "", f"{count:,} visible characters; {bound} are wanted")]


class CitedEnding:
    """Ending that only resolves citations, for protocols whose answers are graded as text."""

    async def finish(self, text: str, episode: Episode, last: bool) -> Answer:
        checked = resolve_citations(text, [material.number for material in episode.material])
        model = episode.steps[-1].completion.model
        return Answer(checked.markdown, checked.cited, checked.unresolved, model)


@dataclass
class CheckedEnding:
    """Ending that verifies a draft, requests at most one correction, draws figures, and marks remaining findings."""

    evidence: Evidence
    figures: Figures | None = None
    judge: PolicyJudge | None = None
    """Optional model that reads statements as typed claims; without it verification calls no model."""
    correct: bool = True
    material_tokens: int = 3_000
    classifier: Classifier | None = None
    """Classifier of clauses; without it causes are found by their conjunctions only."""
    band: LengthBand = field(default_factory=LengthBand)
    """Length that answers are to have; a miss is only marked, since a correction for length alone invents or loses."""
    _judged: dict[str, ClaimMarks] = field(default_factory=dict)

    async def finish(self, text: str, episode: Episode, last: bool) -> Answer | Message:
        """Return the answer, or a correction request, at most once per episode."""
        review = await self.review(text, episode, last)
        return await self.build(text, episode) if review is None else review

    async def review(self, text: str, episode: Episode, last: bool) -> Message | None:
        """Return a correction request for a draft that does not hold, at most once per episode."""
        if self.correct and not last and has_room_for_correction(episode):
            wrong = find_unresolved(parse(text), episode.material)
            doubts = sorted(
                [*wrong, *await self._check(text, episode), *find_omissions(text, episode)],
                key=lambda mark: (mark.start, mark.end),
            )
            worth = [mark for mark in doubts if mark.kind in MENDED]
            # Without material there is nothing to correct the answer by.
            if worth and any(item.kind is not MaterialKind.MISSING for item in episode.material):
                return request_correction(worth, episode, self.material_tokens)
        return None

    async def build(self, text: str, episode: Episode) -> Answer:
        """Return the answer with its figures drawn and its remaining findings marked."""
        events = parse(text)
        # Found in the draft: once the answer is rendered, unknown citations are gone.
        return await self._build_answer(events, list(find_unresolved(events, episode.material)), episode)

    async def _build_answer(self, events: Sequence[Event], wrong: Sequence[Finding], episode: Episode) -> Answer:
        blocks = [event for event in events if isinstance(event, FigureBlock)]
        drawn = await self.figures.draw(blocks, episode) if self.figures is not None else []
        material = [*episode.material, *(record for done in drawn for record in done.records)]
        shown, failed = place_figures(events, drawn)
        markdown, cited, unresolved = render_markdown(shown, {item.number for item in material})
        omitted = find_omissions(markdown, episode)
        # Graders of rollouts read a report as the model wrote it.
        if is_report(markdown, episode) and not episode.task.is_rollout:
            markdown = Skeleton(markdown, episode.task.question, episode.material).complete()
            cited = resolve_citations(markdown, {item.number for item in material}).cited
        found_material = drop_nameless(drop_misreadings(episode.material, episode), episode, cited)
        # Before the line of what is missing, which is the product's and not the model's.
        misses = self.band.find_miss(markdown)
        markdown = append_missing(markdown.strip(), found_material, episode.task.question)
        extended = extend_material(material, episode)
        found = [
            *await self._check(markdown, episode, extended),
            *(mark for mark in find_unresolved(parse(markdown), material)),
            *mark_removed_citations(wrong, markdown),
            *mark_failed_figures(markdown, failed),
            *place_omissions(omitted, markdown),
            *(replace(mark, start=len(markdown), end=len(markdown)) for mark in misses),
        ]
        # A figure, also a failed one, cites the last cell that was run for it.
        drawn_by = {done.records[-1].number for done in drawn if done.records}
        cited = tuple(sorted({*cited, *drawn_by, *find_cited_missing(markdown, episode.material)}))
        return Answer(
            markdown,
            cited,
            unresolved,
            episode.steps[-1].completion.model,
            tuple(sorted(found, key=lambda mark: (mark.start, mark.end))),
            tuple(record for done in drawn for record in done.records),
        )

    async def _check(self, markdown: str, episode: Episode, material: Sequence[Material] = ()) -> list[Finding]:
        """Return the findings of all checks of a text."""
        known = material or episode.material
        sources = await self.evidence.gather(known)
        labels = await label_answer(markdown, sources, self.classifier)
        verifier = Verifier(collect_user_text(episode), sources, labels)
        # Pure computation, in a thread: other episodes must stream meanwhile.
        found = list(await asyncio.to_thread(verifier.verify, markdown))
        found += [*find_uncited(markdown, known, labels), *find_repeated(markdown), *mark_unchecked(markdown, labels)]
        if self.judge is None:
            return [*found, *await asyncio.to_thread(verifier.list_unchecked, markdown, found)]
        return await self._judge_claims(self.judge, markdown, episode, found, sources)

    async def _judge_claims(
        self,
        judge: PolicyJudge,
        markdown: str,
        episode: Episode,
        found: Sequence[Finding],
        sources: Sequence[Source],
    ) -> list[Finding]:
        """Return the findings with those of the claims that the judge model reads, and without what claims settle.

        It is asked once per text. Where it fails, the findings stand, and a further one says so.
        """
        # A draft without findings is checked again as the answer, mostly unchanged: the judge is asked once per text.
        if markdown not in self._judged:
            cited = [s for s in parse_sentences(markdown) if s.own and not s.heading and not s.row]
            try:
                claims = await judge.read_claims(episode, markdown, cited) if cited else []
            # The judge is an extra: an answer must not fail because of it.
            except FathomError:
                claims = None
            self._judged[markdown] = (
                await asyncio.to_thread(mark_claims, markdown, cited, claims, sources)
                if claims is not None
                else make_unread(markdown)
            )
        return self._judged[markdown].merge(found)


def make_unread(markdown: str) -> ClaimMarks:
    """Return the finding at the end of a text whose claims no model has read."""
    end = len(markdown)
    why = "the model that reads claims gave none: causes and comparisons were checked by their words only"
    return ClaimMarks(unchecked=[Finding(end, end, FindingKind.UNCHECKED, "", why)])


def find_omissions(markdown: str, episode: Episode) -> list[Finding]:
    """Return the sections that a report lacks; [] for another answer."""
    return find_missing_sections(markdown, episode.task.question) if is_report(markdown, episode) else []


def collect_user_text(episode: Episode) -> str:
    """Return the question and the user's earlier messages, whose numbers and dates need no source."""
    earlier = [message.content for message in episode.task.history if message.role is Role.USER]
    return "\n".join([*earlier, episode.task.question])


def extend_material(material: Sequence[Material], episode: Episode) -> Sequence[Material]:
    """Return the material including figure records, or () when there are none."""
    return material if len(material) > len(episode.material) else ()


def has_room_for_correction(episode: Episode) -> bool:
    """Return whether no correction has been requested yet and enough time is left for another draft."""
    asked = any(CHECKED in message.content for step in episode.steps for message in step.new_messages)
    return not asked and episode.task.limits.deadline - time.monotonic() > RESERVE_S


def request_correction(doubts: Sequence[Finding], episode: Episode, tokens: int) -> Message:
    """Return the list of findings as the result of the ``finish`` call, together with the material."""
    # Missing sections stand at the end of the text; they must not fall off the list.
    ordered = sorted(doubts, key=lambda mark: mark.kind is not FindingKind.SECTION)
    lines = [
        f"- {mark.kind.value.replace('_', ' ')}: {mark.text.strip()[:200]!r}: {mark.detail}"
        for mark in ordered[:MAX_LISTED]
    ]
    if len(doubts) > MAX_LISTED:
        lines.append(f"- and {len(doubts) - MAX_LISTED} more")
    head = json.dumps({"tool": "finish", "status": "invalid", "error": CHECKED}, ensure_ascii=False)
    how = HOW.format(again=AGAIN if episode.steps[-1].stage is None else AGAIN_IN_TEXT)
    body = "\n".join(
        [*map(neutral, lines), "", how, "", "# Material", quote(list_material(episode.material, tokens).text)]
    )
    calls = episode.steps[-1].completion.tool_calls
    # As the result of the call, where there is one: endpoints refuse a call without a result.
    if calls:
        return Message(Role.TOOL, f"{head}\n\n{body}", tool_call_id=calls[0].id)
    return Message(Role.USER, f"{CHECKED}\n\n{body}")


def place_figures(events: Sequence[Event], drawn: Sequence[DrawnFigure]) -> tuple[list[Event], list[DrawnFigure]]:
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
    # Parsed again, so that inserted references are resolved and offsets are those of the new text.
    return parse(text), [done for done in drawn if done.error]


def mark_removed_citations(wrong: Sequence[Finding], markdown: str) -> list[Finding]:
    """Return findings for removed citations, positioned at the end of the text because their place is gone."""
    gone = [mark for mark in wrong if mark.text.startswith("[")]
    end = len(markdown)
    return [replace(mark, start=end, end=end, detail=f"removed {mark.text}: {mark.detail}") for mark in gone]


def mark_failed_figures(markdown: str, failed: Sequence[DrawnFigure]) -> list[Finding]:
    """Return a finding for each figure that could not be drawn, at its placeholder."""
    out = []
    for done in failed:
        chip = done.markdown.partition("\n")[0]
        start = max(0, markdown.find(chip))
        out.append(Finding(start, start + len(chip), FindingKind.FIGURE, chip, done.error))
    return out


def find_cited_missing(markdown: str, material: Sequence[Material]) -> set[int]:
    """Return the numbers of missing-data records that the text cites, including those in the appended line."""
    numbers = {item.number for item in material if item.kind is MaterialKind.MISSING}
    return numbers & set(resolve_citations(markdown, numbers).cited)
