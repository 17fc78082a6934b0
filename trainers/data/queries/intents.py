"""New queries from seeds: a model thinks of other intents and writes a question for each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from fathom.core.errors import CorruptData, InvalidField
from fathom.domain.chat.quoting import write_sections
from fathom.domain.journal import Journal
from fathom.trainers.data.instructions import instruction
from fathom.trainers.data.queries.asking import Asker
from fathom.trainers.data.queries.record import MAX_CHARS, Query, make_query

# Intents that a model is shown: the newest ones, since a list of all would outgrow its window.
SHOWN = 40


class NewQuestion(BaseModel):
    """A question with the intent that it has."""

    intent: str = Field(min_length=2, max_length=120)
    question: str = Field(min_length=4, max_length=MAX_CHARS)


class NewQuestions(BaseModel):
    """A model's reply."""

    model_config = ConfigDict(title="fathom.data.intents")

    questions: list[NewQuestion] = Field(min_length=1, max_length=50)


@dataclass(frozen=True)
class Expanded:
    """Number of queries and intents in the file, and of seeds whose reply could not be read."""

    queries: int
    intents: int
    dropped: int


def fold_intent(intent: str) -> str:
    """Return an intent by which two spellings of it are the same."""
    return " ".join(intent.casefold().split())


async def expand(seeds: Sequence[Query], asker: Asker, target: Path, each: int, intents: int) -> Expanded:
    """Append queries with new intents to ``target`` until it has enough intents, each seed in turn, round by round.

    A seed that is in the file for a round is not asked again. Ends early when a whole round brings no new intent, since
    the model has no more. Raises ``InvalidField`` for numbers below 1, and ``FathomError`` when the model is away.
    """
    if each < 1 or intents < 1:
        raise InvalidField("each" if each < 1 else "intents", "is below 1")
    journal = Journal(target)
    queries = [parse_row(row, target) for row in journal.read()]
    found = dict.fromkeys(fold_intent(query.intent) for query in queries)
    asked, ids = Counter(query.parent for query in queries), {query.id for query in queries}
    dropped = number = 0
    while len(found) < intents:
        before, has_asked = len(found), False
        for seed in seeds:
            if len(found) >= intents:
                break
            # By rows, for a reply is written whole or not at all.
            if asked[seed.id] > number * each:
                continue
            has_asked = True
            made = await write_questions(seed, asker, each, list(found)[-SHOWN:], number)
            dropped += not made
            made = [query for query in made if query.id not in ids]
            ids |= {query.id for query in made}
            journal.append(query.model_dump(mode="json", exclude_defaults=True) for query in made)
            queries += made
            asked[seed.id] += len(made)
            found |= dict.fromkeys(fold_intent(query.intent) for query in made)
        # A round that a killed call has been through asks nothing, and says nothing of the model.
        if has_asked and len(found) == before:
            break
        number += 1
    return Expanded(len(queries), len(found), dropped)


def parse_row(row: object, target: Path) -> Query:
    """Return the query of a row; raise ``CorruptData`` for another row."""
    try:
        return Query.model_validate(row)
    except ValidationError as error:
        raise CorruptData(str(target), str(error)) from error


async def write_questions(seed: Query, asker: Asker, count: int, known: Sequence[str], number: int) -> list[Query]:
    """Return the model's queries for a seed; [] when no reply could be read."""
    listed = "\n".join(f"- {intent}" for intent in known) or "-"
    user = write_sections({"Question": seed.text, "Count": str(count), "Known intents": listed})
    reply = await asker.ask(instruction("intents", seed.language), user, NewQuestions, seed=number)
    if reply is None:
        return []
    made = {
        query.id: query
        for item in reply.questions[:count]
        for query in [
            make_query(
                item.question.strip(), seed.source, parent=seed.id, made_by=asker.version, intent=item.intent.strip()
            )
        ]
    }
    return list(made.values())
