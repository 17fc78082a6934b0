"""Sources that a question leaves out: which tools go with them, and which names are none."""

from __future__ import annotations

from typing import cast

import pytest

from fathom.api.datafetch.v1 import datafetch_pb2 as pb
from fathom.clients import Clients
from fathom.core.errors import InvalidField
from fathom.services.planner.config import Config
from fathom.services.planner.sources import check_vendors_off, list_tools_off, list_vendors_off

WEB = {"name": "web", "url": "http://127.0.0.1:1/mcp", "tools": ["search", "read"]}


def test_the_tools_of_a_source_go_with_it() -> None:
    config = Config.model_validate({"mcp_servers": [WEB]})
    assert list_tools_off(config, []) == frozenset()
    assert list_tools_off(config, ["documents"]) == {"search", "fetch"}
    assert list_tools_off(config, ["data", "web"]) == {"data", "catalogue", "web_search", "web_read"}


def test_what_is_no_source_is_refused_by_its_place() -> None:
    with pytest.raises(InvalidField, match="'news' is not one of data, documents, vendor:NAME") as refused:
        list_tools_off(Config(), ["documents", "news"])
    assert refused.value.metadata["field"] == "sources_off[1]"


class Vendors:
    """A datafetch with one vendor and one database; it counts how often it is asked for them."""

    def __init__(self) -> None:
        self.asked = 0
        self.datafetch = self

    async def list_connectors(self, request: pb.ListConnectorsRequest) -> pb.ListConnectorsResponse:
        self.asked += 1
        return pb.ListConnectorsResponse(
            connectors=[pb.Connector(name="fred"), pb.Connector(name="desk", is_database=True)]
        )


async def test_a_vendor_goes_alone_and_an_unknown_one_is_refused_by_its_place() -> None:
    vendors = Vendors()
    clients = cast(Clients, vendors)
    assert list_tools_off(Config(), ["vendor:fred", "documents"]) == {"search", "fetch"}
    assert list_vendors_off(["vendor:fred", "documents"]) == ("fred",)
    await check_vendors_off(clients, ["documents"])
    assert vendors.asked == 0
    await check_vendors_off(clients, ["documents", "vendor:fred"])
    # A database has tables of its own; only what is asked beside the tables can be left out.
    for name in ("vendor:desk", "vendor:other"):
        with pytest.raises(InvalidField, match=f"'{name}' is not one of vendor:fred") as refused:
            await check_vendors_off(clients, ["vendor:fred", name])
        assert refused.value.metadata["field"] == "sources_off[1]"
