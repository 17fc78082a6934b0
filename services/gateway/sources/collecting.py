"""Asks the services that know for their sources, each with its own deadline."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Literal

from fathom.api.datafetch.v1 import datafetch_pb2 as datafetch
from fathom.api.planner.v1 import planner_pb2 as planner
from fathom.api.retrieval.v1 import retrieval_pb2 as retrieval
from fathom.clients import Clients
from fathom.core.errors import FathomError, InvalidField
from fathom.core.ids import new_id
from fathom.services.gateway.sources.bodies import (
    Away,
    Probe,
    Source,
    SourceList,
    show_connector,
    show_corpus,
    show_server,
    show_table,
)
from fathom.transport.status import from_status

# A reader waits for the list; a service that takes longer is named as away, and the others' sources are shown.
TIMEOUT_S = 3.0
# Somewhat longer than the services wait for the source.
PROBE_TIMEOUT_S = 20.0
# As many as one answer of retrieval holds.
CORPORA = 100
Probed = Literal["vendor", "database", "tools", "documents"]
Ask = Callable[[Clients], Awaitable[list[Source]]]


async def list_tables(clients: Clients) -> list[Source]:
    found = await clients.datafetch.list_sources(datafetch.ListSourcesRequest(), timeout_s=TIMEOUT_S)
    return [show_table(source) for source in found.sources]


async def list_corpora(clients: Clients) -> list[Source]:
    found = await clients.retrieval.list_corpora(retrieval.ListCorporaRequest(page_size=CORPORA), timeout_s=TIMEOUT_S)
    return [show_corpus(corpus) for corpus in found.corpora]


async def list_connectors(clients: Clients) -> list[Source]:
    found = await clients.datafetch.list_connectors(datafetch.ListConnectorsRequest(), timeout_s=TIMEOUT_S)
    return [show_connector(connector) for connector in found.connectors]


async def list_servers(clients: Clients) -> list[Source]:
    found = await clients.planner.list_tool_servers(planner.ListToolServersRequest(), timeout_s=TIMEOUT_S)
    return [show_server(server) for server in found.servers]


ASKED: tuple[tuple[str, Ask], ...] = (
    ("datafetch", list_connectors),
    ("planner", list_servers),
    ("datafetch", list_tables),
    ("retrieval", list_corpora),
)


async def probe_source(clients: Clients, kind: Probed, name: str) -> Probe:
    """Return how a source answers now; raise the error of a service that does not know it or refuses to try it."""
    if kind == "documents":
        return await probe_corpus(clients, name)
    if kind == "tools":
        server = planner.ProbeToolServerRequest(name=name)
        tried = await clients.planner.probe_tool_server(server, timeout_s=PROBE_TIMEOUT_S)
        return Probe(is_answering=tried.is_answering, failure=tried.failure, duration_ms=tried.duration_ms)
    request = datafetch.ProbeConnectorRequest(name=name, is_database=kind == "database")
    found = await clients.datafetch.probe_connector(request, timeout_s=PROBE_TIMEOUT_S)
    return Probe(is_answering=found.is_answering, failure=found.failure, duration_ms=found.duration_ms)


async def probe_corpus(clients: Clients, name: str) -> Probe:
    """Return how a corpus answers a search for one document; raise ``InvalidField`` for a corpus that is not there."""
    # An id that no query had before: retrieval would answer an equal one from what it holds.
    request = retrieval.SearchRequest(queries=[f"report {new_id('probe')}"], corpus=name, top_k=1)
    began = time.monotonic()
    try:
        response = await clients.retrieval.search(request, timeout_s=PROBE_TIMEOUT_S)
        status = response.results[0].status
        failure = from_status(status).message if status.code else ""
    except InvalidField:
        raise
    except FathomError as error:
        failure = error.message or error.reason
    took = round((time.monotonic() - began) * 1_000)
    return Probe(is_answering=not failure, failure=failure, duration_ms=took)


async def collect_sources(clients: Clients, *, is_operator: bool) -> SourceList:
    """Return the sources of all services that answer in time, and name the others.

    Others than operators are not told settings, hosts, keys and the words of failures.
    """
    answers = await asyncio.gather(*(ask(clients) for _, ask in ASKED), return_exceptions=True)
    found = SourceList(sources=[], away=[])
    for (service, _), answer in zip(ASKED, answers, strict=True):
        if isinstance(answer, FathomError):
            if all(one.service != service for one in found.away):
                found.away.append(Away(service=service, problem=answer.reason))
        elif isinstance(answer, BaseException):
            raise answer
        else:
            found.sources += answer
    if not is_operator:
        for source in found.sources:
            source.operation = None
    return found
