"""Answer data: several models answer from the same numbered material, and a tournament chooses."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from fathom.domain.chat.pipeline import COMPOSE
from fathom.domain.text.markup import count_visible, list_citations
from fathom.trainers.data.instructions import name_instruction
from fathom.trainers.data.queries.asking import Asker
from fathom.trainers.data.stages.episodes import Episode, StageCall
from fathom.trainers.data.stages.record import Record, make_id, make_message, read_prompt, update
from fathom.trainers.data.stages.running import Task
from fathom.trainers.data.stages.tournament import Candidate, Standings, play

# Even answers teach nothing: of all points, the best must have this much more than the worst.
MARGIN = 0.5


@dataclass(frozen=True)
class Band:
    """Characters that a reader sees of an answer: shorter ones say too little, longer ones invent."""

    least: int = 1_000
    most: int = 1_500

    def describe_miss(self, answer: str) -> str:
        """Return why an answer is outside of the band; "" within it."""
        count = count_visible(answer)
        if self.least <= count <= self.most:
            return ""
        return f"{count:,} visible characters, {self.least:,} to {self.most:,} are wanted"


def make_tasks(episodes: Sequence[Episode], writers: Sequence[Asker], judge: Asker, band: Band) -> list[Task[Record]]:
    """Return a task per episode that came to its answer."""
    calls = ((episode, episode.find(COMPOSE)) for episode in episodes)
    return [make_task(episode, call, writers, judge, band) for episode, call in calls if call is not None]


def make_task(episode: Episode, call: StageCall, writers: Sequence[Asker], judge: Asker, band: Band) -> Task[Record]:
    """Return the task of one question: its answers, and the choice among them."""
    # The band is a part of the id, so that another one makes its own rows instead of finding these done.
    name = make_id("answer", episode.id, *(writer.model for writer in writers), band)

    async def make() -> Record:
        candidates = await write_answers(call, writers)
        base = Record(
            id=name,
            stage="answer",
            status="dropped",
            reason="no model wrote an answer",
            language=episode.language,
            source=episode.source,
            parents=(episode.id,),
            messages=call.messages,
        )
        if not candidates:
            return base
        standings = await play(episode.question, read_material(call), candidates, judge)
        return choose(base, standings, judge, band)

    return Task(name, make)


async def write_answers(call: StageCall, writers: Sequence[Asker]) -> list[Candidate]:
    """Return the distinct answers to the stage's own prompt; the first writer of a text has it."""
    messages = [make_message(turn) for turn in call.messages]
    # All at once, since the writers are other models and none needs to wait for another.
    answers = await asyncio.gather(*(writer.write(messages, seed=0) for writer in writers))
    found: dict[str, Candidate] = {}
    for writer, answer in zip(writers, answers, strict=True):
        if answer:
            # A text of two writers is one candidate: compared with itself it would only draw the shares together.
            found.setdefault(answer, Candidate(writer.version, answer))
    return list(found.values())


def choose(base: Record, standings: Standings, judge: Asker, band: Band) -> Record:
    """Return the row of the best answer, with the worst as its worse side where the judge was sure of it."""
    # A single candidate is its own worst one: the margin is 0 then, and no pair is made.
    best, worst = standings.places[0], standings.places[-1]
    tags: dict[str, str | int | float | bool] = {
        "candidates": len(standings.places),
        "share": round(best.share, 4),
        "contradicted": standings.contradicted,
        "unread": standings.unread,
        **{name: round(value, 4) for name, value in best.scores.items()},
    }
    is_sure = best.share - worst.share >= MARGIN
    # Whoever learnt from answers that found nothing would learn to refuse.
    miss = "" if list_citations(best.candidate.answer) else "it cites nothing of the material"
    miss = miss or band.describe_miss(best.candidate.answer)
    reason = miss or (f"preferred to {worst.candidate.writer}" if is_sure else "no answer is clearly better")
    return update(
        base,
        status="rejected" if miss else "accepted",
        reason=reason,
        made_by=best.candidate.writer,
        judged_by=judge.version if len(standings.places) > 1 else "",
        instructions=(name_instruction("comparison", "en"),) if len(standings.places) > 1 else (),
        tags=tags,
        output=best.candidate.answer,
        rejected=worst.candidate.answer if is_sure else "",
    )


def read_material(call: StageCall) -> str:
    """Return the numbered material of the stage's prompt."""
    asked = read_prompt(call.messages)
    return asked["material"] if asked is not None else ""
