"""Sources as the services behind a gateway list them: tables, corpora, vendors in every state, servers of tools."""

from __future__ import annotations

from typing import Any

from fathom.api.common.v1 import common_pb2 as common
from fathom.api.datafetch.v1 import datafetch_pb2 as data
from fathom.api.planner.v1 import planner_pb2 as planner
from fathom.api.retrieval.v1 import retrieval_pb2 as retrieval
from fathom.core.call import Call
from fathom.core.errors import DependencyFailed, InvalidField
from fathom.services.datafetch.sources.base import VendorOff
from fathom.transport.status import OK, to_status

# 2023-11-14 22:13:20 UTC.
NOON = 1_700_000_000
REFUSED = "edgar: answers 403, its terms want a name and an e-mail address"


def contact(*, answered: int = 0, failed: int = 0, failure: str = "") -> common.Contact:
    """Return a contact whose moments are so many seconds after ``NOON``, 0 for never."""
    message = common.Contact(failure=failure)
    for name, seconds in (("tried", max(answered, failed)), ("answered", answered), ("failed", failed)):
        if seconds:
            getattr(message, name).FromSeconds(NOON + seconds)
    return message


def vendor(name: str, kind: str, markets: list[str], **fields: Any) -> data.Connector:
    offers = [data.ConnectorOffer(kind=kind, markets=markets)]
    found = data.Connector(name=name, offers=offers, setting="datafetch.connectors.enabled")
    found.MergeFrom(data.Connector(**fields))
    return found


# Doubles of the services that know sources: their real ones need vendors, which no test may ask.
class ConnectorSources:
    """Two bundled tables, one of them unread, and connectors in every state."""

    async def ListSources(self, request: data.ListSourcesRequest, call: Call) -> data.ListSourcesResponse:
        prices = data.Source(id="prices", as_of="2022-12-28", description="Daily prices of 20 US stocks")
        broken = data.Source(id="macro", description="US series", failure="the package fedstl is not here")
        return data.ListSourcesResponse(sources=[prices, broken])

    async def ListConnectors(self, request: data.ListConnectorsRequest, call: Call) -> data.ListConnectorsResponse:
        failing = contact(answered=60, failed=120, failure=REFUSED)
        connectors = [
            vendor("akshare", "prices", ["cn", "hk"], is_enabled=True, contact=contact(answered=180)),
            vendor("edgar", "statements", ["us"], is_enabled=True, credential=common.CREDENTIAL_SET, contact=failing),
            vendor("fred", "series", ["world"], credential=common.CREDENTIAL_MISSING),
            vendor("worldbank", "series", ["world"], is_enabled=True, contact=contact()),
            vendor("yfinance", "prices", ["cn", "hk", "us"], is_enabled=True, is_paused=True, contact=failing),
            data.Connector(name="desk", is_database=True, is_enabled=True, setting="datafetch.databases.desk"),
        ]
        return data.ListConnectorsResponse(connectors=connectors)

    async def ProbeConnector(self, request: data.ProbeConnectorRequest, call: Call) -> data.ProbeConnectorResponse:
        """Answer for all but one, which refuses."""
        if request.name == "fred":
            raise VendorOff("fred", "datafetch.connectors.enabled to hold fred")
        failure = REFUSED if request.name == "edgar" else ""
        return data.ProbeConnectorResponse(is_answering=not failure, failure=failure, duration_ms=420)


class CorpusSources:
    """One corpus that answers; of others that are asked for, one is torn, one is in a store that is away."""

    searched: list[str]

    async def Search(self, request: retrieval.SearchRequest, call: Call) -> retrieval.SearchResponse:
        self.searched += request.queries
        if request.corpus == "broken":
            raise DependencyFailed("store", "is away")
        if request.corpus not in ("notes", "torn"):
            raise InvalidField("corpus", "is none of: notes, torn, broken")
        torn = to_status(DependencyFailed("index", "its file is cut off"))
        status = torn if request.corpus == "torn" else OK
        return retrieval.SearchResponse(results=[retrieval.SearchResult(status=status)])

    async def ListCorpora(self, request: retrieval.ListCorporaRequest, call: Call) -> retrieval.ListCorporaResponse:
        corpus = retrieval.Corpus(name="notes", description="Notes of this package", documents=120)
        corpus.as_of.FromSeconds(NOON)
        return retrieval.ListCorporaResponse(corpora=[corpus])


class ToolSources:
    """One server of tools that is connected and lacks a tool, and one that never was."""

    async def ProbeToolServer(
        self, request: planner.ProbeToolServerRequest, call: Call
    ) -> planner.ProbeToolServerResponse:
        """Answer for the connected one."""
        failure = "" if request.name == "acme" else "FileNotFoundError: No such file or directory"
        return planner.ProbeToolServerResponse(is_answering=not failure, failure=failure, duration_ms=420)

    async def ListToolServers(
        self, request: planner.ListToolServersRequest, call: Call
    ) -> planner.ListToolServersResponse:
        acme = planner.ToolServer(
            name="acme", host="tools.acme.example", tools=["quote", "news"], missing_tools=["news"]
        )
        acme.is_connected, acme.credential = True, common.CREDENTIAL_SET
        acme.contact.CopyFrom(contact(answered=200))
        broken = planner.ToolServer(name="desk", is_program=True, tools=["positions"], missing_tools=["positions"])
        broken.contact.CopyFrom(contact(failed=30, failure="FileNotFoundError"))
        return planner.ListToolServersResponse(servers=[acme, broken])
