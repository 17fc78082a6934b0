"""Implementation of ``fathom feedback``: list judgements, and export them as training pairs."""

from __future__ import annotations

import asyncio
import json
import os
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import typer

from fathom.api.memory.v1 import memory_pb2 as pb
from fathom.api.planner.v1 import trajectory_pb2 as trajectory
from fathom.api.planner.v1.planner_pb2 import GetConsentRequest
from fathom.clients import Clients, connect
from fathom.clients.local import read_endpoints
from fathom.core.call import Lane
from fathom.core.errors import NotFound
from fathom.core.identity import environment_tenant

PAGE, SHOWN_CHARS = 200, 100


def make_request(
    helpful: bool | None, tag: str, run: str, since: datetime | None, *, edited: bool
) -> pb.ListFeedbackRequest:
    """Return the request for judgements with their turns."""
    request = pb.ListFeedbackRequest(tag=tag, run_id=run, edited=edited, with_turn=True, page_size=PAGE)
    if helpful is not None:
        request.helpful = helpful
    if since is not None:
        request.after.FromDatetime(since.replace(tzinfo=UTC))
    return request


async def read_judgements(clients: Clients, chosen: pb.ListFeedbackRequest) -> AsyncIterator[pb.Feedback]:
    """Yield all judgements of a filter, oldest first."""
    request = pb.ListFeedbackRequest()
    request.CopyFrom(chosen)
    while True:
        page = await clients.memory.list_feedback(request)
        for item in page.feedback:
            yield item
        if not page.next_page_token:
            return
        request.page_token = page.next_page_token


def run_with_clients(
    home: Path, tenant: str, work: Callable[[Clients], Awaitable[None]], lane: Lane = Lane.INTERACTIVE
) -> None:
    """Run ``work`` with clients of a tenant, whose calls are of a lane."""

    async def run() -> None:
        own = environment_tenant(os.environ, tenant)
        clients = connect(dict(read_endpoints(home).services), lane=lane, tenant=own)
        try:
            await work(clients)
        finally:
            await clients.close()

    asyncio.run(run())


def list_judgements(chosen: pb.ListFeedbackRequest, limit: int, gateway: str, tenant: str, home: Path) -> None:
    """Print judgements, each on a line with what was asked, and a link to its run."""

    async def work(clients: Clients) -> None:
        count = 0
        base = gateway or read_endpoints(home).gateway
        async for item in read_judgements(clients, chosen):
            typer.echo(format_judgement(item, base))
            count += 1
            if count == limit:
                return
        if not count:
            typer.echo("no judgement fits")

    run_with_clients(home, tenant, work)


def format_judgement(item: pb.Feedback, gateway: str) -> str:
    """Return a judgement as lines of text."""
    day = item.create_time.ToDatetime(UTC).strftime("%Y-%m-%d %H:%M")
    said = " ".join((item.comment or "").split())[:SHOWN_CHARS]
    parts = [day, "+" if item.helpful else "-", ",".join(item.tags), "edited" if item.edited_answer else "", said]
    asked = " ".join((item.turn.rewritten_question or item.turn.question).split())[:SHOWN_CHARS]
    link = make_page_link(gateway, item) if gateway else item.run_id
    return f"{'  '.join(part for part in parts if part)}\n    {asked or '(turn is gone)'}\n    {link}"


def make_page_link(gateway: str, item: pb.Feedback) -> str:
    """Return the address of the page that shows the judged turn; of its run alone where the turn is gone."""
    page = gateway.rstrip("/")
    if not item.conversation_id:
        return f"{page}/?child=1#{urlencode({'run': item.run_id})}"
    return f"{page}/#{urlencode({'c': item.conversation_id, 'run': item.run_id})}"


def make_pair(item: pb.Feedback) -> Mapping[str, Any] | None:
    """Return a judgement as a training pair; None without its turn."""
    if not item.HasField("turn"):
        return None
    turn = item.turn
    about = {"run_id": item.run_id, "tags": list(item.tags), "comment": item.comment}
    prompt = turn.rewritten_question or turn.question
    if item.edited_answer and item.edited_answer != turn.answer:
        return {"prompt": prompt, "chosen": item.edited_answer, "rejected": turn.answer, **about}
    return {"prompt": prompt, "completion": turn.answer, "label": item.helpful, **about}


def export(target: Path, chosen: pb.ListFeedbackRequest, tenant: str, home: Path) -> None:
    """Write the last judgement of each run whose user has consented, as a pair.

    Exits with status 1, and without a file, when there is none to write.
    """
    lines, counted = list[str](), Counter[str]()

    async def work(clients: Clients) -> None:
        for item in await read_last(clients, chosen):
            pair = make_pair(item)
            if pair is None:
                counted["left out: the turn is gone"] += 1
            elif not await has_consent(clients, item.run_id):
                counted["left out: its user has not consented"] += 1
            else:
                lines.append(json.dumps(pair, ensure_ascii=False) + "\n")
                counted["pairs" if "chosen" in pair else "answers with a thumb"] += 1

    run_with_clients(home, tenant, work)
    said = ", ".join(f"{count} {what}" for what, count in counted.items())
    # An empty file would be taken for judgements by whatever reads it next.
    if not lines:
        typer.echo(f"nothing to export, and nothing was written{said and f': {said}'}")
        raise typer.Exit(1)
    target.write_text("".join(lines), encoding="utf-8")
    typer.echo(f"{target}: {said}")


async def read_last(clients: Clients, chosen: pb.ListFeedbackRequest) -> list[pb.Feedback]:
    """Return the last judgement of each run, of those that fit a filter."""
    # Filtered only here: the service would give an earlier judgement that its user has since taken back.
    everything = pb.ListFeedbackRequest(run_id=chosen.run_id, with_turn=True, page_size=chosen.page_size)
    if chosen.HasField("after"):
        everything.after.CopyFrom(chosen.after)
    last = {item.run_id: item async for item in read_judgements(clients, everything)}
    return [item for item in last.values() if fits(item, chosen)]


def fits(item: pb.Feedback, chosen: pb.ListFeedbackRequest) -> bool:
    """Return whether a judgement has the thumb, the tag and the edit that a filter asks for."""
    has_thumb = not chosen.HasField("helpful") or item.helpful == chosen.helpful
    has_tag = not chosen.tag or chosen.tag in item.tags
    return has_thumb and has_tag and (not chosen.edited or bool(item.edited_answer))


async def has_consent(clients: Clients, run_id: str) -> bool:
    """Return whether the user of a run has consented to training on it."""
    try:
        found = await clients.planner.get_consent(GetConsentRequest(run_id=run_id))
    except NotFound:
        return False
    return found.consent == trajectory.CONSENT_GIVEN
