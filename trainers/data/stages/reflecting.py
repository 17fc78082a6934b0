"""Reflection data: what a second collection asked for is matched against what the first one found already."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from fathom.domain.chat.pipeline import REFLECT
from fathom.domain.chat.quoting import write_sections
from fathom.domain.chat.tolerant import read_object
from fathom.trainers.data.instructions import instruction, name_instruction
from fathom.trainers.data.queries.asking import Asker
from fathom.trainers.data.stages.episodes import Episode, StageCall
from fathom.trainers.data.stages.record import Record, make_id, read_prompt, update
from fathom.trainers.data.stages.running import Task

if TYPE_CHECKING:
    from fathom.domain.encoders.base import Encoder

Wanted = dict[str, list[str]]
"""Queries by tool, as the stage writes them."""
# Results of the stage's prompt: "2. [search] why did … => ok", then the text.
RESULT = re.compile(r"^\d+\. \[\w+\] .* => \w+$", re.MULTILINE)
# Characters of a passage, passages that the judge sees of a query, and the fewest characters that say anything.
PASSAGE_CHARS, SHOWN, LEAST_CHARS = 600, 3, 20
# Other queries for one that the material answers; a model that finds none in two attempts has none.
ATTEMPTS = 2


class Missing(BaseModel):
    """A model's reply: whether the nearest passages lack what a query asks for."""

    model_config = ConfigDict(title="fathom.data.missing")

    reason: str = Field(min_length=1)
    is_missing: bool


class OtherQuery(BaseModel):
    """A model's reply: another query, or "" when nothing else is needed."""

    model_config = ConfigDict(title="fathom.data.other_query")

    query: str = Field(max_length=400)


@dataclass(frozen=True)
class Matcher:
    """Finds the passages of the material that are nearest to a query, and asks whether they answer it."""

    encoder: Encoder
    judge: Asker
    threshold: float = 0.8
    """Similarity from which a passage may answer a query; below it the query is kept unasked."""

    def find_near(self, query: str, passages: Sequence[str]) -> list[str]:
        """Return the passages above the threshold, the nearest first."""
        if not passages:
            return []
        asked = self.encoder.encode([query], "query")
        # The two roles differ, because such encoders are trained with another prefix for each.
        scores = self.encoder.encode(list(passages), "passage") @ asked[0]
        # Stable, so that equal passages come in the order of the material on every machine.
        order = np.argsort(-scores, kind="stable")[:SHOWN]
        return [passages[place] for place in order if scores[place] >= self.threshold]

    async def find_answer(self, question: str, query: str, passages: Sequence[str]) -> list[str]:
        """Return the passages that have what a query asks for; [] when it is missing, or nobody can say."""
        near = self.find_near(query, passages)
        if not near:
            return []
        shown = write_sections({"Question": question, "Query": query, "Passages": "\n\n".join(near)})
        found = await self.judge.ask(instruction("missing_verdict", "en"), shown, Missing, seed=0)
        # An unreadable verdict keeps the query: a superfluous look-up costs less than a gap.
        return near if found is not None and not found.is_missing else []


def make_tasks(episodes: Sequence[Episode], matcher: Matcher, writer: Asker) -> list[Task[Record]]:
    """Return a task per episode whose reflection asked for something."""
    calls = ((episode, episode.find(REFLECT)) for episode in episodes)
    return [
        make_task(episode, call, matcher, writer)
        for episode, call in calls
        if call is not None and read_wanted(call.output)
    ]


def make_task(episode: Episode, call: StageCall, matcher: Matcher, writer: Asker) -> Task[Record]:
    """Return the task of one reflection."""
    name = make_id(REFLECT, episode.id, writer.model)

    async def make() -> Record:
        wanted, passages = read_wanted(call.output), list_passages(call)
        # Askers of its own: the version of shared ones may be that of another row's reply.
        own_matcher = replace(matcher, judge=replace(matcher.judge))
        own_writer = replace(writer)
        mended, again = await mend(episode.question, wanted, passages, own_matcher, own_writer)
        base = Record(
            id=name,
            stage="reflect",
            status="accepted",
            reason="nothing that was asked for is in the material",
            language=episode.language,
            source=episode.source,
            parents=(episode.id,),
            made_by=episode.model,
            # A judge that was never asked has no version: no passage was near, and the encoder alone has decided.
            judged_by=own_matcher.judge.version or own_matcher.encoder.name,
            instructions=(name_instruction("missing_verdict", "en"),) if own_matcher.judge.version else (),
            tags={"queries": sum(map(len, wanted.values())), "answered": again},
            messages=call.messages,
            output=format_wanted(wanted),
        )
        if mended == wanted:
            return base
        return update(
            base,
            reason=f"{again} of what was asked for is in the material",
            made_by=own_writer.version or episode.model,
            instructions=(*base.instructions, name_instruction("other_query", "en")),
            output=format_wanted(mended),
            rejected=format_wanted(wanted),
        )

    return Task(name, make)


async def mend(
    question: str, wanted: Wanted, passages: Sequence[str], matcher: Matcher, writer: Asker
) -> tuple[Wanted, int]:
    """Return the queries with others in place of those that the material answers, and how many these were."""
    mended: Wanted = {}
    answered = 0
    for tool, queries in wanted.items():
        for query in queries:
            has = await matcher.find_answer(question, query, passages)
            # Counted before a replacement is tried: the figure is of what was asked in vain, mended or not.
            answered += bool(has)
            other = await replace_query(question, tool, query, has, passages, matcher, writer) if has else query
            # Replacements may meet: two queries of one tool often lack the same thing.
            if other and other not in mended.get(tool, []):
                mended.setdefault(tool, []).append(other)
    return mended, answered


async def replace_query(
    question: str,
    tool: str,
    query: str,
    has: Sequence[str],
    passages: Sequence[str],
    matcher: Matcher,
    writer: Asker,
) -> str:
    """Return another query that the material does not answer; "" when there is none."""
    for attempt in range(ATTEMPTS):
        shown = {"Question": question, "Tool": tool, "Query": query, "Passages": "\n\n".join(has)}
        system = instruction("other_query", "en")
        reply = await writer.ask(system, write_sections(shown), OtherQuery, seed=attempt)
        # A model that sees nothing else to ask for leaves the query empty; then the tool is not called at all.
        if reply is None or not reply.query.strip():
            return ""
        query = " ".join(reply.query.split())
        # Checked like the first one, since a model may ask for the same in other words.
        has = await matcher.find_answer(question, query, passages)
        if not has:
            return query
    return ""


def list_passages(call: StageCall) -> list[str]:
    """Return the results that the stage was shown, in pieces of about a paragraph."""
    asked = read_prompt(call.messages)
    if asked is None:
        return []
    found = []
    for result in RESULT.split(asked["asked"]):
        for paragraph in result.split("\n\n"):
            text = paragraph.strip()
            # Cut by length as well, since a table or a page without paragraphs may exceed what an encoder reads.
            pieces = [text[start : start + PASSAGE_CHARS] for start in range(0, len(text), PASSAGE_CHARS)]
            found += [piece for piece in pieces if len(piece) >= LEAST_CHARS]
    return found


def read_wanted(text: str) -> Wanted:
    """Return the queries by tool of a stage's text; {} when it asks for nothing or cannot be read."""
    found = read_object(text) or {}
    wanted = {tool: list_texts(value) for tool, value in found.items()}
    return {tool: queries for tool, queries in wanted.items() if queries}


def list_texts(value: object) -> list[str]:
    """Return the texts of a list, or of a text alone."""
    # Models write a single query as a text where the stage wants a list.
    items = value if isinstance(value, list) else [value]
    return [item.strip() for item in items if isinstance(item, str) and item.strip()]


def format_wanted(wanted: Mapping[str, Sequence[str]]) -> str:
    """Return the JSON that the stage is to write."""
    # Chinese stays as it is: escapes would take several tokens per character, in training as in serving.
    return json.dumps(wanted, ensure_ascii=False)
