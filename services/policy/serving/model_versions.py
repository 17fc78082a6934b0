"""All loaded versions of one model. New versions load in the background and are swapped in atomically."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from fathom.core.admission import Admission
from fathom.core.call import Lane
from fathom.core.errors import FailedPrecondition, FathomError, NotReady, VersionMismatch
from fathom.domain.weights.serving import Serving, Share
from fathom.services.policy.config import ModelConfig
from fathom.services.policy.model import LaneVersion, ModelInfo, State
from fathom.services.policy.serving.loaded_model import LoadedModel

# Key of the configured model among versions, whose keys are ``Share.ident`` and hold a checksum.
BASE = "0"
# Longer than any generation should run; a stuck one must not hold the memory of an old version forever.
RETIRE_AFTER_S = 600.0
# The other replica has loaded the version already, so this one usually follows within a second.
RETRY_WHILE_LOADING_S = 0.5
# A failed download or conversion is expensive: it is not repeated at every request.
RETRY_FAILED_LOAD_S = 30.0

Fetch = Callable[[Share], Awaitable[Path]]


@dataclass
class StagedChange:
    """A prepared change: the serving state to adopt, its loaded versions, and the swap that makes them current."""

    serving: Serving
    loaded: dict[str, LoadedModel]
    opened: list[LoadedModel] = field(default_factory=list)
    swap: Callable[[], Awaitable[None]] | None = None

    async def discard(self) -> None:
        """Close the versions opened for this plan."""
        await asyncio.gather(*(model.close() for model in self.opened))


class ModelVersions:
    """The loaded versions of one model.

    ``base`` says that settings configure it, rather than a trainer having created it. ``problem`` is the error that
    keeps the desired version from being served; ``is_reconciled`` is True while a task reconciles the model with the
    desired state. Changes are serialised by ``lock``.
    """

    def __init__(
        self,
        name: str,
        config: ModelConfig,
        make: Callable[[Admission], LoadedModel],
        admission: Admission,
        *,
        base: bool,
    ) -> None:
        self.name, self.config, self.admission = name, config, admission
        self.lock, self.changed = asyncio.Lock(), asyncio.Event()
        self.serving: Serving | None = None
        self.wanted: Serving | None = None
        self.problem: FathomError | None = None
        self.is_reconciled = False
        self._make, self._has_base = make, base
        self._loaded: dict[str, LoadedModel] = {BASE: make(admission)} if base else {}
        self._opening: asyncio.Task[None] | None = None
        self._opened_at = 0.0
        self._retiring: set[asyncio.Task[None]] = set()

    def open(self, load: Callable[[LoadedModel], Coroutine[Any, Any, None]]) -> asyncio.Task[None]:
        """Start to load the configured model with ``load``; only for a model with a base."""
        self._opened_at = time.monotonic()
        self._opening = asyncio.create_task(load(self._loaded[BASE]), name=f"loading {self.name}")
        return self._opening

    @property
    def is_due(self) -> bool:
        """Return whether a request should start to load the configured model.

        True when it is loaded on request, and again some time after a load that failed with a transient error.
        """
        if not self._has_base or BASE not in self._loaded:
            return False
        if self._opening is None:
            return self.config.load == "request"
        error = self._loaded[BASE].error
        # A lasting error (a missing package, a broken folder) would only come again.
        may_retry = self._opening.done() and error is not None and error.transient
        return may_retry and time.monotonic() - self._opened_at > RETRY_FAILED_LOAD_S

    def check_takes_weights(self) -> None:
        """Raise ``FailedPrecondition`` when the engine does not support weight updates."""
        if self.config.engine in ("rules", "openai"):
            raise FailedPrecondition(
                f"model {self.name!r} does not support weight updates: its engine is {self.config.engine!r}",
                metadata={"model": self.name, "field": "model"},
            )

    @property
    def idents(self) -> set[str]:
        """Return the loaded versions by ``Share.ident``."""
        return set(self._loaded)

    @property
    def main(self) -> LoadedModel | None:
        """Return the version with the largest share of the first served lane; None while nothing is loaded."""
        if not self._loaded:
            return None
        shares = [] if self.serving is None else self._shares(self.serving)
        main = max(shares, key=lambda share: share.percent).ident if shares else BASE
        return self._loaded.get(main) or next(iter(self._loaded.values()))

    @staticmethod
    def _shares(serving: Serving) -> tuple[Share, ...]:
        return next((serving.lanes[lane] for lane in Lane if lane in serving.lanes), ())

    def pick(self, lane: Lane, affinity: str, version: int) -> LoadedModel:
        """Return the requested version, or the one that serves the lane when ``version`` is 0.

        Raises ``NotReady`` while it is being loaded, ``VersionMismatch`` when it is not served, ``FailedPrecondition``
        when no version serves the lane, or the error of a load that cannot be retried.
        """
        if version:
            return self._exactly(version)
        # A model with a desired version must not answer from the configured weights while that version is being loaded.
        if self.serving is None and (self.wanted is not None or not self._loaded):
            raise self._not_yet()
        share = None if self.serving is None else self.serving.choose(lane, affinity)
        model = self._loaded.get(BASE if share is None else share.ident)
        if model is None and share is None:
            raise FailedPrecondition(
                f"no version of model {self.name!r} serves lane {lane}", metadata={"model": self.name, "lane": lane}
            )
        if model is None:
            raise self._not_yet()
        return model

    def _exactly(self, version: int) -> LoadedModel:
        for model in self._loaded.values():
            if model.version == version:
                return model
        awaited = () if self.wanted is None else self.wanted.shares().values()
        # It is on its way here: the caller should ask again, not give up.
        if any(share.version == version for share in awaited):
            raise self._not_yet()
        if not self._loaded:
            raise self._not_yet()
        main = self.main
        raise VersionMismatch(self.name, version, main.version if main else 0)

    def _not_yet(self) -> FathomError:
        if self.problem is not None and not self.problem.transient:
            return self.problem
        return NotReady(f"a version of model {self.name!r} is being loaded", retry_after_s=RETRY_WHILE_LOADING_S)

    async def stage(self, serving: Serving, fetch: Fetch) -> StagedChange:
        """Fetch, verify and load missing versions while the current ones keep serving.

        An error leaves the state unchanged.
        """
        self.check_takes_weights()
        if self._opening is not None:
            # The first load goes on even if this activation is cancelled: others wait for it.
            await asyncio.shield(self._opening)
        shares: dict[str, Share | None] = dict(serving.shares())
        # Lanes that the activation leaves out keep answering with the configured model.
        if self._has_base and set(serving.lanes) != set(Lane):
            shares[BASE] = None
        missing = {ident: share for ident, share in shares.items() if ident not in self._loaded}
        freed = [ident for ident in self._loaded if ident not in shares]
        # Everything is downloaded before anything is loaded, so that an unreachable store costs no memory.
        folders = {ident: await fetch(share) for ident, share in missing.items() if share and share.manifest}
        kept = {ident: model for ident, model in self._loaded.items() if ident in shares}
        plan = StagedChange(serving, kept)
        try:
            for ident, share in missing.items():
                version = share.version if share else 0
                # The usual step of a training: one version follows another. Its backend takes the new weights, which
                # needs no second engine; with several changes at once it would be unclear which backend to reuse.
                reused = self._loaded[freed[0]] if len(missing) == 1 and freed and ident in folders else None
                if reused is not None and reused.is_ready:
                    plan.swap = await reused.stage(folders[ident], version)
                    plan.loaded[ident] = reused
                else:
                    plan.loaded[ident] = model = self._make(self.admission)
                    plan.opened.append(model)
                    await model.load(folders.get(ident), version)
                    _ = model.backend  # raises why it could not be loaded
        except BaseException:  # cancellation included: opened versions hold memory
            await plan.discard()
            raise
        return plan

    async def commit(self, plan: StagedChange) -> None:
        """Make the plan's versions current. Running generations finish on the version they started with."""
        # The swap comes first, since it alone can fail; what follows is assignments.
        if plan.swap is not None:
            await plan.swap()
        retired = [model for model in self._loaded.values() if model not in plan.loaded.values()]
        self._loaded, self.serving, self.wanted, self.problem = plan.loaded, plan.serving, plan.serving, None
        for model in retired:
            # Closing waits for running generations, which the activation must not.
            task = asyncio.create_task(retire_model(model), name=f"retiring {self.name}")
            self._retiring.add(task)
            task.add_done_callback(self._retiring.discard)

    @property
    def cache_share(self) -> float:
        """Return the used fraction (0 to 1) of the main version's key-value cache; 0 when it is unknown."""
        main = self.main
        return main.backend.occupancy.cache_share if main is not None and main.is_ready else 0.0

    @property
    def info(self) -> ModelInfo:
        main = self.main
        if main is None:
            info = ModelInfo(
                self.name, self.config.engine, State.WARMING, 0, self.config.window_tokens, True, "Being loaded."
            )
            if self.serving is not None:
                info = replace(info, state=State.FAILED, detail="No version of this model is served.")
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
            info = replace(info, state=state, detail=f"The desired version cannot be served: {self.problem.message}")
        return replace(info, lanes=lanes)

    async def close(self) -> None:
        tasks = [*self._retiring, *([self._opening] if self._opening else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.gather(*(model.close() for model in self._loaded.values()))


async def retire_model(model: LoadedModel) -> None:
    """Close a version when its last generation has ended, after ``RETIRE_AFTER_S`` seconds at the latest."""
    try:
        with suppress(TimeoutError):
            async with asyncio.timeout(RETIRE_AFTER_S):
                await model.idle.wait()
    finally:
        await model.close()
