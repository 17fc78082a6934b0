"""Planning data: plans of played questions, judged, and pairs of a staged plan over one that asks too early."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import resources

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from fathom.domain.chat.pipeline import PLAN, ask
from fathom.domain.chat.quoting import write_sections
from fathom.domain.chat.tolerant import read_array
from fathom.domain.text.language import language_of
from fathom.trainers.data.instructions import instruction, name_instruction
from fathom.trainers.data.queries.asking import Asker
from fathom.trainers.data.stages.dependencies import Dependent, find_dependent
from fathom.trainers.data.stages.episodes import Episode, StageCall
from fathom.trainers.data.stages.record import (
    Plan,
    Record,
    SubQuery,
    Turn,
    format_plan,
    make_id,
    parse_plan,
    read_prompt,
    update,
)
from fathom.trainers.data.stages.rewriting import Verdict, apply_verdict
from fathom.trainers.data.stages.running import Task

FRAMEWORK = "framework"
PEOPLE = "people"
# Written pairs were never played, so that no planner has put a list of tools into their prompts.
TOOLS = "- data: looks up numbers by name, measure and period\n- search: finds documents"


class StagedPlan(BaseModel):
    """A model's reply: the sub-questions of the first round, and those that wait for its results."""

    model_config = ConfigDict(title="fathom.data.staged_plan")

    # As many as a plan takes: a longer first round could not be stored as a row.
    first: list[SubQuery] = Field(min_length=1, max_length=24)
    later: list[SubQuery] = Field(default_factory=list, max_length=24)


class WrittenPair(BaseModel):
    """A plan that asks too early and its staged form, written by people."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    question: str = Field(min_length=1)
    flat: tuple[SubQuery, ...] = Field(min_length=1)
    staged: tuple[SubQuery, ...] = Field(min_length=1)


def make_tasks(episodes: Sequence[Episode], writer: Asker, judge: Asker) -> list[Task[Record]]:
    """Return a task per episode that has a plan."""
    calls = ((episode, episode.find(PLAN)) for episode in episodes)
    return [make_task(episode, call, writer, judge) for episode, call in calls if call is not None]


def make_task(episode: Episode, call: StageCall, writer: Asker, judge: Asker) -> Task[Record]:
    """Return the task of one plan."""
    name = make_id(PLAN, episode.id, writer.model)

    async def make() -> Record:
        base = Record(
            id=name,
            stage="plan",
            status="dropped",
            # Until something better is known: what cannot be read is a row, too, and is not tried again.
            reason="the plan cannot be read",
            language=episode.language,
            source=episode.source,
            parents=(episode.id,),
            made_by=episode.model,
            messages=call.messages,
            tags={"has_framework": bool(read_framework(call.messages))},
        )
        queries = read_queries(call.output)
        if not queries:
            return base
        # The lint goes before the judge: it costs no call, and what it finds makes a pair and not only a rejected row.
        if early := find_dependent(queries):
            return await stage_plan(base, episode.question, queries, early, writer)
        # What can be read only by a tolerant reader is the worse side of a pair with its strict form.
        malformed = "" if is_strict(call.output) else call.output
        kind = {"kind": "format"} if malformed else {}
        made = update(base, status="review", output=format_plan(queries), rejected=malformed, tags=base.tags | kind)
        shown = write_sections({"Question": episode.question, "Plan": made.output})
        found = await judge.ask(instruction("plan_verdict", "en"), shown, Verdict, seed=0)
        return apply_verdict(made, found, judge.version, "plan_verdict")

    return Task(name, make)


async def stage_plan(
    base: Record, question: str, queries: Sequence[SubQuery], early: Sequence[Dependent], writer: Asker
) -> Record:
    """Return the pair of a plan that asks too early and its first round as a model stages it.

    Where the model's first round asks too early as well, a person has to mend it.
    """
    flat, kind = format_plan(queries), {"kind": "over_planning", "early": len(early)}
    # The writer is shown what the lint has found, so that it need not find it again.
    shown = write_sections(
        {
            "Question": question,
            "Plan": flat,
            "Unknown subjects": "\n".join(f"{queries[one.place].subquery} ({one.words})" for one in early),
        }
    )
    reply = await writer.ask(instruction("staged_plan", "en"), shown, StagedPlan, seed=0)
    made = {"made_by": writer.version, "instructions": (name_instruction("staged_plan", "en"),)}
    if reply is None:
        return update(base, **made, reason="no staged plan could be read", tags=base.tags | kind)
    first = format_plan(reply.first)
    left = find_dependent(reply.first)
    # A pair of equal texts teaches nothing, and the schema of rows refuses it.
    if first == flat:
        return update(base, **made, reason="the staged plan is the flat one", tags=base.tags | kind)
    # The lint alone decides here: whether something is still asked too early is its question, and no model's.
    status, reason = ("review", f"still unknown: {left[0].words}") if left else ("accepted", "nothing is asked early")
    return update(
        base, **made, status=status, reason=reason, output=first, rejected=flat, tags=base.tags | kind,
        judged_by="lint",
    )  # fmt: skip


def read_queries(text: str) -> list[SubQuery]:
    """Return the sub-questions of a model's text; [] when it cannot be read."""
    try:
        rows = [pick(item) for item in read_array(text) or () if isinstance(item, Mapping)]
        return list(Plan.model_validate({"queries": rows}).queries)
    except ValidationError:
        return []


def pick(item: Mapping[str, object]) -> dict[str, object]:
    """Return the known fields of a sub-question."""
    # Left out and not refused: models add fields of their own, for which the strict schema would refuse the whole plan.
    return {name: item[name] for name in ("tool", "subquery", "indicators") if item.get(name)}


def is_strict(text: str) -> bool:
    """Return whether the text is the JSON of a plan and nothing else."""
    try:
        parse_plan(text)
    except ValueError:
        return False
    return True


def read_framework(messages: Sequence[Turn]) -> str:
    """Return the framework in a plan's prompt; "" without one."""
    asked = read_prompt(messages)
    return asked[FRAMEWORK] if asked is not None else ""


def leave_out_framework(messages: Sequence[Turn]) -> tuple[Turn, ...]:
    """Return the prompt as it is served: without the framework that training shows."""
    asked = read_prompt(messages)
    if asked is None:
        return tuple(messages)
    sections = {name: text for name, text in asked.sections.items() if name != FRAMEWORK}
    return (*messages[:-1], Turn(role="user", content=ask(asked.stage, sections)))


def load_written() -> list[WrittenPair]:
    """Return the pairs that people have written."""
    file = resources.files("fathom.trainers.data.stages").joinpath("staged_plans.yaml")
    return [WrittenPair.model_validate(row) for row in yaml.safe_load(file.read_text(encoding="utf-8"))]


def build_written(pairs: Sequence[WrittenPair]) -> list[Record]:
    """Return the pairs as rows; raise ``ValueError`` for a pair whose lint says otherwise than the pair."""
    found = []
    for number, pair in enumerate(pairs, 1):
        # Checked at every build, since the lint's words change, and a pair that it reads otherwise would contradict it.
        if not find_dependent(pair.flat) or find_dependent(pair.staged):
            raise ValueError(f"pair {number}: the lint contradicts it: {pair.question}")
        language = language_of(pair.question)
        found.append(
            Record(
                id=make_id(PLAN, PEOPLE, pair.question),
                stage="plan",
                status="accepted",
                reason="nothing is asked early",
                language=language,
                source=f"staged_plans.yaml:{number}",
                made_by=PEOPLE,
                tags={"kind": "over_planning"},
                messages=(
                    Turn(role="system", content=instruction(PLAN, language)),
                    Turn(role="user", content=ask(PLAN, {"question": pair.question, "tools": TOOLS})),
                ),
                output=format_plan(pair.staged),
                rejected=format_plan(pair.flat),
            )
        )
    return found


def measure_saving(records: Sequence[Record]) -> tuple[int, int]:
    """Return the characters of all prompts with their frameworks, and without them."""
    # Characters and not tokens: no tokenizer is at hand at this step, and only the share is of interest.
    rows = [record.messages for record in records if record.messages]
    sizes = [[sum(len(turn.content) for turn in turns) for turns in (row, leave_out_framework(row))] for row in rows]
    return sum(size[0] for size in sizes), sum(size[1] for size in sizes)
