"""Test what runs have used, summed by day and model from the pages of the list."""

from __future__ import annotations

import io
from datetime import UTC, date, datetime
from typing import Any

from fathom.api.common.v1.common_pb2 import Usage
from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.cli.records.usage import Sum, format_sum, sum_usage
from fathom.clients import Clients
from fathom.core.call import Call
from fathom.core.telemetry import Telemetry
from fathom.transport.rpc.dispatch import Dispatcher
from fathom.transport.rpc.service import Service


def summarise(run_id: str, began: datetime, model: str = "", usage: Usage | None = None) -> pb.RunSummary:
    found = pb.RunSummary(run_id=run_id, model=model, usage=usage)
    found.start_time.FromDatetime(began)
    return found


class Planner:
    """Lists two runs a page, newest first, whatever size is asked for."""

    def __init__(self, *runs: pb.RunSummary) -> None:
        self._runs, self.pages = runs, 0

    async def ListRuns(self, request: pb.ListRunsRequest, call: Call) -> pb.ListRunsResponse:
        self.pages += 1
        at = int(request.page_token or 0)
        more = str(at + 2) if at + 2 < len(self._runs) else ""
        return pb.ListRunsResponse(runs=self._runs[at : at + 2], next_page_token=more)


def connect(planner: Any) -> Clients:
    telemetry = Telemetry("planner", stream=io.StringIO())
    dispatcher = Dispatcher(Service("planner", planner), telemetry)
    dispatcher.ready = True
    return Clients({"planner": "inproc://planner"}, telemetry, dispatchers={"planner": dispatcher})


async def test_usage_is_summed_by_day_and_model_and_older_runs_are_not_read() -> None:
    used = Usage(prompt_tokens=1_000, completion_tokens=20, cached_tokens=400, reasoning_tokens=5, cost=0.25)
    planner = Planner(
        summarise("still-runs", datetime(2026, 3, 2, 12, tzinfo=UTC), "large"),
        summarise("late", datetime(2026, 3, 2, 11, tzinfo=UTC), "large", used),
        summarise("early", datetime(2026, 3, 2, 0, tzinfo=UTC), "large", used),
        summarise("other", datetime(2026, 3, 1, 23, 59, tzinfo=UTC), "", Usage(prompt_tokens=7)),
        summarise("too-old", datetime(2026, 2, 28, tzinfo=UTC), "large", used),
        summarise("older", datetime(2026, 2, 27, tzinfo=UTC), "large", used),
        summarise("oldest", datetime(2026, 2, 26, tzinfo=UTC), "large", used),
    )
    sums, unknown = await sum_usage(connect(planner), datetime(2026, 3, 1, tzinfo=UTC))
    assert sums == {
        (date(2026, 3, 2), "large"): Sum(2, (2_000, 800, 40, 10), 0.5),
        (date(2026, 3, 1), ""): Sum(1, (7, 0, 0, 0), 0.0),
    }
    assert unknown == 1
    assert planner.pages == 3  # the last page of four would hold nothing of these days
    assert format_sum(sums[date(2026, 3, 2), "large"]) == ("2", "2,000", "800", "40", "10", "0.5000")
