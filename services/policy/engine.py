"""Policy's registry of models: who serves, in which version, and what is asked of it."""

from __future__ import annotations

import asyncio
import difflib
import shutil
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from fathom.errors import InvalidField, NotFound, VersionMismatch
from fathom.ids import checked_id, new_id, sha256
from fathom.protocol import weights
from fathom.protocol.messages import Completion, Message, ToolSpec
from fathom.store.base import ObjectStore, StoredObject
from services.policy.backends import open_backend
from services.policy.config import Config
from services.policy.generations import Generations
from services.policy.model import ModelInfo, Occupancy, Request, checked
from services.policy.slot import Slot

MAX_SEQUENCES, MAX_TEMPERATURE = 256, 10.0
KEPT_VERSIONS = 2


@dataclass(frozen=True)
class Loaded:
    """Outcome of a load: the model as it is now, the version before (0 when new), milliseconds."""

    model: ModelInfo
    previous_version: int
    duration_ms: int


class Engine:
    """All models of this process. Methods take a model name, "" for the default one, and raise ``NotFound``."""

    def __init__(self, config: Config, store: ObjectStore, log: Any) -> None:
        self._config, self._store, self._log = config, store, log
        self._slots = {name: self._slot(name) for name in config.models}
        self._loading: dict[str, asyncio.Task[None]] = {}
        self._generations = Generations(self._sample, config.kept_completions)
        self._creating = asyncio.Lock()

    def _slot(self, name: str) -> Slot:
        settings = self._config.models[name]
        return Slot(name, settings, partial(open_backend, name, settings, self._config.cache_dir))

    async def start(self) -> None:
        """Loads all models at once; returns when the default one is ready, raises why it cannot be."""
        for name, slot in self._slots.items():
            self._loading[name] = asyncio.create_task(self._load(slot), name=f"loading {name}")
        default = self._config.default_model
        await self._loading[default]
        _ = self._slots[default].backend

    async def _load(self, slot: Slot) -> None:
        started = time.monotonic()
        await slot.load()
        info, seconds = slot.info, round(time.monotonic() - started, 2)
        self._log.info("model loaded", model=info.name, state=info.state.value, detail=info.detail, seconds=seconds)

    async def close(self) -> None:
        self._generations.cancel()
        for task in self._loading.values():
            task.cancel()
        await asyncio.gather(*self._loading.values(), return_exceptions=True)
        await asyncio.gather(*(slot.close() for slot in self._slots.values()))

    def _find(self, name: str) -> Slot:
        wanted = name or self._config.default_model
        if wanted not in self._slots:
            raise NotFound("model", wanted, difflib.get_close_matches(wanted, self._slots, 3) or sorted(self._slots))
        return self._slots[wanted]

    async def generate(
        self, request: Request, remaining_s: Callable[[], float | None]
    ) -> AsyncGenerator[str | Completion, None]:
        """Pieces of text, then the completion; the same request id gives the same completion.

        ``remaining_s`` tells what is left of the caller's time. Sampling stops when nobody watches any more.
        """
        if not request.request_id:
            request = replace(request, request_id=new_id("gen"))
        self._find(request.model)
        generation = self._generations.join(checked(request))
        async with aclosing(generation.watch(remaining_s)) as items:
            async for item in items:
                yield item

    async def _sample(self, request: Request) -> AsyncGenerator[str | Completion, None]:
        async with aclosing(self._find(request.model).generate(request)) as items:
            async for item in items:
                yield item

    async def score(
        self, model: str, sequences: Sequence[Sequence[int]], temperature: float
    ) -> tuple[list[list[float]], int]:
        """Log-probabilities in nats of 1 to 256 sequences, and the version that scored."""
        if not 1 <= len(sequences) <= MAX_SEQUENCES:
            raise InvalidField("sequences", f"must be 1 to {MAX_SEQUENCES}")
        if not 0 <= temperature <= MAX_TEMPERATURE:
            raise InvalidField("temperature", f"must be between 0 and {MAX_TEMPERATURE:g}")
        for index, ids in enumerate(sequences):
            if not ids:
                raise InvalidField(f"sequences[{index}]", "is empty")
        return await self._find(model).backend.score(sequences, temperature)

    def model(self, name: str) -> ModelInfo:
        return self._find(name).info

    def occupancy(self, name: str) -> Occupancy:
        """What the engine of a model holds now; raises why it could not be loaded."""
        return self._find(name).backend.occupancy

    def models(self) -> list[ModelInfo]:
        return [self._slots[name].info for name in sorted(self._slots)]

    def pause(self, name: str) -> ModelInfo:
        """New generations wait from now on; running ones end."""
        slot = self._find(name)
        slot.pause()
        return slot.info

    def resume(self, name: str) -> ModelInfo:
        slot = self._find(name)
        slot.resume()
        return slot.info

    async def tokenize(
        self, model: str, messages: Sequence[Message], tools: Sequence[ToolSpec], generation_prompt: bool, text: str
    ) -> list[int]:
        """Ids of messages by the chat template, or of plain text; one of both."""
        if bool(messages) == bool(text):
            raise InvalidField("text", "give either messages or text")
        backend = self._find(model).backend
        if text:
            return await backend.encode(text)
        return await backend.tokenize(messages, tools, generation_prompt)

    async def detokenize(self, model: str, ids: Sequence[int]) -> str:
        return await self._find(model).backend.detokenize(ids)

    async def load_weights(self, model: str, manifest: StoredObject, version: int) -> Loaded:
        """Fetches a published version and serves it; creates a model of that name when there is none.

        Raises ``InvalidField``, ``NotFound``, ``CorruptData``, or ``VersionMismatch`` when the engine takes no
        weights. Whatever is raised, the version before goes on being served.
        """
        started = time.monotonic()
        name = checked_id("model", model)
        if version < 1:
            raise InvalidField("policy_version", "must be at least 1")
        known = self._slots.get(name)
        if known is not None and known.config.engine not in ("transformers", "vllm"):
            raise VersionMismatch(name, version, 0)
        folder = await self._fetch(name, manifest, version)
        previous = await self._serve(name, folder, version)
        await asyncio.to_thread(prune, folder)
        info = self._slots[name].info
        duration_ms = round((time.monotonic() - started) * 1000)
        self._log.info("weights loaded", model=name, version=version, previous=previous, duration_ms=duration_ms)
        return Loaded(info, previous, duration_ms)

    async def _fetch(self, name: str, ref: StoredObject, version: int) -> Path:
        listed = await weights.read_manifest(self._store, ref)
        if listed.policy_version != version:
            raise InvalidField("policy_version", f"is {version}, but the manifest carries {listed.policy_version}")
        if listed.model != name:
            raise InvalidField("model", f"is {name!r}, but the manifest is of {listed.model!r}")
        # The checksum is in the name: a trainer that starts over publishes a version number again.
        digest = ref.sha256 or sha256(listed.to_json())
        folder = self._config.cache_dir / "weights" / name / f"{version}-{digest[:12]}"
        await weights.fetch(self._store, ref, folder)
        return folder

    async def _serve(self, name: str, folder: Path, version: int) -> int:
        known = self._slots.get(name)
        if known is not None:
            if (loading := self._loading.get(name)) is not None:
                await asyncio.shield(loading)
            return await known.load_weights(folder, version)
        async with self._creating:
            if name in self._slots:
                return await self._slots[name].load_weights(folder, version)
            settings = self._config.trained.model_copy(update={"folder": folder})
            slot = Slot(name, settings, partial(open_backend, name, settings, self._config.cache_dir))
            await slot.load(folder, version)
            _ = slot.backend  # raises why it could not be loaded; the name then stays free
            self._slots[name] = slot
            return 0


def prune(served: Path) -> None:
    """Removes downloaded versions of a model but the newest few, never the one being served."""
    siblings = sorted(
        (path for path in served.parent.iterdir() if path.is_dir() and not path.name.startswith(".")),
        key=lambda path: path.stat().st_mtime,
        reverse=True,
    )
    for path in siblings[KEPT_VERSIONS:]:
        if path != served:
            shutil.rmtree(path, ignore_errors=True)
