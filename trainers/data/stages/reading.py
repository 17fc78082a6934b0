"""Readings: questions with the calculation that each asks for, which a model of one's own learns to write.

The examples are those of datafetch's reader of programs, or one's own in the same form: ``{"id", "question", "turns",
"language", "program"}``, a row of JSON Lines each.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from fathom.core.errors import InvalidField
from fathom.domain.programs.asking import SYSTEM, find_strange_words, read_program, write_program
from fathom.domain.text.overlap import Leak, Text, find_leaks
from fathom.trainers.data.queries.record import Query, read_lines
from fathom.trainers.data.stages.record import Record, Turn, describe_failure, make_id, update

STAGE: Literal["reading"] = "reading"


class Example(BaseModel):
    """A question with its program, of people."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str = Field(min_length=1)
    question: str = Field(min_length=1)
    program: str = Field(min_length=1)
    language: Literal["en", "zh"] = "en"
    turns: tuple[str, ...] = ()
    """Questions before it, from which it takes what it leaves out."""


@dataclass(frozen=True)
class Readings:
    """Rows of all examples that can be learnt, and how many there are that cannot, by reason."""

    records: list[Record] = field(default_factory=list)
    left_out: dict[str, int] = field(default_factory=dict)


def read_examples(paths: Iterable[Path]) -> list[tuple[str, Example]]:
    """Return the examples of files and folders, each with its place; raise ``InvalidField`` naming a wrong one."""
    files = [file for path in paths for file in (sorted(path.glob("*.jsonl")) if path.is_dir() else [path])]
    found = [(place, parse_example(line, place)) for file in files for place, line in read_lines(file)]
    if not found:
        raise InvalidField("source", "has no example")
    return found


def parse_example(line: str, place: str) -> Example:
    """Return the example of a line; raise ``InvalidField("source")`` for what is none."""
    try:
        example = Example.model_validate(json.loads(line))
        steps = read_program(write_program(example.program))
    except ValidationError as error:
        raise InvalidField("source", f"{place}: {describe_failure(error)}") from error
    except (ValueError, InvalidField) as error:
        raise InvalidField("source", f"{place}: {error}") from error
    if strange := find_strange_words(steps, (*example.turns, example.question)):
        raise InvalidField("source", f"{place}: program: {strange[0]!r} does not stand in the question")
    return example


def make_readings(
    examples: Sequence[tuple[str, Example]], language: str, held: Sequence[Query], share: float
) -> Readings:
    """Return a row per whole question of a language, without what nearly stands in a held question.

    Follow-ups are left out: the planner makes them whole before anybody reads them.
    """
    found, rows = Readings(), dict[str, Record]()
    for place, example in examples:
        if example.language != language:
            count(found, f"not in {language}")
        elif example.turns:
            count(found, "follows earlier questions")
        else:
            record = make_record(place, example)
            if record.id in rows:
                count(found, "stands there twice")
            rows.setdefault(record.id, record)
    leaks = list_leaks(list(rows.values()), held, share)
    for name, leak in leaks.items():
        count(found, f"nearly a question of {leak.held.name.split(' ')[0]}")
        del rows[name]
    found.records.extend(rows.values())
    return found


def make_record(place: str, example: Example) -> Record:
    """Return the row of an example: the question as prompt, its program without ids as output."""
    output = write_program(example.program)
    return Record(
        id=make_id(STAGE, example.question, output),
        stage=STAGE,
        status="accepted",
        language=example.language,
        source=place,
        parents=(example.id,),
        made_by="people",
        messages=(Turn(role="system", content=SYSTEM), Turn(role="user", content=example.question)),
        output=output,
    )


def pair_readings(records: Sequence[Record], written: Sequence[Sequence[str]], model: str) -> Readings:
    """Return the rows with the first wrong program that a model wrote of their question as their worse output.

    ``written`` has the model's programs of each row; "" is one that has no end. Counted by reason are the rows of which
    it wrote no wrong one.
    """
    found = Readings()
    for record, programs in zip(records, written, strict=True):
        # One that was cut off says nothing about what is wrong in it.
        whole = [program for program in programs if program]
        # One pair a row: several of one question would weigh it more than the others.
        wrong = next((program for program in whole if list_steps(program) != list_steps(record.output)), "")
        if wrong:
            reason = f"{model} wrote another program"
            found.records.append(update(record, rejected=wrong, reason=reason, tags={"sampled": model}))
        else:
            count(found, "every program is right" if whole else "no program has an end")
    return found


def list_steps(program: str) -> list[str]:
    """Return the steps in an order of their own, since two programs with the same steps compute the same."""
    return sorted(program.splitlines())


def list_leaks(records: Sequence[Record], held: Sequence[Query], share: float) -> dict[str, Leak]:
    """Return by id each row that has nearly all of a held question."""
    texts, left = [Text(query.id, query.text) for query in held], list(records)
    found: dict[str, Leak] = {}
    # A held question is reported with one training text, and several may have it.
    while leaks := find_leaks([Text(one.id, one.messages[-1].content) for one in left], texts, share=share):
        found |= {leak.training.name: leak for leak in leaks}
        left = [one for one in left if one.id not in found]
    return found


def count(found: Readings, reason: str) -> None:
    """Count an example that is left out."""
    found.left_out[reason] = found.left_out.get(reason, 0) + 1
