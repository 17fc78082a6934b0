"""Questions of stored conversations as queries: of consenting users alone, without personal data or near duplicates."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from fathom.core.errors import InvalidField
from fathom.trainers.data.export.files import RUNS, Exported, Wanted, read_allowed
from fathom.trainers.data.export.scrub import Scrubber
from fathom.trainers.data.queries.duplicates import find_duplicates
from fathom.trainers.data.queries.record import MAX_CHARS, Query, make_query, read_lines
from fathom.transport.store import ObjectStore

# The table of the memory service's export that has the questions; its other tables are passed over.
TABLE = "turns"
NO_RUN = "it has no run, of which a user could have consented"
NOT_ALLOWED = "its user has not consented, or the record of its run is gone"
OTHER_TENANT = "it is another tenant's"
TOO_LONG = f"it is longer than {MAX_CHARS:,} characters"
NEAR = "it is a near duplicate of an earlier one"


class StoredTurn(BaseModel):
    """Turn of a conversation as the memory service exports it; ``rewritten`` is its self-contained form, if it has one.

    Columns that are of no use here are passed over, so that an export of a later version can be read.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    tenant: str = Field(min_length=1)
    conversation: str = Field(min_length=1)
    number: int = Field(ge=1)
    question: str = Field(min_length=1)
    rewritten: str = ""
    run: str = ""

    @property
    def source(self) -> str:
        """Return where the question is from."""
        return f"conversation {self.conversation} turn {self.number}, run {self.run}"


@dataclass
class Imported:
    """Queries, and how many turns were left out, by reason."""

    queries: list[Query] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)


def read_turns(path: Path) -> list[StoredTurn]:
    """Return the turns of a file of ``fathom memory export``.

    Raises ``InvalidField`` naming file and line of a wrong row, and for a file without turns.
    """
    found = []
    for place, line in read_lines(path):
        try:
            row = json.loads(line)
        except ValueError as error:
            raise InvalidField("source", f"{place} is no JSON: {error}") from error
        if not isinstance(row, dict) or "table" not in row:
            raise InvalidField("source", f"{place} names no table: it is no row of `fathom memory export`")
        if row["table"] == TABLE:
            found.append(parse_turn(row, place))
    if not found:
        raise InvalidField("source", f"{path} has no turn")
    return found


def parse_turn(row: Mapping[str, Any], place: str) -> StoredTurn:
    """Return the turn of a row; raise ``InvalidField`` naming its place and field."""
    try:
        return StoredTurn.model_validate(row)
    except ValidationError as error:
        first = error.errors()[0]
        raise InvalidField("source", f"{place}: {'.'.join(map(str, first['loc']))}: {first['msg']}") from error


async def import_turns(
    turns: Sequence[StoredTurn], store: ObjectStore, tenant: str, scrubber: Scrubber, threshold: float
) -> Imported:
    """Return the questions of turns as queries, the first of several near duplicates.

    ``store`` is the tenant's view, where the records of its runs and the statements on them are.
    """
    # The run's record says who asked, and so whose statement counts; the turn does not say it.
    wanted = Wanted("sft", production=True, prefix=RUNS)
    allowed = {item.trajectory.run_id async for item in read_allowed(store, wanted, Exported())}
    done = Imported()
    for turn in turns:
        # The self-contained form, since a follow-up alone asks nothing.
        text = scrubber.clean_text(" ".join((turn.rewritten or turn.question).split()))
        if reason := find_obstacle(turn, text, tenant, allowed):
            done.left_out[reason] += 1
        else:
            done.queries.append(make_query(text, turn.source))
    near = {one.place for one in find_duplicates([query.text for query in done.queries], threshold)}
    done.queries = [query for place, query in enumerate(done.queries) if place not in near]
    done.left_out[NEAR] += len(near)
    return done


def find_obstacle(turn: StoredTurn, text: str, tenant: str, allowed: Container[str]) -> str:
    """Return why a turn cannot become a query; "" where it can."""
    if turn.tenant != tenant:
        return OTHER_TENANT
    if not turn.run:
        return NO_RUN
    if turn.run not in allowed:
        return NOT_ALLOWED
    return TOO_LONG if len(text) > MAX_CHARS else ""
