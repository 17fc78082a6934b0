"""Rewriting data: follow-ups to an earlier question or to a detail of an earlier answer, at each distance, judged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from fathom.domain.chat.pipeline import REWRITE, ask, format_history
from fathom.domain.chat.quoting import write_sections
from fathom.domain.text.language import language_of
from fathom.trainers.data.instructions import instruction, name_instruction
from fathom.trainers.data.queries.asking import Asker
from fathom.trainers.data.stages.conversations import Conversation
from fathom.trainers.data.stages.record import Record, Status, Turn, make_id, update
from fathom.trainers.data.stages.running import Task

Case = Literal["question", "answer"]
CASES: tuple[Case, ...] = ("question", "answer")
# Beyond five turns people name again what they mean.
DISTANCES = (1, 2, 3, 4, 5)
# Characters of a reply's texts; what is longer is an essay and no question.
MAX_CHARS = 2_000


class QuestionFollowUp(BaseModel):
    """A model's reply to an earlier question."""

    model_config = ConfigDict(title="fathom.data.follow_up_question")

    question: str = Field(min_length=1, max_length=MAX_CHARS)
    rewritten: str = Field(min_length=4, max_length=MAX_CHARS)


class AnswerFollowUp(QuestionFollowUp):
    """A model's reply to an earlier answer; ``span`` are the words of it that are asked about."""

    model_config = ConfigDict(title="fathom.data.follow_up_answer")

    span: str = Field(min_length=1, max_length=MAX_CHARS)


class Verdict(BaseModel):
    """A judge's reply; the reason stands first, so that the verdict follows from it."""

    model_config = ConfigDict(title="fathom.data.verdict")

    reason: str = Field(min_length=1)
    verdict: Literal["right", "wrong", "unsure"]


STATUSES: dict[str, Status] = {"right": "accepted", "wrong": "rejected", "unsure": "review"}


def make_tasks(conversations: Sequence[Conversation], source: str, writer: Asker, judge: Asker) -> list[Task[Record]]:
    """Return a task per conversation, case and distance that the conversation is long enough for."""
    return [
        make_task(conversation, case, distance, source, writer, judge)
        for conversation in conversations
        for case in CASES
        for distance in DISTANCES
        if distance <= len(conversation.turns)
    ]


def make_task(
    conversation: Conversation, case: Case, distance: int, source: str, writer: Asker, judge: Asker
) -> Task[Record]:
    """Return the task of one follow-up; another writer's is another row."""
    name = make_id(REWRITE, conversation.name, case, distance, writer.model)

    async def make() -> Record:
        base = Record(
            id=name,
            stage="rewrite",
            status="dropped",
            reason="no reply of the writer could be read",
            source=source,
            parents=(conversation.name,),
            instructions=(name_instruction(f"follow_up_{case}", "en"),),
            tags={"case": case, "distance": distance},
        )
        reply = await write_follow_up(conversation, case, distance, writer)
        if reply is None:
            return update(base, made_by=writer.version)
        # A span that is not there would teach the rewriter to complete what nobody has said.
        if isinstance(reply, AnswerFollowUp) and not holds(conversation.turns[-distance].answer, reply.span):
            return update(base, made_by=writer.version, reason="the span is not in the answer")
        made = build_record(base, conversation, reply, writer.version)
        return await judge_rewriting(made, conversation, reply, judge)

    return Task(name, make)


async def write_follow_up(
    conversation: Conversation, case: Case, distance: int, writer: Asker
) -> QuestionFollowUp | None:
    """Return the follow-up that a model writes to a turn so far back; None when no reply could be read."""
    turn, system = conversation.turns[-distance], instruction(f"follow_up_{case}", "en")
    later = conversation.turns[len(conversation.turns) - distance + 1 :]
    # With later questions between, a follow-up has to say which one it means: "and in 2019?" would be about the last.
    since = {"Questions since": "\n".join(one.question for one in later)} if later else {}
    answer = {"Answer": turn.answer} if case == "answer" else {}
    shown = write_sections({"Question": turn.question, **answer, **since})
    # The distance is the seed, so that a turn that two conversations share gets another follow-up at each.
    return await writer.ask(system, shown, QuestionFollowUp if case == "question" else AnswerFollowUp, distance)


def holds(answer: str, span: str) -> bool:
    """Return whether the answer has the words, whatever its line breaks."""
    return " ".join(span.split()) in " ".join(answer.split())


def build_record(base: Record, conversation: Conversation, reply: QuestionFollowUp, made_by: str) -> Record:
    """Return the row with the prompt of the workflow's own stage, so that training shows what serving will."""
    # The language is that of the follow-up and not of its conversation: by it the planner chooses the prompt, too.
    language = language_of(reply.question)
    history = format_history([(turn.question, turn.answer) for turn in conversation.turns])
    span = {"span": reply.span} if isinstance(reply, AnswerFollowUp) else {}
    return update(
        base,
        status="review",
        language=language,
        made_by=made_by,
        tags={**base.tags, **span},
        messages=(
            Turn(role="system", content=instruction(REWRITE, language)),
            Turn(role="user", content=ask(REWRITE, {"history": history, "question": reply.question})),
        ),
        output=" ".join(reply.rewritten.split()),
    )


async def judge_rewriting(made: Record, conversation: Conversation, reply: QuestionFollowUp, judge: Asker) -> Record:
    """Return the row as a judge finds it; without a readable verdict a person has to decide."""
    shown = {
        "Conversation": format_history([(turn.question, turn.answer) for turn in conversation.turns]),
        "Question": reply.question,
        "Rewriting": reply.rewritten,
    }
    found = await judge.ask(instruction("rewriting_verdict", "en"), write_sections(shown), Verdict, seed=0)
    return apply_verdict(made, found, judge.version, "rewriting_verdict")


def apply_verdict(made: Record, found: Verdict | None, judged_by: str, name: str) -> Record:
    """Return the row with the status that follows from a verdict; None leaves it to a person."""
    more = {"judged_by": judged_by, "instructions": (*made.instructions, name_instruction(name, "en"))}
    if found is None:
        return update(made, **more, status="review", reason="no verdict could be read")
    return update(made, **more, status=STATUSES[found.verdict], reason=found.reason)


def count_cells(records: Sequence[Record]) -> Counter[tuple[str, int]]:
    """Return how many usable rows there are of each case and distance."""
    # Rows that wait for a person count as well: they may be accepted, and the cells say what material there is.
    usable = [record for record in records if record.status in ("accepted", "review")]
    return Counter((str(record.tags["case"]), int(record.tags["distance"])) for record in usable)


def count_by_writer(records: Sequence[Record]) -> dict[str, Counter[str]]:
    """Return the statuses by the model that wrote the rows: what each leaves for people to do."""
    found: dict[str, Counter[str]] = {}
    for record in records:
        found.setdefault(record.made_by, Counter())[record.status] += 1
    return found
