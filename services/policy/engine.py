"""Registry of models: routes requests to model versions, and activates versions."""

from __future__ import annotations

import asyncio
import difflib
import itertools
import time
from collections.abc import AsyncGenerator, Callable, Collection, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from prometheus_client import CollectorRegistry

from fathom.bus.base import Bus
from fathom.bus.memory import MemoryBus
from fathom.bus.streams import topology
from fathom.call import Lane, current_call
from fathom.errors import InvalidField, NotFound, NotReady, VersionMismatch
from fathom.ids import checked_id, new_id, sha256
from fathom.protocol.messages import Completion, Message, Role, ToolSpec
from fathom.store.base import ObjectStore, StoredObject
from services.policy.admission import Admission
from services.policy.backends import open_backend
from services.policy.config import Config
from services.policy.downloads import Downloads
from services.policy.generations import Generations
from services.policy.line import RETRY_WHILE_LOADING_S, Line
from services.policy.metrics import PolicyMetrics
from services.policy.model import ModelInfo, Occupancy, Request, checked
from services.policy.roles import ModelRole, Roles
from services.policy.slot import Slot, limits
from services.policy.versions import Versions

MAX_SEQUENCES, MAX_TEMPERATURE = 256, 10.0


@dataclass(frozen=True)
class Loaded:
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
    ) -> None:
        """Create the models; without a bus, the choice of versions is lost when the process ends."""
        self._config, self._log = config, log
        self._roles = Roles(config.default_model, config.roles, config.lane_roles)
        self._metrics = PolicyMetrics.register(registry or CollectorRegistry())
        self._lines = {name: self._line(name) for name in config.models}
        self._generations = Generations(self._sample, config.kept_completions)
        self._versions = Versions(
            self._lines,
            self._line,
            Downloads(store, config.cache_dir / "weights"),
            bus or MemoryBus(store, topology()),
            log,
            self._metrics,
            config,
        )

    def _line(self, name: str) -> Line:
        settings = self._config.models.get(name, self._config.trained)
        admission = Admission(name, limits(settings), self._metrics)
        open_one = partial(open_backend, name, settings, self._config.models_dir or self._config.cache_dir)
        line = Line(
            name, settings, partial(Slot, name, settings, open_one), admission, base=name in self._config.models
        )
        self._metrics.cache.labels(name).set_function(lambda: line.cache_share)
        return line

    async def start(self) -> None:
        """Load the models concurrently, except those to be loaded on request.

        Returns when loading the default model and those of roles has ended; raises the error of the default model's
        load.
        """
        wanted = {name for name, line in self._lines.items() if line.config.load == "start"} | set(self._roles.models)
        loading = {name: line.open(self._load) for name, line in self._lines.items() if name in wanted}
        await asyncio.gather(*(loading[name] for name in self._roles.models if name in loading))
        _ = self._find(self._config.default_model).backend
        await self._versions.start(self._config.ready_wait_s)

    async def _load(self, slot: Slot) -> None:
        started = time.monotonic()
        await slot.load()
        info, seconds = slot.info, round(time.monotonic() - started, 2)
        self._log.info("model loaded", model=info.name, state=info.state.value, detail=info.detail, seconds=seconds)

    async def close(self) -> None:
        self._generations.cancel()
        await self._versions.close()
        await asyncio.gather(*(line.close() for line in self._lines.values()))

    def _line_of(self, name: str) -> Line:
        wanted = self._roles.model(name, lane_now(), self._lines)
        if wanted not in self._lines:
            raise NotFound("model", wanted, difflib.get_close_matches(wanted, self._lines, 3) or sorted(self._lines))
        return self._lines[wanted]

    def _find(self, name: str, affinity: str = "", version: int = 0) -> Slot:
        line = self._line_of(name)
        slot = line.pick(lane_now(), affinity, version)
        if slot.version == 0 and line.is_due:
            line.open(self._load)
        return slot

    async def _serving(self, name: str, affinity: str, version: int) -> Slot:
        """Return the model version that serves a request.

        Raises ``NotReady`` when another replica already serves the version and this one has not caught up. A version
        that no replica serves raises ``NotFound`` or ``VersionMismatch``, which callers do not retry.
        """
        try:
            return self._find(name, affinity, version)
        except (NotFound, VersionMismatch) as error:
            if await self._versions.promised(self._roles.model(name, lane_now(), self._lines), version):
                message = f"model {name!r} is about to be served here"
                raise NotReady(message, retry_after_s=RETRY_WHILE_LOADING_S) from error
            raise

    async def generate(
        self, request: Request, remaining_s: Callable[[], float | None]
    ) -> AsyncGenerator[str | Completion, None]:
        """Yield pieces of text, then the completion; a repeated request id yields the same completion.

        ``remaining_s`` returns the seconds left until the caller's deadline. Sampling stops when the last caller
        leaves.
        """
        if not request.request_id:
            request = replace(request, request_id=new_id("gen"))
        generation = self._generations.join(checked(request))
        async with aclosing(generation.watch(remaining_s)) as items:
            async for item in items:
                yield item

    async def _sample(self, request: Request) -> AsyncGenerator[str | Completion, None]:
        slot = await self._serving(request.model, affinity(request), request.policy_version)
        async with aclosing(slot.generate(request)) as items:
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
        with self._find(model).used() as backend:
            return await backend.score(sequences, temperature)

    def model(self, name: str) -> ModelInfo:
        return self._line_of(name).info

    def occupancy(self, name: str) -> Occupancy:
        """Return the current load of a model's engine; raise the error of its load if that failed."""
        return self._line_of(name).pick(lane_now(), "", 0).backend.occupancy  # looking at a model does not load it

    def models(self) -> list[ModelInfo]:
        return [self._lines[name].info for name in sorted(self._lines)]

    async def pause(
        self, name: str, drain_s: float = 0.0, resume_after_s: float | None = None
    ) -> tuple[ModelInfo, int]:
        """Queue new generations until the model is resumed; running generations continue.

        Waits at most ``drain_s`` seconds for running generations and returns the model and how many still run. After
        ``resume_after_s`` seconds the pause ends by itself, so that a trainer that dies cannot block the service.
        Raises ``InvalidField`` for a negative duration.
        """
        if drain_s < 0 or (resume_after_s is not None and resume_after_s < 0):
            raise InvalidField("drain_ms" if drain_s < 0 else "resume_after_ms", "must not be negative")
        line = self._line_of(name)
        line.admission.pause(resume_after_s)
        if drain_s:
            await line.admission.drained(drain_s)
        return line.info, line.admission.running

    def resume(self, name: str) -> ModelInfo:
        line = self._line_of(name)
        line.admission.resume()
        return line.info

    async def tokenize(
        self, model: str, messages: Sequence[Message], tools: Sequence[ToolSpec], generation_prompt: bool, text: str
    ) -> list[int]:
        """Return token ids of ``messages`` by the chat template, or of plain ``text``.

        Raise ``InvalidField`` unless one is given.
        """
        if bool(messages) == bool(text):
            raise InvalidField("text", "give either messages or text")
        with self._find(model).used() as backend:
            if text:
                return await backend.encode(text)
            return await backend.tokenize(messages, tools, generation_prompt)

    async def detokenize(self, model: str, ids: Sequence[int]) -> str:
        with self._find(model).used() as backend:
            return await backend.detokenize(ids)

    async def load_weights(
        self,
        model: str,
        manifest: StoredObject | None,
        version: int,
        lanes: Collection[Lane] = (),
        percent: int = 100,
    ) -> Loaded:
        """Activate a published version in ``lanes`` (none: all), creating a model of that name if there is none.

        Without a manifest, uses the one published last under this number; version 0 is the model as configured.
        Raises ``InvalidField``, ``NotFound``, ``CorruptData``, ``Conflict``, or ``FailedPrecondition`` when the engine
        does not support weight updates. On any error the previous version stays active.
        """
        started = time.monotonic()
        name = checked_id("model", model)
        if name in set(ModelRole):
            raise InvalidField("model", f"{name!r} is a role; weights are of a model")
        if version < (0 if manifest is None else 1):
            raise InvalidField("policy_version", "must be at least 1")
        line, previous = await self._versions.activate(name, version, manifest, lanes, percent)
        return Loaded(line.info, previous, round((time.monotonic() - started) * 1000))


def lane_now() -> Lane:
    """Return the lane of the call being handled; interactive outside of a call."""
    call = current_call()
    return Lane.INTERACTIVE if call is None else call.lane


def affinity(request: Request) -> str:
    """Return a routing key shared by all turns of a conversation: a hash of its messages before the first answer."""
    opening = itertools.takewhile(lambda message: message.role is not Role.ASSISTANT, request.messages)
    return sha256("\x00".join(f"{message.role}\x01{message.content}" for message in opening).encode())
