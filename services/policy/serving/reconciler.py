"""Reconciliation of this replica with the desired serving state in the key-value bucket ``SERVING``.

An activation loads the version here first, writes the desired state by compare-and-set, and then swaps it in.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from contextlib import aclosing, suppress
from functools import partial
from typing import Any

from fathom.core.call import Lane
from fathom.core.errors import Conflict, CorruptData, FathomError, Internal, InvalidField, NotFound
from fathom.core.ids import checked_id
from fathom.core.retry import Retries, RetryPolicy, always
from fathom.domain.weights.serving import PREFIX, Notice, Serving, Share, key_of
from fathom.services.policy.config import Config
from fathom.services.policy.metrics import PolicyMetrics
from fathom.services.policy.serving.downloads import Downloads
from fathom.services.policy.serving.model_versions import ModelVersions
from fathom.services.policy.serving.retention import Retention
from fathom.transport.bus.base import Bus, Entry, KeyValue
from fathom.transport.bus.streams import SERVING, weights_subject
from fathom.transport.store.base import StoredObject

# Each attempt loads the weights again; more than a few conflicts mean that another process fights for the entry.
ATTEMPTS = 5
# Backoff of a replica that cannot serve the desired version: it never gives up, since the entry stays desired.
RETRY = RetryPolicy(attempts=None, first_delay_s=0.25, max_delay_s=30.0)
# One token per model, as ``weights_subject`` makes them.
NEW_NOTICES = "fathom.weights.*"


class ServingReconciler:
    """Reconciler of all models of this replica. ``new_model`` creates a model that is not in the settings."""

    def __init__(
        self,
        models: dict[str, ModelVersions],
        new_model: Callable[[str], ModelVersions],
        downloads: Downloads,
        bus: Bus,
        log: Any,
        metrics: PolicyMetrics,
        config: Config,
    ) -> None:
        self._models, self._new_model, self._downloads = models, new_model, downloads
        self._bus, self._log, self._metrics, self._budget_s = bus, log, metrics, config.fetch_budget_s
        self._keys: KeyValue = bus.bucket(SERVING)
        self._retention = Retention(downloads.store, self._keys, config.kept_versions, config.retire_after_s, log)
        self._creating: dict[str, ModelVersions] = {}
        self._creators: Counter[str] = Counter()
        self._tasks: set[asyncio.Task[None]] = set()
        self._announced: dict[str, Notice] = {}
        self._news = asyncio.Event()

    async def start(self, ready_wait_s: float) -> None:
        """Apply the desired state, waiting at most ``ready_wait_s`` seconds, then follow changes in the background."""
        first = []
        # Existing entries are applied before the watch begins: a replica that starts must not answer with configured
        # weights.
        for key in await self._keys.keys():
            entry = await self._keys.get(key)
            if entry is not None and (versions := self._follow_entry(entry)) is not None:
                first.append(asyncio.create_task(self._converge(versions), name=f"converging {versions.name}"))
        if first:
            await asyncio.wait(first, timeout=ready_wait_s)
        # Those that are late go on in the background; their models are not ready until they have caught up.
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
    ) -> tuple[ModelVersions, int]:
        """Activate a version in ``lanes`` (none: all): in this replica before returning, in the others shortly after.

        Without a manifest, uses the one published last under this number. Returns the model and the version served
        before (0 if none). Raises ``NotFound``, ``CorruptData``, ``InvalidField``, ``FailedPrecondition``, ``Conflict``
        when the same lanes were changed concurrently, or an error of the store or the bus; the previous version then
        stays active.
        """
        if (known := self._models.get(checked_id("model", name))) is not None:
            known.check_takes_weights()
        share = await self._share(name, version, manifest, percent)
        started, versions = time.monotonic(), self._find_or_create(name)
        # Several activations may create one model at once. The last to leave drops the candidate, which by then is
        # registered or has failed for all of them.
        self._creators[name] += 1
        try:
            async with versions.lock:
                before = versions.main
                previous = before.version if before else 0
                await self._change(versions, share, tuple(lanes))
                # Only now: a model that never served anything must not be listed.
                self._models[name] = versions
        finally:
            self._creators[name] -= 1
            if not self._creators[name]:
                del self._creators[name]
                self._creating.pop(name, None)
        # After the lock: deleting folders takes time, and a failure must not undo the activation.
        await self._downloads.prune(name, versions.idents)
        self._report(versions, time.monotonic() - started)
        self._spawn(self._retire(name), f"removing old weights of {name}")
        return versions, previous

    async def _retire(self, name: str) -> None:
        """Delete old published versions; a failure is logged, and the next activation tries again."""
        try:
            await self._retention.retire(name)
        except FathomError as error:
            self._log.warning("old weights not removed", model=name, error=error.message)

    def _find_or_create(self, name: str) -> ModelVersions:
        """Return the model of a name; a new one is registered only once it serves a version."""
        if name in self._models:
            return self._models[name]
        return self._creating.get(name) or self._creating.setdefault(name, self._new_model(name))

    async def _share(self, name: str, version: int, manifest: StoredObject | None, percent: int) -> Share:
        if version == 0 and manifest is None and name in self._models:
            return Share(0, percent, None)
        ref = manifest or await self._downloads.find_manifest(name, version)
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

    async def _change(self, versions: ModelVersions, share: Share, lanes: Sequence[Lane]) -> None:
        began: Serving | None = None
        for _ in range(ATTEMPTS):
            # Load, then write, then swap: this replica never asks others for a version that it could not load itself,
            # and of two concurrent activations the compare-and-set lets one through.
            desired, revision = await self._read_desired(versions.name)
            if began is None:
                began = desired
            # Another activation of the same lanes won meanwhile; writing over it would silently undo it. Changes of
            # other lanes are merged by starting from the state as it is now.
            elif any(desired.lanes.get(lane) != began.lanes.get(lane) for lane in lanes or tuple(Lane)):
                raise Conflict(
                    f"model {versions.name!r}: another version was activated at the same time",
                    metadata={"model": versions.name, "field": "policy_version"},
                )
            await self._require_one_version(desired, share)
            wanted = desired.with_version(share.version, share.manifest, lanes, share.percent)
            plan = await versions.stage(wanted, partial(self._downloads.fetch, versions.name, budget_s=self._budget_s))
            try:
                # Equal when a trainer repeats an activation whose answer it did not get.
                if wanted != desired:
                    revision = await self._keys.put(key_of(versions.name), wanted.to_json(), revision=revision)
            except Conflict:
                await plan.discard()
                continue
            except BaseException:  # cancellation included: opened versions hold memory
                await plan.discard()
                raise
            try:
                await versions.commit(plan)
            except BaseException:  # cancellation included: others must not follow what is not served here
                await self._restore(desired, revision)
                raise
            return
        raise Conflict(f"model {versions.name!r}: the served versions changed during each of {ATTEMPTS} attempts")

    async def _require_one_version(self, desired: Serving, share: Share) -> None:
        """Raise ``Conflict`` when other weights are served under this number: episodes name their sampler by it."""
        for served in desired.shares().values():
            if served.version != share.version or served.manifest is None or share.manifest is None:
                continue
            if not await self._downloads.are_same_weights(served.manifest, share.manifest):
                raise Conflict(
                    f"model {desired.model!r} serves other weights under version {share.version}: is there a second"
                    " trainer of this name?",
                    metadata={"model": desired.model, "field": "policy_version"},
                )

    async def _read_desired(self, name: str) -> tuple[Serving, int]:
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

    async def _restore(self, desired: Serving, revision: int) -> None:
        """Revert the desired state to ``desired`` unless it has been changed since ``revision``."""
        # The revision guards against undoing a later activation; and whatever fails here, the first error is the one to
        # report.
        with suppress(FathomError):
            if desired.lanes:
                await self._keys.put(key_of(desired.model), desired.to_json(), revision=revision)
            else:
                await self._keys.delete(key_of(desired.model), revision=revision)

    async def has_desired(self, name: str, version: int) -> bool:
        """Return whether the desired state has this version of the model (0: any).

        Reads the bucket, because this replica may not have seen the latest state yet.
        """
        try:
            desired, _ = await self._read_desired(name)
        except InvalidField:  # no model can have this name
            return False
        return any(version in (0, share.version) for share in desired.shares().values())

    def _report(self, versions: ModelVersions, seconds: float) -> None:
        self._metrics.swap_seconds.labels(versions.name).observe(seconds)
        for lane, shares in (versions.serving.lanes if versions.serving else {}).items():
            main = max(shares, key=lambda share: share.percent)
            self._metrics.version.labels(versions.name, lane.value).set(main.version)
        served = sorted(versions.idents)
        self._log.info("versions served", model=versions.name, served=served, seconds=round(seconds, 3))

    async def _follow(self) -> None:
        """Wake the reconciliation of the model of every changed entry, until the bus is closed."""
        retries = Retries(RETRY, is_retryable=always)
        while True:
            try:
                async with aclosing(self._keys.watch()) as entries:
                    async for entry in entries:
                        retries.reset()
                        if (versions := self._follow_entry(entry)) is not None:
                            versions.changed.set()
                return  # the bus is closed
            except FathomError as error:
                self._log.warning("served versions cannot be followed", error=error.message)
                # The bus reconnects by itself; the pause keeps the loop from spinning meanwhile.
                await asyncio.sleep(retries.next_delay_s(error))

    def _follow_entry(self, entry: Entry) -> ModelVersions | None:
        """Return the model of an entry and start reconciling it; None for an entry that belongs to no model."""
        name = entry.key.removeprefix(PREFIX)
        try:
            if not entry.key.startswith(PREFIX) or key_of(name) != entry.key:
                return None
        except FathomError:
            return None
        # The entry of a model that was removed before this replica came to know it.
        if name not in self._models and entry.value is None:
            return None
        versions = self._models[name] = self._find_or_create(name)
        # One task per model, however many changes of its entry arrive.
        if versions.is_reconciled is False:
            versions.is_reconciled = True
            versions.changed.set()
            self._spawn(self._reconcile_forever(versions), f"keeping {name} at its versions")
        return versions

    async def _reconcile_forever(self, versions: ModelVersions) -> None:
        """Reconcile a model whenever its desired state changes; retry failures with exponential backoff."""
        retries = Retries(RETRY, is_retryable=may_succeed_later)
        while True:
            problem = versions.problem
            delay_s = retries.next_delay_s(problem) if problem is not None and may_succeed_later(problem) else None
            with suppress(TimeoutError):
                async with asyncio.timeout(delay_s):
                    await versions.changed.wait()
            fresh = versions.changed.is_set()
            versions.changed.clear()
            # A new desired state deserves an attempt at once, whatever the failures of the state before.
            if fresh:
                retries.reset()
            await self._converge(versions)

    async def _converge(self, versions: ModelVersions) -> None:
        """Apply the desired state of a model; on failure keep serving the current versions and store the error."""
        started = time.monotonic()
        async with versions.lock:
            try:
                # Read again under the lock: an activation in this replica may have changed it since the watch reported
                # it.
                entry = await self._keys.get(key_of(versions.name))
                value = entry.value if entry else None
                serving = (
                    Serving(versions.name, {}) if value is None else Serving.from_json(value, key_of(versions.name))
                )
                if serving == (versions.serving or Serving(versions.name, {})):
                    versions.problem = None
                    return
                versions.wanted = serving
                await versions.commit(await versions.stage(serving, partial(self._downloads.fetch, versions.name)))
            except Exception as error:  # the task must go on: a failed version is reported and tried again
                problem = error if isinstance(error, FathomError) else Internal(f"{type(error).__name__}: {error}")
                versions.problem = problem
                self._metrics.load_failures.labels(versions.name, problem.reason).inc()
                self._log.warning("version cannot be served", model=versions.name, error=problem.message)
                return
        await self._downloads.prune(versions.name, versions.idents)
        self._report(versions, time.monotonic() - started)

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
                    # Only the newest: a trainer that publishes faster than the network downloads would fill a queue.
                    self._announced[notice.model] = notice
                    self._news.set()
        except FathomError as error:  # prefetching only: the desired state is followed all the same
            self._log.warning("notices of weights are not heard any more", error=error.message)

    async def _prefetch(self) -> None:
        """Download announced versions of models served here, so that activating them is faster."""
        while True:
            await self._news.wait()
            self._news.clear()
            while self._announced:
                notice = self._announced.pop(next(iter(self._announced)))
                versions = self._models.get(notice.model)
                main = versions.main if versions else None
                # Other models' weights would fill the disk, and older versions are activated by a rollback only.
                if main is None or notice.version <= main.version:
                    continue
                try:
                    await self._downloads.fetch_ahead(notice.model, Share(notice.version, 100, notice.manifest))
                except FathomError as error:
                    self._log.warning(
                        "weights not fetched ahead", model=notice.model, version=notice.version, error=error.message
                    )


def may_succeed_later(problem: FathomError) -> bool:
    """Return whether a retry may succeed.

    ``NotFound`` counts, because the object may still be replicating to this store.
    """
    return problem.transient or isinstance(problem, NotFound)
