"""Mirrors a bounded share of users' runs to a candidate as they end, until the gate decides.

Nothing of it reaches a user: it begins when the answer is there, plays rollouts in the lane ``training`` with tools
that only read, and keeps its results where the run's tenant keeps its own. Counts of outcomes alone leave a tenant.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import asdict, dataclass
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge

from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.clients import Clients
from fathom.core.call import Call, Lane, calling
from fathom.core.errors import CorruptData, FathomError, InvalidField, NotFound, is_retryable
from fathom.core.retry import Retries, RetryPolicy, always
from fathom.operations.monitoring.grades import Draw
from fathom.operations.shadow.config import Config
from fathom.operations.shadow.gate import Decision, Outcome, Verdict, judge_as_they_come
from fathom.operations.shadow.mirror import Mirror
from fathom.transport.bus.base import Bus
from fathom.transport.bus.streams import ALL_EVENTS, owner_of
from fathom.transport.store import ObjectStore
from fathom.transport.store.tenant import TenantStore

# The bus may be away for as long as a restart takes, many times a day.
PAUSES = RetryPolicy(attempts=None, first_delay_s=1.0, max_delay_s=60.0)
FULL = "full"


@dataclass(frozen=True)
class Metrics:
    """Metrics of one experiment."""

    outcomes: Counter
    skipped: Counter
    rate: Gauge
    decision: Gauge

    @classmethod
    def register(cls, registry: CollectorRegistry) -> Metrics:
        return cls(
            Counter("fathom_shadow_outcomes", "Mirrored questions by outcome", ("outcome",), registry=registry),
            Counter("fathom_shadow_skipped", "Drawn runs not played, by reason", ("reason",), registry=registry),
            Gauge("fathom_shadow_win_rate", "Win rate and its interval", ("bound",), registry=registry),
            Gauge("fathom_shadow_decision", "1 for the gate's decision", ("decision",), registry=registry),
        )

    def show(self, verdict: Verdict) -> None:
        """Set the gauges."""
        for bound in ("low", "rate", "high"):
            self.rate.labels(bound).set(getattr(verdict, bound))
        for decision in Decision:
            self.decision.labels(decision.value).set(decision is verdict.decision)


@dataclass(frozen=True)
class End:
    """A tenant's run that has ended."""

    tenant: str
    run_id: str


class LiveMirror:
    """Mirrors in ``run`` until the gate decides, so many questions were compared as allowed, or it is cancelled."""

    def __init__(
        self,
        config: Config,
        clients: Clients,
        store: ObjectStore,
        bus: Bus,
        registry: CollectorRegistry,
        log: Any,
        say: Callable[[Verdict], None],
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Create the mirror; ``say`` is told of each verdict, ``clock`` returns seconds since the epoch.

        Raise ``InvalidField`` for a share of 0 or a side that is no model.
        """
        if not config.share:
            raise InvalidField("share", "is 0, which mirrors nothing; set FATHOM_SHADOW_SHARE")
        self._config, self._bus, self._log, self._say, self._since = config, bus, log, say, clock()
        self._experiment = config.experiment
        self._mirror = Mirror(clients, TenantStore(store), self._experiment)
        # Beside the tenants' results, of which it has only the outcomes; bound to none of them.
        self._store, self._key = store, f"{self._experiment.folder.rstrip('/')}.json"
        self._metrics = Metrics.register(registry)
        self._draw = Draw(config.share, config.seed)
        self._ends: asyncio.Queue[End] = asyncio.Queue(config.waiting)
        self._outcomes: list[Outcome] = []
        self._read = 0
        self.ready = False
        """True when it knows the outcomes of an earlier process, and follows or has decided."""
        self._over = asyncio.Event()
        self._writing = asyncio.Lock()

    @property
    def verdict(self) -> Verdict:
        """Return what the outcomes so far say."""
        return judge_as_they_come(self._outcomes, self._config.gate)

    async def run(self) -> None:
        """Mirror until it is decided; raise ``FathomError`` for what concerns the whole experiment."""
        await self._restore()
        self._tell()
        self.ready = True
        duties = [asyncio.create_task(self._over.wait()), asyncio.create_task(self._follow())]
        duties += [asyncio.create_task(self._play()) for _ in range(self._config.in_flight)]
        try:
            done, _ = await asyncio.wait(duties, return_when=asyncio.FIRST_COMPLETED)
            for duty in done:
                duty.result()
        finally:
            for duty in duties:
                duty.cancel()
            await asyncio.gather(*duties, return_exceptions=True)

    async def _follow(self) -> None:
        """Put drawn ends into the queue; go on at the same position when the bus returns."""
        retries = Retries(PAUSES, is_retryable=always)
        while True:
            try:
                async with aclosing(self._bus.follow(ALL_EVENTS, after=self._read)) as deliveries:
                    async for delivery in deliveries:
                        self._take_event(pb.RunEvent.FromString(delivery.payload), owner_of(delivery.subject))
                        self._read = delivery.sequence
                        retries.reset()
            except FathomError as error:
                if not is_retryable(error):  # one event cannot be read: the next one is behind it
                    self._read += 1
                    self._metrics.skipped.labels(error.code).inc()
                await asyncio.sleep(retries.next_delay_s(error))

    def _take_event(self, event: pb.RunEvent, tenant: str) -> None:
        is_new = event.time.ToMicroseconds() / 1e6 >= self._since
        if not (is_new and event.HasField("finished") and self._draw.takes(event.run_id)):
            return
        try:
            self._ends.put_nowait(End(tenant, event.run_id))
        except asyncio.QueueFull:
            # A queue that grew would be played when the questions in it are long past.
            self._metrics.skipped.labels(FULL).inc()

    async def _play(self) -> None:
        while not self._over.is_set():
            end = await self._ends.get()
            # As calls of its tenant, who alone can read the run and the results.
            with calling(Call.new(lane=Lane.TRAINING, tenant=end.tenant)):
                try:
                    result = await self._mirror.mirror(end.run_id)
                except FathomError as error:
                    if not (is_retryable(error) or isinstance(error, NotFound)):
                        raise
                    self._metrics.skipped.labels(error.code).inc()
                    self._log.warning("not mirrored", run_id=end.run_id, reason=error.reason, error=error.message)
                    continue
            self._metrics.outcomes.labels(result.outcome.value).inc()
            self._log.info("mirrored", run_id=end.run_id, outcome=result.outcome.value, reason=result.reason)
            if result.outcome is not Outcome.FAILED:
                await self._keep(result.outcome)

    async def _keep(self, outcome: Outcome) -> None:
        async with self._writing:
            if self._over.is_set():
                return
            self._outcomes.append(outcome)
            content = {"read": self._read, "outcomes": self._outcomes, "verdict": asdict(self.verdict)}
            await self._store.put(self._key, json.dumps(content).encode(), "application/json")
            self._tell()

    async def _restore(self) -> None:
        """Go on with the outcomes of an earlier process."""
        try:
            content = json.loads(await self._store.get(self._key))
            self._read, self._outcomes = int(content["read"]), [Outcome(name) for name in content["outcomes"]]
        except NotFound:
            return
        except (ValueError, KeyError, TypeError) as error:
            raise CorruptData(self._key, str(error)) from error

    def _tell(self) -> None:
        verdict = self.verdict
        self._metrics.show(verdict)
        self._say(verdict)
        if verdict.decision is not Decision.UNDECIDED or len(self._outcomes) >= self._config.most:
            self._over.set()
