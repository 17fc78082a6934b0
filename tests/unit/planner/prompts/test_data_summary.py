"""The summary of the data in the system prompt: made from the catalogue, short, the same for all runs."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, cast

import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from fathom.api.datafetch.v1 import datafetch_pb2 as pb
from fathom.clients import Clients
from fathom.core.errors import DependencyFailed
from fathom.domain.chat.messages import Sampling
from fathom.services.planner.config import Config
from fathom.services.planner.model.episode import Episode, Limits, Task
from fathom.services.planner.prompts.catalogue import load_catalogue
from fathom.services.planner.prompts.data_summary import MAX_CHARS, DataSummary, format_summary
from fathom.services.planner.prompts.selection import Prompts
from fathom.services.planner.proto.episode import list_prompts

STOCK = pb.CatalogKind(
    kind="stock", entity_count=21, entities=["AAPL", "AMD", "BAC", "BBY", "CVX"], indicator_count=1, indicators=["close_adj"],
    frequencies=[pb.FREQUENCY_DAILY], first_date="1990-01-02", last_date="2025-02-14", usual_last_date="2022-12-28",
    earliest_last_date="2022-12-28", bases=["total return: adjusted for dividends and splits"],
)  # fmt: skip
INDEX = pb.CatalogKind(
    kind="index", entity_count=3, entities=["NASDAQ", "SP500", "VIX"], indicator_count=1, indicators=["close_adj"],
    frequencies=[pb.FREQUENCY_DAILY], first_date="1990-01-02", last_date="2022-12-28", earliest_last_date="2018-12-31",
)  # fmt: skip
TASK = Task("run_1", "How did Apple do?", "m", Sampling(), Limits(5, 1000, 0.0))


@dataclass
class Datafetch:
    """A datafetch whose catalogue has one overview, or that is away."""

    response: pb.SearchCatalogResponse | None
    asked: list[pb.SearchCatalogRequest] = field(default_factory=list)

    async def search_catalog(self, request: pb.SearchCatalogRequest, timeout_s: float) -> pb.SearchCatalogResponse:
        self.asked.append(request)
        if self.response is None:
            raise DependencyFailed("datafetch", "is away")
        return self.response


@dataclass
class OnlyDatafetch:
    datafetch: Datafetch


def summary_of(datafetch: Datafetch) -> DataSummary:
    return DataSummary(cast(Clients, OnlyDatafetch(datafetch)))


def count_tokens(text: str) -> int:
    """Count as a tokenizer would that splits words every five letters, numbers every three digits, and marks singly."""
    words = re.findall(r"[^\W\d_]+|\d+|[^\w\s]|_", text)
    return sum(-(-len(word) // (3 if word.isdigit() else 5)) for word in words) + text.count("\n")


def test_a_kind_says_how_much_there_is_and_until_when_most_of_it_reaches() -> None:
    text = format_summary(pb.SearchCatalogResponse(kinds=[INDEX, STOCK]))
    assert text.splitlines()[1:] == [
        "- stock: 21 (AAPL, AMD, BAC, BBY, …); close_adj; daily; 1990-01..2022-12; total return",
        "- index: NASDAQ, SP500, VIX; close_adj; daily; 1990-01..2022-12 or earlier",
    ]


def test_outside_sources_are_named_and_no_data_give_no_summary() -> None:
    assert "fred" in format_summary(pb.SearchCatalogResponse(kinds=[STOCK], vendors=["fred"]))
    assert format_summary(pb.SearchCatalogResponse()) == ""


def test_many_kinds_stay_within_three_hundred_tokens() -> None:
    kinds = [pb.CatalogKind.FromString(STOCK.SerializeToString()) for _ in range(40)]
    for number, kind in enumerate(kinds):
        kind.kind = f"kind{number}"
    text = format_summary(pb.SearchCatalogResponse(kinds=kinds))
    assert len(text) <= MAX_CHARS
    assert text.endswith("see `catalogue`")
    assert count_tokens(text) <= 300


async def test_the_catalogue_is_asked_once_for_each_point_in_time() -> None:
    datafetch = Datafetch(pb.SearchCatalogResponse(kinds=[STOCK]))
    summary, then = summary_of(datafetch), Timestamp()
    then.FromDatetime(datetime(2010, 1, 1))
    texts = [await summary.describe(as_of) for as_of in (None, None, then, then)]
    assert len(set(texts)) == 1
    assert [request.HasField("as_of") for request in datafetch.asked] == [False, True]


async def test_a_catalogue_that_is_away_costs_the_summary_and_is_asked_again() -> None:
    datafetch: Any = Datafetch(None)
    summary = summary_of(datafetch)
    assert await summary.describe(None) == ""
    with pytest.raises(DependencyFailed, match="away"):
        await summary.load(None)
    datafetch.response = pb.SearchCatalogResponse(kinds=[STOCK])
    assert "stock" in await summary.describe(None)


def test_the_system_prompt_ends_in_it_the_hash_covers_it_and_the_record_names_it() -> None:
    prompts, told = Prompts.of(load_catalogue(), Config.model_validate({})), replace(TASK, data_summary="Data: none")
    assert prompts.system(told) == f"{prompts.system(TASK)}\n\nData: none"
    assert prompts.hash(told) != prompts.hash(TASK)
    chosen = prompts.choose(TASK.question)
    recorded = list_prompts(Episode(replace(told, prompts=chosen), ()).task)
    assert recorded == {**chosen, "data": told.summary_name}
    # A replay gets the record's names back.
    assert prompts.system(replace(TASK, prompts=recorded)) == prompts.system(TASK)
    assert "data" not in list_prompts(TASK)
