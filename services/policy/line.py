"""All loaded versions of one model. New versions load in the background and are swapped in atomically."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from fathom.call import Lane
from fathom.errors import FailedPrecondition, FathomError, NotReady, VersionMismatch
from fathom.protocol.serving import Serving, Share
from services.policy.admission import Admission
from services.policy.config import ModelConfig
from services.policy.model import LaneVersion, ModelInfo, State
from services.policy.slot import Slot

BASE = "0"
RETIRE_AFTER_S = 600.0
RETRY_WHILE_LOADING_S = 0.5
RETRY_FAILED_LOAD_S = 30.0

Fetch = Callable[[Share], Awaitable[Path]]


@dataclass
class Plan:
    """A prepared change: the serving state to adopt, its loaded versions, and the swap that makes them current."""

    serving: Serving
    slots: dict[str, Slot]
    opened: list[Slot] = field(default_factory=list)
    swap: Callable[[], Awaitable[None]] | None = None

    async def discard(self) -> None:
        """Close the versions opened for this plan."""
        await asyncio.gather(*(slot.close() for slot in self.opened))


class Line:
    """The loaded versions of one model.

    ``base`` says that settings configure it, rather than a trainer having created it. ``problem`` is the error that
    keeps the desired version from being served; ``kept`` is True while a task reconciles the model with the desired
    state. Changes are serialised by ``lock``.
    """

    def __init__(
        self, name: str, config: ModelConfig, make: Callable[[Admission], Slot], admission: Admission, *, base: bool
    ) -> None:
        self.name, self.config, self.admission = name, config, admission
        self.lock, self.changed = asyncio.Lock(), asyncio.Event()
        self.serving: Serving | None = None
        self.wanted: Serving | None = None
        self.problem: FathomError | None = None
        self.kept = False
        self._make, self._has_base = make, base
        self._slots: dict[str, Slot] = {BASE: make(admission)} if base else {}
        self._opening: asyncio.Task[None] | None = None
        self._opened_at = 0.0
        self._retiring: set[asyncio.Task[None]] = set()

    def open(self, loaded: Callable[[Slot], Coroutine[Any, Any, None]]) -> asyncio.Task[None]:
        """Start to load the configured model with ``loaded``; only for a model with a base."""
        self._opened_at = time.monotonic()
        self._opening = asyncio.create_task(loaded(self._slots[BASE]), name=f"loading {self.name}")
        return self._opening

    @property
    def is_due(self) -> bool:
        """Return whether a request should start to load the configured model.

        True when it is loaded on request, and again some time after a load that failed with a transient error, such as
        a download without a network, so that the model does not stay unavailable until a restart.
        """
        if not self._has_base or BASE not in self._slots:
            return False
        if self._opening is None:
            return self.config.load == "request"
        error = self._slots[BASE].error
        may_retry = self._opening.done() and error is not None and error.transient
        return may_retry and time.monotonic() - self._opened_at > RETRY_FAILED_LOAD_S

    def check_takes_weights(self) -> None:
        """Raise ``FailedPrecondition`` when the engine does not support weight updates."""
        if self.config.engine in ("rules", "openai"):
            raise FailedPrecondition(
                f"model {self.name!r} takes no weights: its engine is {self.config.engine!r}",
                metadata={"model": self.name, "field": "model"},
            )

    @property
    def idents(self) -> set[str]:
        """Return the loaded versions by ``Share.ident``."""
        return set(self._slots)

    @property
    def main(self) -> Slot | None:
        """Return the version with the largest share of the first served lane; None while nothing is loaded."""
        if not self._slots:
            return None
        shares = [] if self.serving is None else self._shares(self.serving)
        main = max(shares, key=lambda share: share.percent).ident if shares else BASE
        return self._slots.get(main) or next(iter(self._slots.values()))

    @staticmethod
    def _shares(serving: Serving) -> tuple[Share, ...]:
        return next((serving.lanes[lane] for lane in Lane if lane in serving.lanes), ())

    def pick(self, lane: Lane, affinity: str, version: int) -> Slot:
        """Return the requested version, or the one that serves the lane when ``version`` is 0.

        Raises ``NotReady`` while it is being loaded, ``VersionMismatch`` when it is not served, ``FailedPrecondition``
        when no version serves the lane, or the error of a load that cannot be retried.
        """
        if version:
            return self._exactly(version)
        if self.serving is None and (self.wanted is not None or not self._slots):
            raise self._not_yet()
        share = None if self.serving is None else self.serving.choose(lane, affinity)
        slot = self._slots.get(BASE if share is None else share.ident)
        if slot is None and share is None:
            raise FailedPrecondition(
                f"no version of model {self.name!r} serves lane {lane}", metadata={"model": self.name, "lane": lane}
            )
        if slot is None:
            raise self._not_yet()
        return slot

    def _exactly(self, version: int) -> Slot:
        for slot in self._slots.values():
            if slot.version == version:
                return slot
        awaited = () if self.wanted is None else self.wanted.shares().values()
        if any(share.version == version for share in awaited):
            raise self._not_yet()
        if not self._slots:
            raise self._not_yet()
        main = self.main
        raise VersionMismatch(self.name, version, main.version if main else 0)

    def _not_yet(self) -> FathomError:
        if self.problem is not None and not self.problem.transient:
            return self.problem
        return NotReady(f"a version of model {self.name!r} is being loaded", retry_after_s=RETRY_WHILE_LOADING_S)

    async def stage(self, serving: Serving, fetch: Fetch) -> Plan:
        """Fetch, verify and load missing versions while the current ones keep serving.

        An error leaves the state unchanged.
        """
        self.check_takes_weights()
        if self._opening is not None:
            await asyncio.shield(self._opening)
        shares: dict[str, Share | None] = dict(serving.shares())
        if self._has_base and set(serving.lanes) != set(Lane):
            shares[BASE] = None
        missing = {ident: share for ident, share in shares.items() if ident not in self._slots}
        freed = [ident for ident in self._slots if ident not in shares]
        folders = {ident: await fetch(share) for ident, share in missing.items() if share and share.manifest}
        kept = {ident: slot for ident, slot in self._slots.items() if ident in shares}
        plan = Plan(serving, kept)
        try:
            for ident, share in missing.items():
                version = share.version if share else 0
                reused = self._slots[freed[0]] if len(missing) == 1 and freed and ident in folders else None
                if reused is not None and reused.ready:
                    plan.swap = await reused.stage(folders[ident], version)
                    plan.slots[ident] = reused
                else:
                    plan.slots[ident] = slot = self._make(self.admission)
                    plan.opened.append(slot)
                    await slot.load(folders.get(ident), version)
                    _ = slot.backend  # raises why it could not be loaded
        except BaseException:
            await plan.discard()
            raise
        return plan

    async def commit(self, plan: Plan) -> None:
        """Make the plan's versions current. Running generations finish on the version they started with."""
        if plan.swap is not None:
            await plan.swap()
        retired = [slot for slot in self._slots.values() if slot not in plan.slots.values()]
        self._slots, self.serving, self.wanted, self.problem = plan.slots, plan.serving, plan.serving, None
        for slot in retired:
            task = asyncio.create_task(retire(slot), name=f"retiring {self.name}")
            self._retiring.add(task)
            task.add_done_callback(self._retiring.discard)

    @property
    def cache_share(self) -> float:
        """Return the used fraction (0 to 1) of the main version's key-value cache; 0 when it is unknown."""
        main = self.main
        return main.backend.occupancy.cache_share if main is not None and main.ready else 0.0

    @property
    def info(self) -> ModelInfo:
        main = self.main
        if main is None:
            info = ModelInfo(
                self.name, self.config.engine, State.WARMING, 0, self.config.window_tokens, True, "Being loaded."
            )
            if self.serving is not None:
                info = replace(info, state=State.FAILED, detail="No version of it is served.")
        else:
            info = main.info
        lanes: tuple[LaneVersion, ...] = ()
        if self.serving is not None:
            lanes = tuple(
                LaneVersion(lane, share.version, share.percent)
                for lane, shares in self.serving.lanes.items()
                for share in shares
            )
        if self.problem is not None:
            state = State.FAILED if main is None and not self.problem.transient else info.state
            info = replace(info, state=state, detail=f"What should be served cannot be: {self.problem.message}")
        return replace(info, lanes=lanes)

    async def close(self) -> None:
        tasks = [*self._retiring, *([self._opening] if self._opening else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.gather(*(slot.close() for slot in self._slots.values()))


async def retire(slot: Slot) -> None:
    """Close a version when its last generation has ended, after ``RETIRE_AFTER_S`` seconds at the latest."""
    try:
        with suppress(TimeoutError):
            async with asyncio.timeout(RETIRE_AFTER_S):
                await slot.idle.wait()
    finally:
        await slot.close()
