"""Sources that a question leaves out: which tools go with them, and which names are none."""

from __future__ import annotations

import pytest

from fathom.core.errors import InvalidField
from fathom.services.planner.config import Config
from fathom.services.planner.tasks import list_tools_off

WEB = {"name": "web", "url": "http://127.0.0.1:1/mcp", "tools": ["search", "read"]}


def test_the_tools_of_a_source_go_with_it() -> None:
    config = Config.model_validate({"mcp_servers": [WEB]})
    assert list_tools_off(config, []) == frozenset()
    assert list_tools_off(config, ["documents"]) == {"search", "fetch"}
    assert list_tools_off(config, ["data", "web"]) == {"data", "catalogue", "web_search", "web_read"}


def test_what_is_no_source_is_refused_by_its_place() -> None:
    with pytest.raises(InvalidField, match="'news' is not one of data, documents") as refused:
        list_tools_off(Config(), ["documents", "news"])
    assert refused.value.metadata["field"] == "sources_off[1]"
