"""The ``vllm`` backend: templating, stop strings and versions around vLLM's engine, which is restarted when it dies."""

from __future__ import annotations

import asyncio
import importlib.util
import itertools
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from fathom.core.errors import CorruptData, DependencyFailed, FathomError, InvalidField, MissingExtra, NotReady
from fathom.core.ids import new_id
from fathom.domain.chat.hermes import parse_tool_calls
from fathom.domain.chat.messages import Completion, FinishReason, Message, ToolFormat, ToolSpec, Usage
from fathom.services.policy.backends.chat import RenderedPrompt, render_prompt
from fathom.services.policy.backends.text import TextStream
from fathom.services.policy.backends.transformers.adapters import is_adapter
from fathom.services.policy.backends.vllm.adapter import Adapter, check_adapter, find_base
from fathom.services.policy.backends.vllm.folder import ModelFolder, check_successor, open_folder
from fathom.services.policy.config import VllmModel
from fathom.services.policy.model import Item, Occupancy, Request

if TYPE_CHECKING:
    from fathom.services.policy.backends.vllm.core import Core, Tokens

# The engine computes prompts in batches, and each holds a row of the vocabulary per token while it is scored.
SCORING = 8
"""Sequences scored concurrently."""


@dataclass
class Sampled:
    """Accumulated state of one completion."""

    text: TextStream
    end_ids: frozenset[int]
    ids: list[int] = field(default_factory=list)
    log_probs: list[float] = field(default_factory=list)
    finish: FinishReason | None = None
    cached: int = 0

    def take(self, step: Tokens) -> str:
        """Add ids up to the one that completes a stop string; return the text that they complete."""
        self.cached = max(self.cached, step.cached)
        pieces = []
        for token, log_prob in zip(step.ids, step.log_probs, strict=True):
            self.ids.append(token)
            self.log_probs.append(log_prob)
            # Checked here as well as by the engine, so that no id can ever follow the end of a turn.
            if token in self.end_ids:
                self.finish = FinishReason.STOP
                break
            pieces.append(self.text.push(token))
            if self.text.has_stopped():
                self.finish = FinishReason.STOP
                break
        if self.finish is None and step.finish is not None:
            # Errors and aborts of the engine have reasons of their own, and none of them is a completion.
            self.finish = {"length": FinishReason.LENGTH, "stop": FinishReason.STOP}.get(
                step.finish,
                FinishReason.ABORT,
            )
        if self.finish is not None:
            pieces.append(self.text.flush())
        return "".join(pieces)


class VllmBackend:
    """A causal language model in vLLM's engine."""

    engine = "vllm"
    exact = True

    def __init__(self, name: str, config: VllmModel, cache_dir: Path) -> None:
        """Raise ``MissingExtra`` when vLLM or transformers is not installed."""
        for module in ("vllm", "transformers"):
            if importlib.util.find_spec(module) is None:
                raise MissingExtra(module, "vllm")
        self._name, self._config, self._cache_dir = name, config, cache_dir
        self._opened: ModelFolder | None = None
        self._core: Core | None = None
        self._starting: asyncio.Task[None] | None = None
        # Weights are replaced in place, so of two loads at once neither version would be whole.
        self._changing = asyncio.Lock()
        self.version = 0
        self._adapter: Adapter | None = None
        self._numbers = itertools.count(1)
        # While the weights below an adapter are replaced, nothing may be sampled without it.
        self._is_changing_base = False
        self._bases = 0
        """Number of times that the weights in place were replaced, which running generations may notice."""

    @property
    def window_tokens(self) -> int:
        # The engine wants room for one more token than it has read, even to score.
        return (self._opened.window_tokens if self._opened else self._config.window_tokens) - 1

    @property
    def occupancy(self) -> Occupancy:
        return self._core.occupancy if self._core else Occupancy()

    async def load(self) -> None:
        """Start the engine with the configured folder, or SmolLM2."""
        folder = await asyncio.to_thread(self._find_configured)
        await self._start(await asyncio.to_thread(open_folder, folder, self._config.window_tokens), 0)

    def _find_configured(self) -> Path:
        if self._config.folder is not None:
            return self._config.folder
        from fathom.domain.smollm2 import smollm2_folder

        return smollm2_folder(self._cache_dir)

    async def _start(self, opened: ModelFolder, version: int) -> None:
        from fathom.services.policy.backends.vllm.core import Core

        core = await asyncio.to_thread(Core.start, self._config, opened.folder, opened.window_tokens)
        await core.prepare(version)
        self._opened, self._core, self.version = opened, core, version

    async def load_weights(self, folder: Path, version: int) -> None:
        """Load a version: whole weights in place, an adapter beside those in use.

        Raises ``CorruptData`` when it does not fit the served one or cannot be loaded.
        """
        if is_adapter(folder):
            return await self._load_adapter(folder, version)
        opened = await asyncio.to_thread(open_folder, folder, self._config.window_tokens)
        async with self._changing:
            await self._replace(opened, version)
            self._adapter, self.version = None, version

    async def _replace(self, opened: ModelFolder, version: int) -> None:
        """Replace the weights in place, or start the engine with them; an adapter in use stays as it is."""
        if self._opened is None:
            return await self._start(opened, version)
        core, before = self._alive(), self._opened
        # The engine loads in place, so everything checkable is checked before it reads a byte.
        await asyncio.to_thread(check_successor, before, opened)
        self._bases += 1
        try:
            await core.reload(opened.folder, version, self._config.swap)
        except FathomError as error:
            # Half of it may be in place: the version before comes from its own folder, in a new process.
            await self._restart(core)
            raise CorruptData(str(opened.folder), f"could not be loaded: {error.message}") from error
        self._opened = opened

    async def _load_adapter(self, folder: Path, version: int) -> None:
        """Load an adapter, and its base where that is not in place; running generations keep the adapter they have."""
        base = find_base(folder, await asyncio.to_thread(self._find_configured))
        opened = await asyncio.to_thread(open_folder, base, self._config.window_tokens)
        await asyncio.to_thread(check_adapter, folder, opened.shapes, self._config.lora_rank)
        # The engine knows what it has computed with an adapter by the adapter's name: each has one of its own.
        number = next(self._numbers)
        adapter = Adapter(f"{folder.name}.{number}", number, folder)
        async with self._changing:
            before = self._opened
            if before is not None and before.folder.resolve() == base.resolve():
                await self._add(adapter)
            else:
                await self._replace_below(adapter, opened, version)
            self._adapter, self.version = adapter, version

    async def _add(self, adapter: Adapter) -> None:
        try:
            await self._alive().add_adapter(adapter)
        except FathomError as error:
            raise CorruptData(str(adapter.folder), f"could not be loaded: {error.message}") from error

    async def _replace_below(self, adapter: Adapter, base: ModelFolder, version: int) -> None:
        """Replace the weights, then add the adapter; meanwhile requests get ``NotReady``."""
        before, served = self._opened, self.version
        self._is_changing_base = True
        try:
            await self._replace(base, version)
            await self._add(adapter)
        except FathomError:
            if before is not None and self._opened is base:
                await self._replace(before, served)
            raise
        finally:
            self._is_changing_base = False

    async def generate(self, request: Request) -> AsyncGenerator[Item, None]:
        """Sample with the current version.

        The setting ``swap`` determines the effect of a swap on running generations.
        """
        started, core, opened, version = time.monotonic(), self._usable(), self._ready(), self.version
        adapter, bases = self._adapter, self._bases
        prompt = await asyncio.to_thread(render_prompt, opened.tokenizer, request)
        whole = [*request.context_token_ids, *prompt.ids]
        check_ids(whole, opened, "context_token_ids")
        room = self.window_tokens - len(whole)
        if room < 1:
            raise InvalidField("messages", f"take {len(whole):,} tokens; the window has {self.window_tokens:,}")
        limit = min(request.sampling.max_tokens or self._config.max_tokens, room)
        sampled = Sampled(TextStream(opened.tokenizer.decode, request.sampling.stop), opened.tokenizer.end_ids)
        async with aclosing(self._steps(core, opened, request, whole, limit, adapter)) as steps:
            async for step in steps:
                if piece := sampled.take(step):
                    yield piece
                if sampled.finish is not None:
                    break
        if request.response_schema_json:
            # The engine masks the logits before it reads log-probabilities: those of the whole distribution are
            # computed once more.
            scores = await core.score(new_id("score"), [*whole, *sampled.ids], request.sampling.temperature, adapter)
            sampled.log_probs = scores[len(whole) :]
        usage = Usage(len(whole), len(sampled.ids), sampled.cached, round((time.monotonic() - started) * 1000))
        # With `swap: keep` the weights may have been replaced meanwhile, and both versions are reported. An adapter
        # stays that of the beginning.
        last = version if bases == self._bases else self.version
        yield self._completion(request, prompt, sampled, (version, last), usage)

    async def _steps(
        self,
        core: Core,
        opened: ModelFolder,
        request: Request,
        whole: Sequence[int],
        limit: int,
        adapter: Adapter | None,
    ) -> AsyncGenerator[Tokens, None]:
        from fathom.services.policy.backends.transformers.sampling import derive_seed

        sampling = replace(request.sampling, max_tokens=limit)
        seed, ends = derive_seed(sampling, request.request_id), sorted(opened.tokenizer.end_ids)
        try:
            # An id of its own: the caller's may come again while the engine still forgets the first one.
            ident = new_id("vllm")
            async with aclosing(
                core.generate(ident, whole, sampling, seed, ends, request.response_schema_json, adapter)
            ) as steps:
                async for step in steps:
                    yield step
        # The engine's process has died: the next request should find a new one being started, not this one's error
        # again.
        except DependencyFailed:
            self._revive(core)
            raise

    def _completion(
        self, request: Request, prompt: RenderedPrompt, sampled: Sampled, versions: tuple[int, int], usage: Usage
    ) -> Completion:
        calls = parse_tool_calls(sampled.text.text)[1] if request.tool_format is ToolFormat.HERMES else ()
        finish = sampled.finish or FinishReason.ABORT
        return Completion(
            prompt_token_ids=tuple(prompt.ids),
            sampled_token_ids=tuple(sampled.ids),
            log_probs=tuple(sampled.log_probs),
            text=sampled.text.text,
            tool_calls=calls,
            finish_reason=FinishReason.TOOL_CALLS if calls and finish is FinishReason.STOP else finish,
            version_min=min(versions),
            version_max=max(versions),
            usage=usage,
            exact=True,
            model=self._name,
            boundary_tokens=prompt.boundary,
        )

    async def score(self, sequences: Sequence[Sequence[int]], temperature: float) -> tuple[list[list[float]], int]:
        """Score up to ``SCORING`` sequences concurrently while sampling continues."""
        core, opened, version, adapter = self._usable(), self._ready(), self.version, self._adapter
        for index, ids in enumerate(sequences):
            check_ids(ids, opened, f"sequences[{index}]")
            if not 1 <= len(ids) <= self.window_tokens:
                raise InvalidField(f"sequences[{index}]", f"must have 1 to {self.window_tokens:,} ids")
        gate = asyncio.Semaphore(SCORING)

        async def one(ids: Sequence[int]) -> list[float]:
            async with gate:
                # The first id has no predecessor, so a single one needs no pass.
                return await core.score(new_id("score"), ids, temperature, adapter) if len(ids) > 1 else [0.0]

        return list(await asyncio.gather(*(one(ids) for ids in sequences))), version

    async def tokenize(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec], add_generation_prompt: bool
    ) -> list[int]:
        tokenizer = self._ready().tokenizer
        return await asyncio.to_thread(
            lambda: tokenizer.encode(tokenizer.render(messages, tools, add_generation_prompt))
        )

    async def encode(self, text: str) -> list[int]:
        return await asyncio.to_thread(self._ready().tokenizer.encode_content, text)

    async def detokenize(self, ids: Sequence[int]) -> str:
        opened = self._ready()
        check_ids(ids, opened, "token_ids")
        return await asyncio.to_thread(opened.tokenizer.decode, ids)

    async def close(self) -> None:
        if self._starting is not None:
            self._starting.cancel()
        core, self._core = self._core, None
        if core is not None:
            await asyncio.to_thread(core.stop)

    def _ready(self) -> ModelFolder:
        if self._opened is None:
            raise NotReady(f"model {self._name!r} is being loaded", retry_after_s=1.0)
        return self._opened

    def _alive(self) -> Core:
        """Return the running engine; restart a dead one and raise ``NotReady`` until it runs."""
        self._ready()
        if self._core is not None and self._core.is_dead:
            self._revive(self._core)
        if self._core is None:
            raise NotReady(f"the engine of model {self._name!r} is being started again", retry_after_s=2.0)
        return self._core

    def _usable(self) -> Core:
        """Return the running engine; raise ``NotReady`` while its weights and their adapter are replaced."""
        if self._is_changing_base:
            raise NotReady(f"the weights of model {self._name!r} are being replaced", retry_after_s=1.0)
        return self._alive()

    def _revive(self, core: Core) -> None:
        if core is self._core and core.is_dead and (self._starting is None or self._starting.done()):
            self._starting = asyncio.create_task(self._restart(core), name=f"restart of {self._name}")

    async def _restart(self, core: Core) -> None:
        """Restart the engine with the served version."""
        opened, version = self._ready(), self.version
        # Requests get NotReady from here on, instead of errors of an engine that is going away.
        self._core = None
        await asyncio.to_thread(core.stop)
        await self._start(opened, version)


def check_ids(ids: Sequence[int], opened: ModelFolder, field: str) -> None:
    """Raise ``InvalidField`` for a token id outside of the vocabulary."""
    if ids and (min(ids) < 0 or max(ids) >= opened.tokenizer.size):
        raise InvalidField(field, f"holds an id outside of 0 to {opened.tokenizer.size - 1:,}")
