"""Implementation of ``fathom runs usage``: tokens and cost of the runs of whoever asks, by day and model."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

from rich.console import Console

from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.cli.console import make_table, open_console
from fathom.cli.records.runs import with_planner
from fathom.clients import Clients

PAGE = 500
FIELDS = ("prompt_tokens", "cached_tokens", "completion_tokens", "reasoning_tokens")
HEADINGS = ("prompt", "of it cached", "sampled", "of it thoughts")


@dataclass
class Sum:
    """Tokens and cost of several runs together."""

    runs: int = 0
    tokens: tuple[int, ...] = (0,) * len(FIELDS)
    cost: float = 0.0

    def add(self, run: pb.RunSummary) -> None:
        """Count a run."""
        self.runs += 1
        self.tokens = tuple(sum(pair) for pair in zip(self.tokens, read_tokens(run), strict=True))
        self.cost += run.usage.cost

    def join(self, other: Sum) -> None:
        """Count what other runs have used."""
        self.runs += other.runs
        self.tokens = tuple(sum(pair) for pair in zip(self.tokens, other.tokens, strict=True))
        self.cost += other.cost


def read_tokens(run: pb.RunSummary) -> tuple[int, ...]:
    """Return the tokens of a run by the fields that are shown."""
    return tuple(getattr(run.usage, name) for name in FIELDS)


async def list_since(clients: Clients, first: datetime) -> AsyncIterator[pb.RunSummary]:
    """Yield runs that began at a moment or later, newest first, delegated ones too."""
    token = ""
    while True:
        page = await clients.planner.list_runs(pb.ListRunsRequest(page_size=PAGE, page_token=token))
        for run in page.runs:
            # Runs of before there was an index come last, without order: their usage is in their records alone.
            if run.start_time.ToDatetime(UTC) < first:
                return
            yield run
        token = page.next_page_token
        if not token:
            return


async def sum_usage(clients: Clients, first: datetime) -> tuple[dict[tuple[date, str], Sum], int]:
    """Return what runs have used by day (UTC) and model, and how many have no usage, since they run or are older."""
    sums, unknown = defaultdict[tuple[date, str], Sum](Sum), 0
    async for run in list_since(clients, first):
        if run.HasField("usage"):
            sums[run.start_time.ToDatetime(UTC).date(), run.model].add(run)
        else:
            unknown += 1
    return dict(sums), unknown


def show_usage(home: Path, planner: str, days: int) -> None:
    """Print what the runs of the last days, today included, have used."""

    async def work(clients: Clients) -> int:
        first = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=days - 1)
        sums, unknown = await sum_usage(clients, first)
        table, whole = make_table("day", "model", "runs", *HEADINGS, "cost", whole="day"), Sum()
        for (day, model), one in sorted(sums.items()):
            table.add_row(day.isoformat(), model or "(default)", *format_sum(one))
            whole.join(one)
        table.add_row("all", "", *format_sum(whole), style="bold")
        open_console().print(table)
        if unknown:
            Console().print(f"{unknown} more run, or ended before usage was listed (fathom runs show has theirs).")
        return 0

    with_planner(home, planner, work)


def format_sum(one: Sum) -> tuple[str, ...]:
    """Return the cells of a line."""
    return (f"{one.runs:,}", *(f"{count:,}" for count in one.tokens), f"{one.cost:,.4f}")
