"""Evolution of questions: each operator makes another question of one, and each step can be traced."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict, Field

from fathom.domain.chat.quoting import write_sections
from fathom.domain.text.language import language_of
from fathom.domain.text.shingles import make_shingles, measure_jaccard
from fathom.trainers.data.instructions import instruction, name_instruction
from fathom.trainers.data.queries.asking import Asker
from fathom.trainers.data.queries.duplicates import LENGTH, THRESHOLD
from fathom.trainers.data.queries.record import Query, make_query
from fathom.trainers.data.stages.record import Record, Turn, make_id, update
from fathom.trainers.data.stages.running import Task

OPERATORS = ("constraint", "example", "deepen", "widen")


class Evolved(BaseModel):
    """A model's reply."""

    model_config = ConfigDict(title="fathom.data.evolved")

    question: str = Field(min_length=4, max_length=4_000)


def make_tasks(queries: Sequence[Query], operators: Sequence[str], writer: Asker) -> list[Task[Record]]:
    """Return a task per question and operator."""
    return [make_task(query, operator, writer) for query in queries for operator in operators]


def make_task(query: Query, operator: str, writer: Asker) -> Task[Record]:
    """Return the task of one evolved question."""
    name = make_id("evolve", query.id, operator, writer.model)

    async def make() -> Record:
        shown = write_sections({"Question": query.text, "Operation": operator})
        system = instruction("evolved", "en")
        # Another seed for each operator, so that the questions differ even where a model passes over the operation.
        reply = await writer.ask(system, shown, Evolved, seed=OPERATORS.index(operator))
        base = Record(
            id=name,
            stage="evolve",
            status="dropped",
            reason="no reply of the writer could be read",
            language=query.language,
            source=query.source,
            parents=(query.id,),
            made_by=writer.version,
            instructions=(name_instruction("evolved", "en"),),
            tags={"operator": operator},
            messages=(Turn(role="system", content=system), Turn(role="user", content=shown)),
        )
        if reply is None:
            return base
        fault = find_fault(query, reply.question)
        status, reason = ("rejected", fault) if fault else ("accepted", "another question of its language")
        return update(base, status=status, reason=reason, output=" ".join(reply.question.split()))

    return Task(name, make)


def find_fault(query: Query, question: str) -> str:
    """Return why a question is no evolved form of another; "" when it is one."""
    # First of all: in another language a question shares no words with the given one, and would pass as a new one.
    if language_of(question) != query.language:
        return f"is not in the language {query.language}"
    # By the measure and the threshold of duplicate queries, since a later step would drop the question by them anyway.
    similarity = measure_jaccard(make_shingles(query.text, LENGTH), make_shingles(question, LENGTH))
    return f"is {similarity:.2f} of the given question" if similarity >= THRESHOLD else ""


def list_queries(records: Sequence[Record]) -> list[Query]:
    """Return the accepted questions as queries, which the other steps read."""
    return [
        make_query(
            record.output, record.source, parent=record.parents[0], made_by=record.made_by,
            intent=str(record.tags["operator"]),
        )
        for record in records
        if record.status == "accepted"
    ]  # fmt: skip
