"""Work of the links without HTTP: who may make and open one, and the page that it shows."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from fathom.api.memory.v1 import memory_pb2 as memory
from fathom.api.planner.v1 import trajectory_pb2 as trajectory
from fathom.core.call import Call, calling, current_call
from fathom.core.errors import FailedPrecondition, FathomError, InvalidField, NotFound, PermissionDenied
from fathom.core.telemetry import Telemetry
from fathom.services.gateway.bodies import MAX_INT32
from fathom.services.gateway.config import Config
from fathom.services.gateway.engine import Engine
from fathom.services.gateway.links.redacting import Redaction, find_private, has_private, list_others, redact
from fathom.services.gateway.links.store import ANYONE, Link, LinkStore, hash_token, make_token
from fathom.services.gateway.reports.collecting import Collector
from fathom.services.gateway.reports.report import Report
from fathom.services.gateway.reports.web_page import write_pages

# Each turn is a run with its tables: a longer conversation shows its latest turns.
MAX_TURNS = 50
# Pages are built from reads of other services; strangers must not take all of this process.
MAX_AT_ONCE, READS_AT_ONCE = 4, 4
MAX_TITLE_CHARS = 200


@dataclass(frozen=True)
class Wish:
    """Wanted link: what it shows, to whom, and for how long."""

    run_id: str
    conversation_id: str
    audience: str
    language: str
    lifetime_s: float
    gives_uploads: bool = False


class Sharing:
    """Makes, lists, withdraws and opens links; each of these leaves a line in the audit log."""

    def __init__(self, config: Config, engine: Engine, links: LinkStore, telemetry: Telemetry) -> None:
        self._config, self._engine, self._links, self._telemetry = config, engine, links, telemetry
        self._collector = Collector(engine)
        self._places = asyncio.Semaphore(MAX_AT_ONCE)

    async def create(self, wish: Wish) -> tuple[Link, str]:
        """Return a new link and its token, which is kept nowhere.

        Raises ``InvalidField`` for a wish that names not exactly one thing, ``NotFound`` for what the caller does not
        have, ``FailedPrecondition`` for a run without an answer and for a link too many, ``PermissionDenied`` where
        links for anyone are off.
        """
        if bool(wish.run_id) == bool(wish.conversation_id):
            raise InvalidField("run_id", "exactly one of run_id and conversation_id must be given")
        if wish.audience == ANYONE and not self._config.public_links:
            raise PermissionDenied("links for anyone are off here (FATHOM_GATEWAY_PUBLIC_LINKS)")
        title, through, runs = await self._describe(wish)
        token, call, now = make_token(), current_call() or Call.new(), self._links.clock()
        about = Link(
            id=hash_token(token), run_id=wish.run_id, conversation_id=wish.conversation_id, through=through,
            audience=wish.audience, language=wish.language, title=title[:MAX_TITLE_CHARS], creator=call.principal,
            created=now, ends=now + wish.lifetime_s, runs=runs, gives_uploads=wish.gives_uploads,
        )  # fmt: skip
        await self._links.add(about)
        self._audit("create link", about.id)
        return about, token

    async def list_links(self, size: int, after: str) -> tuple[list[Link], str]:
        """Return a page of the tenant's links, and where to go on."""
        return await self._links.list_links(size, after)

    async def withdraw(self, link_id: str) -> None:
        """End a link at once; raise ``NotFound``."""
        await self._links.withdraw(link_id)
        self._audit("withdraw link", link_id)

    async def open(self, token: str, *, is_known: bool) -> tuple[str, str]:
        """Return the page of a link and its Content-Security-Policy; ``is_known`` callers have said who they are.

        Raises ``NotFound`` alike for a link that never was, has ended, is another tenant's, or shows what is gone.
        """
        link_id = hash_token(token)
        try:
            call = await self._choose_call(link_id, is_known)
            async with self._places:
                with calling(call):
                    found = await self._links.find(link_id)
                    reports = await self._collect(found)
        except FathomError as error:
            self._audit("open link", link_id, error.code)
            raise
        with calling(call):
            self._audit("open link", link_id)
        return await asyncio.to_thread(write_pages, reports, found.title)

    async def _choose_call(self, link_id: str, is_known: bool) -> Call:
        """Return for whom the link's page is read: the caller, or the tenant that lets anyone look."""
        call = current_call() or Call.new()
        if is_known and await self._is_own(link_id):
            return call
        if not self._config.public_links:
            raise NotFound("link", link_id)
        # By nobody's right but the link's, whoever the caller is.
        return replace(call, tenant=await self._links.find_owner(link_id), principal=f"link:{link_id}")

    async def _is_own(self, link_id: str) -> bool:
        try:
            await self._links.find(link_id)
        except NotFound:
            return False
        return True

    async def _describe(self, wish: Wish) -> tuple[str, int, tuple[str, ...]]:
        """Return the title of what is shared, the number of its last turn, 0 for a run, and the runs that it shows."""
        if wish.run_id:
            run = (await self._engine.read_run(wish.run_id)).trajectory
            if not run.answer.markdown:
                raise FailedPrecondition(f"run {wish.run_id} has no answer to share", metadata={"field": "run_id"})
            return run.question, 0, (wish.run_id,)
        turns = await self._read_turns(wish.conversation_id)
        return turns[0].question, turns[-1].number, tuple(turn.run_id for turn in turns if turn.run_id)

    async def _read_turns(self, conversation_id: str, through: int = MAX_INT32) -> list[memory.Turn]:
        """Return the last turns that lead to a turn, the newest where no number is so large, oldest first."""
        request = memory.ListTurnsRequest(
            conversation_id=conversation_id, page_size=MAX_TURNS, through=through, newest_first=True
        )
        turns = (await self._engine.clients.memory.list_turns(request)).turns
        if not turns:
            raise NotFound("conversation", conversation_id)
        return sorted(turns, key=lambda turn: turn.number)

    async def _list_runs(self, link: Link) -> list[str]:
        """Return the runs that a link shows; raise ``NotFound`` where its conversation is gone."""
        if not link.conversation_id:
            return [link.run_id]
        there = {turn.run_id for turn in await self._read_turns(link.conversation_id, link.through)}
        # Only what its creator has looked at and shared: a conversation that was deleted may have begun anew under its
        # id, and turns of a thread that are gone are replaced by others.
        return [run_id for run_id in link.runs if run_id in there]

    async def _collect(self, link: Link) -> list[Report]:
        runs = await self._list_runs(link)
        places = asyncio.Semaphore(READS_AT_ONCE)

        async def read(run_id: str) -> Report | None:
            async with places:
                try:
                    run = await self._collector.read_run(run_id)
                    withheld = Redaction() if link.gives_uploads else await self._find_private(run)
                    report = await self._collector.collect(redact(run, withheld, link.language), link.language, {})
                    return replace(report, withheld=withheld.places)
                except (NotFound, FailedPrecondition):  # a turn whose run is gone costs only itself
                    return None

        reports = [report for report in await asyncio.gather(*map(read, runs)) if report]
        if not reports:
            raise NotFound("link", link.id)
        return reports

    async def _find_private(self, run: trajectory.Trajectory) -> Redaction:
        others: dict[str, bool] = {}
        for other in list_others(run):
            # One that cannot be read may have had files.
            with suppress(FathomError):
                others[other] = has_private((await self._engine.read_run(other)).trajectory)
        return find_private(run, others)

    def _audit(self, rpc: str, link_id: str, outcome: str = "OK") -> None:
        call = current_call() or Call.new()
        self._telemetry.log.info(
            "audit", tenant=call.tenant, principal=call.principal, rpc=rpc, resource=link_id, outcome=outcome
        )


def describe_link(link: Link) -> dict[str, Any]:
    """Return what a link's tenant is told of it."""
    return {
        "id": link.id,
        "run_id": link.run_id,
        "conversation_id": link.conversation_id,
        "title": link.title,
        "audience": link.audience,
        "language": link.language,
        "gives_uploads": link.gives_uploads,
        "creator": link.creator,
        "created": link.created,
        "ends": link.ends,
    }
