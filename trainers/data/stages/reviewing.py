"""Decisions of people on rows that wait for them: kept beside the rows, which are never changed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from fathom.core.errors import InvalidField
from fathom.domain.journal import Journal
from fathom.trainers.data.stages.record import Record, describe_failure, read_rows
from fathom.trainers.data.stages.running import hold, parse_rows


class Decision(BaseModel):
    """Decision of a person on a row; ``output`` is the text as the person edited it, "" for unchanged."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str = Field(min_length=1)
    decision: Literal["accept", "reject"]
    output: str = ""
    note: str = ""


class GivenDecision(Decision):
    """A decision as a file has it, which may say who decided."""

    by: str = ""


class Review(Decision):
    """A decision with the name of who decided."""

    by: str = Field(min_length=1)


def find_reviews(path: Path) -> Path:
    """Return the file of the decisions on the rows of a file."""
    return path.with_name(f"{path.stem}.reviews.jsonl")


def read_records(path: Path) -> list[Record]:
    """Return the rows of a file as people have decided on them.

    Raises ``InvalidField`` for a decision on a row that is not there, or whose edit the row's schema refuses.
    """
    records = {record.id: record for record in read_rows(path, Record)}
    reviews = find_reviews(path)
    # The file may be there without a decision, for which read_rows() would refuse it.
    for review in read_rows(reviews, Review, "reviews") if reviews.exists() and reviews.stat().st_size else []:
        if review.id not in records:
            raise InvalidField("reviews", f"{reviews.name} decides on {review.id}, which {path.name} does not have")
        records[review.id] = apply(records[review.id], review)
    return list(records.values())


def apply(record: Record, review: Review) -> Record:
    """Return the row after a decision; raise ``InvalidField("output")`` for an edit that its schema refuses."""
    values = record.model_dump() | {"reviewed_by": review.by, "reason": review.note or record.reason}
    values["status"] = "accepted" if review.decision == "accept" else "rejected"
    if review.output and review.output != record.output:
        # The model's text is kept: what people change is what it has to learn.
        values |= {"output": review.output, "before": record.output}
    try:
        return Record.model_validate(values)
    except ValidationError as error:
        raise InvalidField("output", f"{review.id}: {describe_failure(error)}") from error


def list_waiting(path: Path) -> list[Record]:
    """Return the rows of a file that wait for a person."""
    return [record for record in read_records(path) if record.status == "review"]


def decide(path: Path, reviews: Sequence[Review]) -> int:
    """Append decisions; return how many are new. Raises ``InvalidField`` before anything is written.

    A repeated decision is none, another one on the same row is refused: a person has to know of the first.
    """
    records = {record.id: record for record in read_rows(path, Record)}
    target = find_reviews(path)
    # Held from reading to writing: another person's decision in between would go unseen.
    with hold(target):
        journal = Journal(target)
        known = {review.id: review for review in parse_rows(journal, Review)}
        fresh: dict[str, Review] = {}
        for review in reviews:
            if review.id not in records:
                raise InvalidField("id", f"{path.name} has no row {review.id}")
            before = known.get(review.id) or fresh.get(review.id)
            # Whose decision it is does not matter: a second person who decides alike agrees with the first.
            if before is not None and before.model_copy(update={"by": review.by}) != review:
                raise InvalidField("decision", f"{review.id} was decided otherwise by {before.by}")
            # For its errors alone: a decision that no reader could apply must not be written.
            apply(records[review.id], review)
            if before is None:
                fresh[review.id] = review
        journal.append(review.model_dump(mode="json", exclude_defaults=True) for review in fresh.values())
    return len(fresh)


def describe(record: Record) -> Iterator[str]:
    """Yield what a person needs to see of a row."""
    yield f"{record.id}  {record.stage}  by {record.made_by or 'nobody'}  {record.reason}"
    yield record.messages[-1].content
    if record.rejected:
        yield f"--- instead of\n{record.rejected}"
    yield f"--- written\n{record.output}"
