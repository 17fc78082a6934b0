"""The list of sources in the form of the REST API, and its conversion from the services' messages."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from fathom.api.common.v1 import common_pb2 as common
from fathom.api.datafetch.v1 import datafetch_pb2 as datafetch
from fathom.api.planner.v1 import planner_pb2 as planner
from fathom.api.retrieval.v1 import retrieval_pb2 as retrieval

State = Literal["ready", "unwatched", "off", "untried", "answering", "failing", "paused"]
CREDENTIALS: dict[int, Literal["none", "set", "missing"]] = {
    common.CREDENTIAL_UNSPECIFIED: "none",
    common.CREDENTIAL_SET: "set",
    common.CREDENTIAL_MISSING: "missing",
}


class SourceOffer(BaseModel):
    """A kind of table that a vendor gives."""

    kind: str = Field(description="`prices`, `statements` or `series`.")
    markets: list[str] = Field(description="`cn`, `hk`, `us`; `world` for what belongs to none.")


class Operation(BaseModel):
    """State of a source for those who run it."""

    # All members are always there, and the document says so.
    model_config = ConfigDict(json_schema_serialization_defaults_required=True)

    setting: str = Field(default="", description="Setting that turns it on.")
    host: str = Field(default="", description="Host of its address.")
    credential: Literal["none", "set", "missing"] = Field(
        default="none", description="Whether its key is here; the key itself is never told."
    )
    failure: str = Field(default="", description="Why its last failure happened, without keys.")


class Source(BaseModel):
    """Something that questions can draw on. Its health is what one replica has seen since it started."""

    model_config = ConfigDict(json_schema_serialization_defaults_required=True)

    name: str
    kind: Literal["bundled", "documents", "vendor", "database", "tools"]
    state: State = Field(
        description="`ready`: it is here; `unwatched`: its tries are not recorded; others as they say."
    )
    description: str = ""
    as_of: str = Field(default="", description="Last day with data, where it is known.")
    offers: list[SourceOffer] = Field(default_factory=list)
    tools: list[str] = Field(default_factory=list, description="Tools that the settings allow.")
    missing_tools: list[str] = Field(default_factory=list, description="Those of them that it does not offer.")
    tried: float | None = Field(default=None, description="Last try, in seconds since the epoch.")
    answered: float | None = Field(default=None, description="Last answer.")
    failed: float | None = Field(default=None, description="Last failure.")
    operation: Operation | None = Field(default=None, description="With the right `sources` alone.")


class Probe(BaseModel):
    """Answer of a source to one small request."""

    is_answering: bool = Field(description="Whether it answered, if only that it has nothing.")
    failure: str = Field(description="Why it did not, without keys.")
    duration_ms: int


class Away(BaseModel):
    """A service whose sources are not in the list, because it did not answer."""

    service: str
    problem: str


class SourceList(BaseModel):
    """The sources of all services that answered."""

    sources: list[Source]
    away: list[Away]


def show_table(source: datafetch.Source) -> Source:
    """Return a bundled or further table of datafetch."""
    return Source(
        name=source.id,
        kind="bundled",
        state="failing" if source.failure else "ready",
        description=source.description,
        as_of=source.as_of,
        operation=Operation(failure=source.failure),
    )


def show_corpus(corpus: retrieval.Corpus) -> Source:
    """Return a corpus of documents."""
    last = corpus.as_of.ToDatetime().date().isoformat() if corpus.HasField("as_of") else ""
    described = corpus.description or f"{corpus.documents:,} documents"
    return Source(
        name=corpus.name, kind="documents", state="ready", description=described, as_of=last, operation=Operation()
    )


def show_connector(connector: datafetch.Connector) -> Source:
    """Return a vendor or a database."""
    contact = connector.contact
    state: State = "off"
    if connector.is_database:
        state = "unwatched"
    elif connector.is_enabled:
        state = "paused" if connector.is_paused else judge(contact)
    found = Source(
        name=connector.name,
        kind="database" if connector.is_database else "vendor",
        state=state,
        offers=[SourceOffer(kind=one.kind, markets=list(one.markets)) for one in connector.offers],
        operation=Operation(setting=connector.setting, credential=CREDENTIALS[connector.credential]),
    )
    return add_contact(found, contact)


def show_server(server: planner.ToolServer) -> Source:
    """Return a server of others' tools."""
    state = judge(server.contact)
    if server.is_connected:
        state = "answering"
    elif state == "answering":
        # The connection that answered has ended.
        state = "failing"
    found = Source(
        name=server.name,
        kind="tools",
        state=state,
        tools=list(server.tools),
        missing_tools=list(server.missing_tools),
        operation=Operation(setting="planner.mcp_servers", host=server.host, credential=CREDENTIALS[server.credential]),
    )
    return add_contact(found, server.contact)


def judge(contact: common.Contact) -> State:
    """Return how something stands by its last answer and its last failure."""
    answered, failed = read_moment(contact, "answered"), read_moment(contact, "failed")
    if answered is None and failed is None:
        return "untried"
    return "failing" if answered is None or (failed is not None and failed > answered) else "answering"


def add_contact(source: Source, contact: common.Contact) -> Source:
    """Add the moments of a contact, and the words of its last failure, to a source and return it."""
    source.tried, source.answered, source.failed = (
        read_moment(contact, name) for name in ("tried", "answered", "failed")
    )
    if source.operation is not None:
        source.operation.failure = contact.failure
    return source


def read_moment(contact: common.Contact, name: str) -> float | None:
    """Return a moment of a contact in seconds since the epoch, None for never."""
    return getattr(contact, name).ToMilliseconds() / 1000 if contact.HasField(name) else None
