"""This replica's process reward model: follows the shared state in the bucket ``PROCESS`` and advances it.

A step is computed here, its state stored completely, then published by compare-and-set; a replica that is behind loads
the published state before it answers. A step interrupted at any point therefore has no effect.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, TypeVar

from fathom.core.errors import FailedPrecondition, FathomError, InvalidField
from fathom.core.ids import sha256
from fathom.services.reward.process.network import Network, ProcessItem
from fathom.services.reward.process.record import History, Step
from fathom.services.reward.process.settings import ProcessSettings
from fathom.transport.bus.base import KeyValue
from fathom.transport.store.base import ObjectStore

R = TypeVar("R")
Scores = tuple[list[list[float]], int, Mapping[str, float]]


class ProcessModel:
    """Scores and trains, one operation at a time."""

    def __init__(self, settings: ProcessSettings, store: ObjectStore, keys: KeyValue, log: Any) -> None:
        self._settings, self._store, self._keys, self._log = settings, store, keys, log
        self._key = f"model.{settings.name}"
        self._network: Network | None = None
        self._loaded = ""  # what the network holds: "0", or a checkpoint's key
        self._lock = asyncio.Lock()
        self._tasks: set[asyncio.Task[Any]] = set()

    async def score(self, items: Sequence[ProcessItem], group_size: int) -> Scores:
        """Return rewards per token, the model version that computed them, and metrics.

        Raises ``FailedPrecondition`` when no model is configured, ``MissingExtra``, ``CorruptData``, and
        ``InvalidField`` naming the fault in the items.
        """
        self._check(items, group_size)
        return await self._run_exclusively(self._score(items, group_size))

    async def update(self, request_id: str, items: Sequence[ProcessItem], group_size: int, batch: str) -> Step:
        """Take one step; the same ``request_id`` returns the same answer.

        ``batch`` is the SHA-256 of the batch as sent. Raises as ``score``, and ``Conflict`` when another replica took a
        step at the same time: nothing has changed then.
        """
        self._check(items, group_size)
        return await self._run_exclusively(self._update(request_id, items, group_size, batch))

    async def close(self) -> None:
        """Wait for running computations."""
        # A thread cannot be stopped.
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _run_exclusively(self, work: Coroutine[Any, Any, R]) -> R:
        """Finish the work with the lock held, even when the caller is cancelled."""

        async def run_locked() -> R:
            async with self._lock:
                return await work

        task = asyncio.create_task(run_locked(), name="process reward")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        # A caller that leaves must not stop a step between its stored state and its publication.
        return await asyncio.shield(task)

    async def _score(self, items: Sequence[ProcessItem], group_size: int) -> Scores:
        network, history, _ = await self._load_current()
        rewards, metrics = await asyncio.to_thread(network.score, items, group_size)
        return rewards, history.version, metrics

    async def _update(self, request_id: str, items: Sequence[ProcessItem], group_size: int, batch: str) -> Step:
        network, history, revision = await self._load_current()
        if (step := history.find_answer(request_id, batch)) is not None:
            return step
        # While a step runs the weights belong to no published version: after a failure they are loaded anew.
        loaded, self._loaded = self._loaded, ""
        try:
            metrics = await asyncio.to_thread(network.update, items, group_size)
        except InvalidField:  # found before the first step
            self._loaded = loaded
            raise
        step = Step(history.version + 1, batch, metrics)
        state = await asyncio.to_thread(network.state)
        digest = await asyncio.to_thread(sha256, state)
        # The digest in the key keeps apart the states of two replicas that take the same step at once.
        key = f"reward/{self._settings.name}/{step.version}-{digest[:16]}.pt"
        # Stored before it is published, so that a published version can always be loaded.
        stored = await self._store.put(key, state)
        after = history.with_step(request_id, step, stored, self._settings.kept_versions)
        # If this fails, the entry may or may not have the step: the next call reads the entry and finds out.
        await self._keys.put(self._key, after.to_json(), revision=revision)
        self._loaded = stored.key
        # After the publication, as other replicas may still load the older ones until then.
        await self._forget(history, after)
        return step

    async def _forget(self, before: History, after: History) -> None:
        """Delete checkpoints that are no longer listed; one that cannot be deleted only wastes space."""
        for version in set(before.checkpoints) - set(after.checkpoints):
            try:
                await self._store.delete(before.checkpoints[version].key)
            except FathomError as error:
                self._log.warning("an old checkpoint stays", key=before.checkpoints[version].key, error=str(error))

    async def _load_current(self) -> tuple[Network, History, int]:
        """Return the network in the published state, that state and its revision."""
        if self._settings.model is None:
            raise FailedPrecondition(
                "no process reward model is configured: set reward.process.model to a model's folder",
                metadata={"field": "process.model"},
            )
        entry = await self._keys.get(self._key)
        value, revision = (entry.value, entry.revision) if entry is not None else (None, 0)
        history = History() if value is None else History.from_json(value, self._key)
        checkpoint = history.checkpoints.get(history.version)
        wanted = checkpoint.key if checkpoint else "0"
        # Version 0 is the model's folder, not a checkpoint: only building the network anew gives it back.
        if self._network is None or (wanted == "0" and self._loaded != "0"):
            self._network = await asyncio.to_thread(Network, self._settings)
            self._loaded = "0"
        if checkpoint is not None and self._loaded != wanted:
            self._loaded = ""
            state = await self._store.get(checkpoint.key, checkpoint.sha256)
            await asyncio.to_thread(self._network.load_state, state, checkpoint.key)
            self._loaded = wanted
        return self._network, history, revision

    def _check(self, items: Sequence[ProcessItem], group_size: int) -> None:
        """Raise ``InvalidField`` for items that no model could accept."""
        settings = self._settings
        if not 1 <= len(items) <= settings.max_items:
            raise InvalidField("items", f"must be 1 to {settings.max_items:,}")
        if group_size < 1 or len(items) % group_size:
            raise InvalidField("group_size", f"{group_size} does not make whole groups of {len(items)} items")
        for index, item in enumerate(items):
            path = f"items[{index}]"
            if not 2 <= len(item.token_ids) <= settings.max_item_tokens:
                raise InvalidField(f"{path}.token_ids", f"must be 2 to {settings.max_item_tokens:,}")
            if len(item.mask) != len(item.token_ids) or set(item.mask) - {0, 1}:
                raise InvalidField(f"{path}.mask", "must be 0 or 1, one per token")
            # The first token has no prediction before it, so it has no log-ratio.
            if item.mask[0] or not any(item.mask):
                raise InvalidField(f"{path}.mask", "must be 0 on the first token and 1 on at least one")
            if not (math.isfinite(item.outcome) and 0 <= item.outcome <= 1):
                raise InvalidField(f"{path}.outcome", f"must be 0 to 1, not {item.outcome}")
