"""Registry of models: routes requests to model versions, and activates versions."""

from __future__ import annotations

import asyncio
import difflib
import time
from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from prometheus_client import CollectorRegistry

from fathom.core.admission import Quota
from fathom.core.call import Lane, current_call
from fathom.core.errors import InvalidField, NotFound, NotReady, VersionMismatch
from fathom.core.ids import checked_id, new_id
from fathom.domain.chat.affinity import conversation_key
from fathom.domain.chat.messages import Message, ToolSpec
from fathom.services.policy.backends import open_backend
from fathom.services.policy.config import Config
from fathom.services.policy.metrics import AdmissionMetrics, PolicyMetrics
from fathom.services.policy.model import Item, ModelInfo, Occupancy, Request, validate_request
from fathom.services.policy.serving.background_loads import BackgroundLoads
from fathom.services.policy.serving.deduplication import Generations
from fathom.services.policy.serving.downloads import Downloads
from fathom.services.policy.serving.loaded_model import LoadedModel, create_admission
from fathom.services.policy.serving.model_versions import RETRY_WHILE_LOADING_S, ModelVersions
from fathom.services.policy.serving.reconciler import ServingReconciler
from fathom.services.policy.serving.roles import ModelRole, Roles
from fathom.services.policy.serving.shared_versions import SharedVersions
from fathom.transport.bus.base import Bus
from fathom.transport.bus.memory import MemoryBus
from fathom.transport.bus.quotas import Quotas
from fathom.transport.bus.streams import topology
from fathom.transport.sealed_memory import default_folder
from fathom.transport.store.base import ObjectStore, StoredObject

# Scoring is one forward pass per sequence: the bound keeps a single call from occupying the engine for minutes.
# Beyond a temperature of 10 the distribution is uniform for practical purposes.
MAX_SEQUENCES, MAX_TEMPERATURE = 256, 10.0


@dataclass(frozen=True)
class Activation:
    """Outcome of an activation: the model afterwards, the previous version (0 if none), duration in milliseconds."""

    model: ModelInfo
    previous_version: int
    duration_ms: int


class Engine:
    """All models of this process.

    Methods take the name of a model or of a role ("" for the default model) and raise ``NotFound`` for unknown names.
    """

    def __init__(
        self,
        config: Config,
        store: ObjectStore,
        log: Any,
        bus: Bus | None = None,
        registry: CollectorRegistry | None = None,
        quotas: Mapping[str, Quota] | None = None,
    ) -> None:
        """Create the models; without a bus, the choice of versions is lost when the process ends."""
        self._config, self._log = config, log
        self._roles = Roles(config.default_model, config.roles, config.lane_roles)
        self._metrics = PolicyMetrics.register(registry or CollectorRegistry())
        # A caller without a bus gets one in memory: the same code runs, without other replicas to follow.
        bus = bus or MemoryBus(store, topology())
        self._quotas = Quotas(bus, log, quotas)
        self._models = {name: self._create_versions(name) for name in config.models}
        self._generations = Generations(self._sample, config.kept_completions, config.kept_completion_bytes)
        self._loading = BackgroundLoads()
        shared = SharedVersions((config.shared_memory_dir or default_folder()) if config.shared_memory else None, log)
        self._downloads = Downloads(store, config.cache_dir / "weights", shared)
        self._reconciler = ServingReconciler(
            self._models,
            self._create_versions,
            self._downloads,
            bus,
            log,
            self._metrics,
            config,
        )

    def _create_versions(self, name: str) -> ModelVersions:
        settings = self._config.models.get(name, self._config.trained)
        admission = create_admission(name, settings, AdmissionMetrics(name, self._metrics))
        self._quotas.govern(f"model.{name}", admission)
        open_one = partial(open_backend, name, settings, self._config.models_dir or self._config.cache_dir)
        versions = ModelVersions(
            name, settings, partial(LoadedModel, name, settings, open_one), admission, base=name in self._config.models
        )
        # Read when Prometheus scrapes, since the engine's own statistics change with every step.
        self._metrics.cache.labels(name).set_function(lambda: versions.cache_share)
        return versions

    async def start(self) -> None:
        """Load the models concurrently, except those to be loaded on request.

        Returns when loading the default model and those of roles has ended; raises the error of the default model's
        load.
        """
        wanted = {name for name, versions in self._models.items() if versions.config.load == "start"} | set(
            self._roles.models
        )
        loading = {name: versions.open(self._load) for name, versions in self._models.items() if name in wanted}
        # All others go on loading in the background: a request for one of them gets NotReady with a delay.
        await asyncio.gather(*(loading[name] for name in self._roles.models if name in loading))
        # Raises why the default model could not be loaded; failures of the others show in their state only.
        _ = self._pick_model(self._config.default_model).backend
        self._quotas.start()
        await self._reconciler.start(self._config.ready_wait_s)

    async def _load(self, model: LoadedModel) -> None:
        started = time.monotonic()
        await model.load()
        info, seconds = model.info, round(time.monotonic() - started, 2)
        self._log.info("model loaded", model=info.name, state=info.state.value, detail=info.detail, seconds=seconds)

    async def close(self) -> None:
        self._generations.cancel()
        await self._loading.close()
        await self._quotas.close()
        await self._reconciler.close()
        await asyncio.gather(*(versions.close() for versions in self._models.values()))
        # Last: an engine in a child process reads its files when it is started again.
        await self._downloads.close()

    def _get_versions(self, name: str) -> ModelVersions:
        wanted = self._roles.model(name, get_current_lane(), self._models)
        if wanted not in self._models:
            near = difflib.get_close_matches(wanted, self._models, 3) or sorted(self._models)
            raise NotFound("model", wanted, near, field="model")
        return self._models[wanted]

    def _pick_model(self, name: str, affinity: str = "", version: int = 0) -> LoadedModel:
        versions = self._get_versions(name)
        model = versions.pick(get_current_lane(), affinity, version)
        # Version 0 is the configured model: published versions are loaded by the reconciler, never by a request.
        if model.version == 0 and versions.is_due:
            versions.open(self._load)
        return model

    async def _serving(self, name: str, affinity: str, version: int) -> LoadedModel:
        """Return the model version that serves a request.

        Raises ``NotReady`` for a version that is about to be served here, and ``NotFound`` or ``VersionMismatch`` for
        one that no replica serves.
        """
        try:
            return self._pick_model(name, affinity, version)
        except (NotFound, VersionMismatch) as error:
            # A trainer activates on one replica and samples through any, and this one may not have caught up. Callers
            # retry NotReady but neither of the others, so a version that nobody serves keeps its own error.
            if await self._reconciler.has_desired(self._roles.model(name, get_current_lane(), self._models), version):
                message = f"model {name!r} is about to be served here"
                raise NotReady(message, retry_after_s=RETRY_WHILE_LOADING_S) from error
            raise

    async def generate(self, request: Request, remaining_s: Callable[[], float | None]) -> AsyncGenerator[Item, None]:
        """Yield pieces of text, then the completion; a repeated request id yields the same completion.

        ``remaining_s`` returns the seconds left until the caller's deadline. Sampling stops when the last caller
        leaves.
        """
        if not request.request_id:
            # Without an id there is nothing to deduplicate by, but the seed is derived from it when the request has
            # none.
            request = replace(request, request_id=new_id("gen"))
        generation = self._generations.join(validate_request(request))
        async with aclosing(generation.watch(remaining_s)) as items:
            async for item in items:
                yield item

    async def _sample(self, request: Request) -> AsyncGenerator[Item, None]:
        key = conversation_key((message.role, message.content) for message in request.messages)
        model = await self._serving(request.model, key, request.policy_version)
        async with aclosing(model.generate(request)) as items:
            async for item in items:
                yield item

    async def score(
        self, model: str, sequences: Sequence[Sequence[int]], temperature: float
    ) -> tuple[list[list[float]], int]:
        """Return log-probabilities in nats of 1 to 256 sequences, and the version that computed them.

        Raises ``InvalidField`` for too many or empty sequences and for a temperature out of range.
        """
        if not 1 <= len(sequences) <= MAX_SEQUENCES:
            raise InvalidField("sequences", f"must be 1 to {MAX_SEQUENCES}")
        if not 0 <= temperature <= MAX_TEMPERATURE:
            raise InvalidField("temperature", f"must be between 0 and {MAX_TEMPERATURE:g}")
        for index, ids in enumerate(sequences):
            if not ids:
                raise InvalidField(f"sequences[{index}]", "is empty")
        with self._pick_model(model).use() as backend:
            return await backend.score(sequences, temperature)

    def get_model(self, name: str) -> ModelInfo:
        return self._get_versions(name).info

    def get_occupancy(self, name: str) -> Occupancy:
        """Return the current load of a model's engine; raise the error of its load if that failed."""
        # Not by _pick_model: looking at a model does not load it.
        return self._get_versions(name).pick(get_current_lane(), "", 0).backend.occupancy

    def list_models(self) -> list[ModelInfo]:
        return [self._models[name].info for name in sorted(self._models)]

    async def pause(
        self, name: str, drain_s: float = 0.0, resume_after_s: float | None = None
    ) -> tuple[ModelInfo, int]:
        """Queue new generations until the model is resumed; running generations continue.

        Waits at most ``drain_s`` seconds for running generations and returns the model and how many still run. The
        pause ends by itself after ``resume_after_s`` seconds. Raises ``InvalidField`` for a negative duration.
        """
        if drain_s < 0 or (resume_after_s is not None and resume_after_s < 0):
            raise InvalidField("drain_ms" if drain_s < 0 else "resume_after_ms", "must not be negative")
        versions = self._get_versions(name)
        # The end is scheduled here and not by the caller: a trainer that dies while it publishes cannot block the
        # service.
        versions.admission.pause(resume_after_s)
        if drain_s:
            await versions.admission.wait_until_idle(drain_s)
        return versions.info, versions.admission.running

    def resume(self, name: str) -> ModelInfo:
        versions = self._get_versions(name)
        versions.admission.resume()
        return versions.info

    async def tokenize(
        self, model: str, messages: Sequence[Message], tools: Sequence[ToolSpec], generation_prompt: bool, text: str
    ) -> list[int]:
        """Return token ids of ``messages`` by the chat template, or of plain ``text``.

        Raise ``InvalidField`` unless one is given.
        """
        if bool(messages) == bool(text):
            raise InvalidField("text", "give either messages or text")
        with self._pick_model(model).use() as backend:
            if text:
                return await backend.encode(text)
            return await backend.tokenize(messages, tools, generation_prompt)

    async def detokenize(self, model: str, ids: Sequence[int]) -> str:
        with self._pick_model(model).use() as backend:
            return await backend.detokenize(ids)

    async def load_weights(
        self,
        model: str,
        manifest: StoredObject | None,
        version: int,
        lanes: Collection[Lane] = (),
        percent: int = 100,
        wait_s: float = 0.0,
    ) -> Activation:
        """Activate a published version in ``lanes`` (none: all), creating a model of that name if there is none.

        Without a manifest, uses the one published last under this number. With ``wait_s`` an activation that takes
        longer goes on in the background, and ``NotReady`` is raised; the same call again joins it.
        Raises ``InvalidField``, ``NotFound``, ``CorruptData``, ``Conflict``, or ``FailedPrecondition`` when the engine
        does not support weight updates. On any error the previous version stays active.
        """
        started = time.monotonic()
        name = checked_id("model", model)
        # A role is resolved by the settings of each lane, so weights under its name would serve an unknown set of
        # requests.
        if name in set(ModelRole):
            raise InvalidField("model", f"{name!r} is a role; weights are of a model")
        # Version 0 is the model as configured, which no manifest describes.
        if version < (0 if manifest is None else 1):
            raise InvalidField("policy_version", "must be at least 1")
        if wait_s < 0:
            raise InvalidField("wait_ms", "must not be negative")
        activate = partial(self._reconciler.activate, name, version, manifest, lanes, percent)
        versions, previous = await (
            self._loading.join((name, version, manifest, frozenset(lanes), percent), activate, wait_s)
            if wait_s
            else activate()
        )
        return Activation(versions.info, previous, round((time.monotonic() - started) * 1000))


def get_current_lane() -> Lane:
    """Return the lane of the call being handled; interactive outside of a call."""
    call = current_call()
    # Outside of a call there are only the start of the service and tests.
    return Lane.INTERACTIVE if call is None else call.lane
