"""Parameters and JSON bodies of the gateway's requests and responses; the contract's messages are in ``schemas``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from fastapi import Path, Query, Request
from pydantic import BaseModel, ConfigDict, Field, field_validator

from fathom.api.datafetch.v1 import datafetch_pb2 as datafetch
from fathom.api.planner.v1 import planner_pb2 as planner
from fathom.api.planner.v1 import trajectory_pb2 as trajectory
from fathom.core.errors import InvalidField
from fathom.domain.chat.windows import EFFORTS, STEP_POLICIES, window_of

PROTOCOLS = {
    "": trajectory.PROTOCOL_UNSPECIFIED,
    "research": trajectory.PROTOCOL_RESEARCH,
    "workflow": trajectory.PROTOCOL_WORKFLOW,
    "search_r1": trajectory.PROTOCOL_SEARCH_R1,
    "auto": trajectory.PROTOCOL_AUTO,
}


CONSENTS = {
    "": trajectory.CONSENT_UNSPECIFIED,
    "given": trajectory.CONSENT_GIVEN,
    "refused": trajectory.CONSENT_REFUSED,
}

# How negative numbers are written: -1.5 or (1.5).
Negatives = Literal["minus", "parentheses"]
NEGATIVES = "How negative numbers are written: minus for -1.5, parentheses for (1.5)."
Role = Literal["date", "label", "value", "ignored"]
Way = Literal["", "last", "sum", "mean"]
# The largest numbers that the contract's fields hold.
MAX_INT32, MAX_INT64 = 2**31 - 1, 2**63 - 1
# Own tables and corpora that one question may name.
MAX_TABLES, MAX_CORPORA = 12, 4
# Sources that one question may leave out.
MAX_SOURCES_OFF = 32
# What several routes take.
RunId = Annotated[str, Path(description="Run id.")]
PageSize = Annotated[int, Query(ge=0, le=1000, description="At most this many; 0 means 100.")]
NegativesQuery = Annotated[Negatives, Query(description=NEGATIVES)]
PageToken = Annotated[str, Query(description="Where to go on: next_page_token of the page before.")]


def read_base_url(request: Request) -> str:
    """Return the address under which the caller has reached this gateway, without a slash at its end."""
    return str(request.base_url).rstrip("/")


def check_characters(value: Any) -> Any:
    """Return a value as JSON has it; raise ``ValueError`` for text in it with half of a character."""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, Mapping):
            waiting += [*one.keys(), *one.values()]
        elif isinstance(one, list):
            waiting += one
        elif isinstance(one, str) and any("\ud800" <= letter <= "\udfff" for letter in one):
            raise ValueError("has a lone surrogate, which is no character")
    return value


def check_length(field: str, text: str, most_chars: int) -> None:
    """Raise ``InvalidField`` for a text that is empty or too long."""
    if not text.strip():
        raise InvalidField(field, "is empty")
    if len(text) > most_chars:
        raise InvalidField(field, f"has {len(text):,} characters; at most {most_chars:,} are allowed")


class Body(BaseModel):
    """A request's body: closed, of the types that the document names, and of text that can be encoded."""

    # Strict, since a boolean would pass for a number.
    model_config = ConfigDict(extra="forbid", strict=True)

    @field_validator("*")
    @classmethod
    def check_text(cls, value: Any) -> Any:
        """Raise ``ValueError`` for text with half of a character, which JSON can write and UTF-8 cannot."""
        return check_characters(value)


class Ask(Body):
    """A question."""

    question: str = Field(description="The question, 1 to `max_question_chars` characters, as GET /v1/limits says.")
    conversation_id: str = Field("", description="Conversation to go on with; empty starts one.")
    parent_turn: int | None = Field(
        None,
        ge=0,
        le=MAX_INT32,
        description="Turn of the conversation that the question follows, 0 for its beginning; unset is the newest. With"
        " that of an earlier turn (its `parent`), that turn is asked again, or otherwise; another one branches.",
    )
    protocol: str = Field("", pattern="^(|research|workflow|search_r1|auto)$", description="How the episode talks.")
    mode: str = Field(
        "",
        pattern="^(|research|workflow|auto)$",
        description="Which engine answers: the agent, the fixed pipeline, or the one that fits the question.",
    )
    model: str = Field("", description="Model; empty means the default of /v1/models.")
    window: str = Field(
        "",
        pattern=f"^(|{'|'.join(STEP_POLICIES)})$",
        description="What becomes of earlier steps when a request grows too long; empty leaves it to the server.",
    )
    window_tokens: int = Field(
        0, ge=0, le=MAX_INT32, description="Working window; 0 is the server's own, which is the largest."
    )
    effort: str = Field(
        "",
        pattern=f"^(|{'|'.join(EFFORTS)})$",
        description="How much work the question is worth: rounds, time, window and thinking. Empty is standard.",
    )
    table_ids: list[str] = Field(
        default_factory=list,
        max_length=MAX_TABLES,
        description="Sheets of own tables, as POST /v1/tables returned them.",
    )
    corpora: list[str] = Field(
        default_factory=list,
        max_length=MAX_CORPORA,
        description="Corpora to search, as POST /v1/documents returned them.",
    )
    sources_off: list[str] = Field(
        default_factory=list,
        max_length=MAX_SOURCES_OFF,
        description="Sources that the run must not use: `documents`, `data`, a server of tools of GET /v1/sources by"
        " its name, or a single vendor of it as `vendor:NAME`.",
    )
    consent: str = Field(
        "",
        pattern="^(|given|refused)$",
        description="Whether the run may become training data; empty leaves it to PUT /v1/consent.",
    )
    request_id: str = Field("", description="Idempotency key; it becomes the run's id.")

    @property
    def model_choice(self) -> str:
        """Return the mode or the protocol; raise ``InvalidField`` when both are given and differ."""
        # Both name one choice; a body in which they differ must not be decided by chance.
        if self.mode and self.protocol and self.mode != self.protocol:
            raise InvalidField("mode", f"is {self.mode!r}, while protocol is {self.protocol!r}")
        return self.mode or self.protocol

    def request(self) -> planner.RunRequest:
        """Convert to a run request; raise ``InvalidField``."""
        request = planner.RunRequest(
            request_id=self.request_id,
            question=self.question,
            conversation_id=self.conversation_id,
            parent_turn=self.parent_turn,
            protocol=PROTOCOLS[self.model_choice],
            model=self.model,
            effort=EFFORTS.get(self.effort, planner.EFFORT_UNSPECIFIED),
            table_ids=self.table_ids,
            corpora=self.corpora,
            sources_off=self.sources_off,
            consent=CONSENTS[self.consent],
        )
        if self.window or self.window_tokens:
            request.window.CopyFrom(window_of(self.window, self.window_tokens))
        return request


class Limits(BaseModel):
    """Bounds of questions and files, so that a client can name them before it sends what would be refused."""

    max_question_chars: int = Field(description="Characters of a question.")
    max_upload_bytes: int = Field(description="Bytes of an uploaded table or document.")
    max_tables: int = Field(description="Own tables that a question may name.")


class Waiting(BaseModel):
    """Place of a run in the queue."""

    before: int = Field(description="Runs that come before it, at most.")
    expected_ms: int = Field(description="Expected wait in milliseconds; 0 when unknown.")


class Accepted(BaseModel):
    """A run that was started, or queued."""

    run_id: str
    conversation_id: str = Field(description="Conversation that it belongs to; empty when it is not known yet.")
    waiting: Waiting | None = Field(None, description="Place in the queue; set until the run has begun.")


class Resume(Body):
    """Budget of a resumed run; zeros select the server's defaults."""

    max_rounds: int = Field(0, ge=0, le=MAX_INT32, description="Rounds of thought and tool calls.")
    max_tokens: int = Field(0, ge=0, le=MAX_INT32, description="Tokens sampled in all.")
    max_ms: int = Field(0, ge=0, le=MAX_INT32, description="Wall-clock milliseconds.")
    request_id: str = Field("", description="Idempotency key.")


class TodoEntry(Body):
    """An entry of the todo list."""

    text: str = Field(description="1 to 200 characters.")
    state: str = Field("open", pattern="^(open|done|dropped)$", description='"open", "done" or "dropped".')


class TodoEdit(Body):
    """The complete new todo list."""

    items: list[TodoEntry] = Field(max_length=20)
    request_id: str = Field("", description="Idempotency key.")
    version: str | None = Field(
        None, max_length=200, description="change_id of the list that is edited, empty for none; without it any."
    )


class TableColumn(BaseModel):
    """A column of a page of rows."""

    name: str
    type: str = Field(description='Arrow type, e.g. "double".')


class TablePage(BaseModel):
    """Rows of the full table behind a sheet."""

    columns: list[TableColumn]
    rows: list[list[Any]] = Field(description="Values in the order of the columns; dates ISO 8601.")
    total: int = Field(description="Rows of the whole table.")
    offset: int


class MeantColumn(Body):
    """Meaning of a column of an own table."""

    column: str = Field(min_length=1, max_length=200, description="Its name in the table.")
    role: Role = Field(description="Days or years, whose the rows are, what is measured, or not used.")
    names: list[str] = Field(default_factory=list, max_length=16, description="What questions may call it.")
    unit: str = Field("", max_length=40)
    aggregation: Way = Field("", description="How values of a period become one; empty when it is not known.")
    year: int = Field(0, ge=0, le=9999, description="Year of its values, where no column has dates.")
    indicator: str = Field("", max_length=100, description="The catalogue's indicator that it was found to be.")
    period: str = Field(
        "", max_length=100, description='Period of its values in words, where it is no year: "Q1 2024".'
    )


class TableMeaning(Body):
    """Meaning of the columns of an own table, as GET …/meaning proposes it."""

    columns: list[MeantColumn] = Field(min_length=1, max_length=1_000)

    def request(self, sheet_id: str, request_id: str, lifetime_s: int) -> datafetch.ApplyMeaningRequest:
        """Convert to a request."""
        columns = [
            datafetch.ColumnMeaning(
                column=one.column,
                role=f"COLUMN_ROLE_{one.role.upper()}",
                names=one.names,
                unit=one.unit,
                aggregation=f"AGGREGATION_{one.aggregation.upper() or 'UNSPECIFIED'}",
                year=one.year,
                indicator=one.indicator,
                period=one.period,
            )
            for one in self.columns
        ]
        meaning = datafetch.TableMeaning(columns=columns)
        return datafetch.ApplyMeaningRequest(
            request_id=request_id, sheet_id=sheet_id, meaning=meaning, lifetime_s=lifetime_s
        )


class ProposedMeaning(BaseModel):
    """Proposed meaning of the columns of an own table, to be edited and sent back."""

    columns: list[MeantColumn]
    adds: bool = Field(description="Whether it says more than the table itself.")
    has_encoder: bool = Field(description="Whether likeness of meaning took part, or names alone.")


class SheetEdit(Body):
    """View of one of the tables of a conversation from now on, in place of what it said of it before."""

    sheet_id: str = Field(min_length=1, max_length=200, description="Sheet.")
    title: str = Field("", max_length=200, description="Its title there; empty is the table's own.")
    pinned: bool = Field(False, description="Whether it stands before tables that are not pinned.")


class ConversationEdit(Body):
    """Edit of a conversation; what is not named stays."""

    title: str | None = Field(None, min_length=1, max_length=200)
    pinned: bool | None = Field(None, description="Pinned conversations are listed first.")
    version: int = Field(0, ge=0, le=MAX_INT32, description="Edits this version alone; 0 edits any.")
    sheet: SheetEdit | None = Field(None, description="Renames or pins one of its tables. Its id stays as it is.")


class ConsentBody(Body):
    """Consent to training on runs."""

    consent: str = Field(pattern="^(given|refused)$", description='"given" or "refused".')
    request_id: str = Field("", description="Idempotency key.")


class ConsentState(BaseModel):
    """Statement about training on runs."""

    consent: str = Field(
        description='"given", "refused", or empty when nobody has stated anything, which is a refusal.'
    )
    of_run: bool = Field(description="True when it was stated of this run, false when of all runs of who asked it.")
