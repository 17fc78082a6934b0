"""Reconciliation of this replica with the desired serving state in the key-value bucket ``SERVING``.

An activation loads the version here first, writes the desired state by compare-and-set, and then swaps it in. So this
replica never writes a version that it could not load, and of two concurrent activations one fails with ``Conflict``.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from contextlib import aclosing, suppress
from functools import partial
from typing import Any

from fathom.bus.base import Bus, Entry, KeyValue
from fathom.bus.streams import SERVING, weights_subject
from fathom.call import Lane
from fathom.errors import Conflict, CorruptData, FathomError, Internal, InvalidField, NotFound
from fathom.ids import checked_id
from fathom.protocol.serving import PREFIX, Notice, Serving, Share, key_of
from fathom.store.base import StoredObject
from services.policy.config import Config
from services.policy.downloads import Downloads
from services.policy.line import Line
from services.policy.metrics import PolicyMetrics
from services.policy.retention import Retention

ATTEMPTS = 5
FIRST_DELAY_S, MAX_DELAY_S = 0.25, 30.0
NEW_NOTICES = "fathom.weights.*"


class Versions:
    """Reconciler of all models of this replica. ``new_line`` creates a model that is not in the settings."""

    def __init__(
        self,
        lines: dict[str, Line],
        new_line: Callable[[str], Line],
        downloads: Downloads,
        bus: Bus,
        log: Any,
        metrics: PolicyMetrics,
        config: Config,
    ) -> None:
        self._lines, self._new_line, self._downloads = lines, new_line, downloads
        self._bus, self._log, self._metrics, self._budget_s = bus, log, metrics, config.fetch_budget_s
        self._keys: KeyValue = bus.bucket(SERVING)
        self._retention = Retention(downloads.store, self._keys, config.kept_versions, config.retire_after_s, log)
        self._creating: dict[str, Line] = {}
        self._creators: Counter[str] = Counter()
        self._tasks: set[asyncio.Task[None]] = set()
        self._announced: dict[str, Notice] = {}
        self._news = asyncio.Event()

    async def start(self, ready_wait_s: float) -> None:
        """Apply the desired state, waiting at most ``ready_wait_s`` seconds, then follow changes in the background."""
        first = []
        for key in await self._keys.keys():
            entry = await self._keys.get(key)
            if entry is not None and (line := self._line_of(entry)) is not None:
                first.append(asyncio.create_task(self._converge(line), name=f"converging {line.name}"))
        if first:
            await asyncio.wait(first, timeout=ready_wait_s)
        for task in first:
            self._track(task)
        self._spawn(self._follow(), "following the served versions")
        self._spawn(self._listen(), "listening for published weights")
        self._spawn(self._prefetch(), "fetching published weights")

    def _spawn(self, work: Any, name: str) -> None:
        self._track(asyncio.create_task(work, name=name))

    def _track(self, task: asyncio.Task[Any]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        tasks = set(self._tasks)
        while tasks:  # more than once: a wait that ends at the same moment swallows a cancellation
            for task in tasks:
                task.cancel()
            _, tasks = await asyncio.wait(tasks, timeout=1.0)

    async def activate(
        self, name: str, version: int, manifest: StoredObject | None, lanes: Collection[Lane], percent: int
    ) -> tuple[Line, int]:
        """Activate a version in ``lanes`` (none: all): in this replica before returning, in the others shortly after.

        Without a manifest, uses the one published last under this number. Returns the model and the version served
        before (0 if none). Raises ``NotFound``, ``CorruptData``, ``InvalidField``, ``FailedPrecondition``, ``Conflict``
        when the same lanes were changed concurrently, or an error of the store or the bus; the previous version then
        stays active.
        """
        if (known := self._lines.get(checked_id("model", name))) is not None:
            known.check_takes_weights()
        share = await self._share(name, version, manifest, percent)
        started, line = time.monotonic(), self._known(name)
        self._creators[name] += 1
        try:
            async with line.lock:
                before = line.main
                previous = before.version if before else 0
                await self._change(line, share, tuple(lanes))
                self._lines[name] = line
        finally:
            self._creators[name] -= 1
            if not self._creators[name]:
                del self._creators[name]
                self._creating.pop(name, None)
        await self._downloads.prune(name, line.idents)
        self._told(line, time.monotonic() - started)
        self._spawn(self._retire(name), f"removing old weights of {name}")
        return line, previous

    async def _retire(self, name: str) -> None:
        """Delete old published versions; a failure is logged, and the next activation tries again."""
        try:
            await self._retention.retire(name)
        except FathomError as error:
            self._log.warning("old weights not removed", model=name, error=error.message)

    def _known(self, name: str) -> Line:
        """Return the model of a name; a new one is registered only once it serves a version."""
        if name in self._lines:
            return self._lines[name]
        return self._creating.get(name) or self._creating.setdefault(name, self._new_line(name))

    async def _share(self, name: str, version: int, manifest: StoredObject | None, percent: int) -> Share:
        if version == 0 and manifest is None and name in self._lines:
            return Share(0, percent, None)
        ref = manifest or await self._downloads.published(name, version)
        share = await self._downloads.share(name, version, ref, percent)
        assert share.manifest is not None
        await self._announce(Notice(name, version, share.manifest))
        return share

    async def _announce(self, notice: Notice) -> None:
        """Publish a notice so that other replicas prefetch while this one loads; best effort."""
        subject = weights_subject(notice.model)
        try:
            await self._bus.publish(subject, notice.to_json(), message_id=notice.message_id)
        except FathomError as error:
            self._log.warning("weights not announced", model=notice.model, version=notice.version, error=error.message)

    async def _change(self, line: Line, share: Share, lanes: Sequence[Lane]) -> None:
        began: Serving | None = None
        for _ in range(ATTEMPTS):
            truth, revision = await self._truth(line.name)
            if began is None:
                began = truth
            elif any(truth.lanes.get(lane) != began.lanes.get(lane) for lane in lanes or tuple(Lane)):
                raise Conflict(
                    f"model {line.name!r}: somebody else activated another version meanwhile",
                    metadata={"model": line.name, "field": "policy_version"},
                )
            wanted = truth.with_version(share.version, share.manifest, lanes, share.percent)
            plan = await line.stage(wanted, partial(self._downloads.fetch, line.name, budget_s=self._budget_s))
            try:
                if wanted != truth:
                    revision = await self._keys.put(key_of(line.name), wanted.to_json(), revision=revision)
            except Conflict:
                await plan.discard()
                continue
            except BaseException:
                await plan.discard()
                raise
            try:
                await line.commit(plan)
            except BaseException:
                await self._restore(truth, revision)
                raise
            return
        raise Conflict(f"model {line.name!r}: the served versions changed {ATTEMPTS} times meanwhile")

    async def _truth(self, name: str) -> tuple[Serving, int]:
        """Return the desired state and its revision.

        An unreadable entry counts as empty, so that an activation repairs it.
        """
        entry = await self._keys.get(key_of(name))
        if entry is None or entry.value is None:
            return Serving(name, {}), 0
        try:
            return Serving.from_json(entry.value, entry.key), entry.revision
        except CorruptData as error:
            self._log.warning("serving entry is replaced", model=name, error=error.message)
            return Serving(name, {}), entry.revision

    async def _restore(self, truth: Serving, revision: int) -> None:
        """Revert the desired state to ``truth`` unless it has been changed since ``revision``."""
        with suppress(FathomError):
            if truth.lanes:
                await self._keys.put(key_of(truth.model), truth.to_json(), revision=revision)
            else:
                await self._keys.delete(key_of(truth.model), revision=revision)

    async def promised(self, name: str, version: int) -> bool:
        """Return whether the desired state has this version of the model (0: any).

        Reads the bucket, because this replica may not have seen the latest state yet.
        """
        try:
            truth, _ = await self._truth(name)
        except InvalidField:  # no model can have this name
            return False
        return any(version in (0, share.version) for share in truth.shares().values())

    def _told(self, line: Line, seconds: float) -> None:
        self._metrics.swap_seconds.labels(line.name).observe(seconds)
        for lane, shares in (line.serving.lanes if line.serving else {}).items():
            main = max(shares, key=lambda share: share.percent)
            self._metrics.version.labels(line.name, lane.value).set(main.version)
        served = sorted(line.idents)
        self._log.info("versions served", model=line.name, served=served, seconds=round(seconds, 3))

    async def _follow(self) -> None:
        """Wake the reconciliation of the model of every changed entry, until the bus is closed."""
        while True:
            try:
                async with aclosing(self._keys.watch()) as entries:
                    async for entry in entries:
                        if (line := self._line_of(entry)) is not None:
                            line.changed.set()
                return  # the bus is closed
            except FathomError as error:
                self._log.warning("served versions cannot be followed", error=error.message)
                await asyncio.sleep(1.0)

    def _line_of(self, entry: Entry) -> Line | None:
        """Return the model of an entry and start reconciling it; None for an entry that belongs to no model."""
        name = entry.key.removeprefix(PREFIX)
        try:
            if not entry.key.startswith(PREFIX) or key_of(name) != entry.key:
                return None
        except FathomError:
            return None
        if name not in self._lines and entry.value is None:
            return None
        line = self._lines[name] = self._known(name)
        if line.kept is False:
            line.kept = True
            line.changed.set()
            self._spawn(self._keep(line), f"keeping {name} at its versions")
        return line

    async def _keep(self, line: Line) -> None:
        """Reconcile a model whenever its desired state changes; retry failures with exponential backoff."""
        delay_s = FIRST_DELAY_S
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(delay_s if may_pass(line.problem) else None):
                    await line.changed.wait()
            fresh = line.changed.is_set()
            line.changed.clear()
            delay_s = FIRST_DELAY_S if fresh else min(delay_s * 2, MAX_DELAY_S)
            await self._converge(line)

    async def _converge(self, line: Line) -> None:
        """Apply the desired state of a model; on failure keep serving the current versions and store the error."""
        started = time.monotonic()
        async with line.lock:
            try:
                entry = await self._keys.get(key_of(line.name))
                value = entry.value if entry else None
                serving = Serving(line.name, {}) if value is None else Serving.from_json(value, key_of(line.name))
                if serving == (line.serving or Serving(line.name, {})):
                    line.problem = None
                    return
                line.wanted = serving
                await line.commit(await line.stage(serving, partial(self._downloads.fetch, line.name)))
            except Exception as error:
                problem = error if isinstance(error, FathomError) else Internal(f"{type(error).__name__}: {error}")
                line.problem = problem
                self._metrics.load_failures.labels(line.name, problem.reason).inc()
                self._log.warning("version cannot be served", model=line.name, error=problem.message)
                return
        await self._downloads.prune(line.name, line.idents)
        self._told(line, time.monotonic() - started)

    async def _listen(self) -> None:
        """Record published versions, keeping the newest notice of each model."""
        try:
            async with aclosing(self._bus.follow(NEW_NOTICES)) as notices:
                async for delivery in notices:
                    try:
                        notice = Notice.from_json(delivery.payload, delivery.subject)
                    except CorruptData as error:
                        self._log.warning("notice of weights is skipped", error=error.message)
                        continue
                    self._announced[notice.model] = notice
                    self._news.set()
        except FathomError as error:  # only a convenience: the truth is followed all the same
            self._log.warning("notices of weights are not heard any more", error=error.message)

    async def _prefetch(self) -> None:
        """Download announced versions of models served here, so that activating them is faster."""
        while True:
            await self._news.wait()
            self._news.clear()
            while self._announced:
                notice = self._announced.pop(next(iter(self._announced)))
                line = self._lines.get(notice.model)
                main = line.main if line else None
                if main is None or notice.version <= main.version:
                    continue
                try:
                    await self._downloads.fetch_ahead(notice.model, Share(notice.version, 100, notice.manifest))
                except FathomError as error:
                    self._log.warning(
                        "weights not fetched ahead", model=notice.model, version=notice.version, error=error.message
                    )


def may_pass(problem: FathomError | None) -> bool:
    """Return whether a retry may succeed.

    ``NotFound`` counts, because the object may still be replicating to this store.
    """
    return problem is not None and (problem.transient or isinstance(problem, NotFound))
