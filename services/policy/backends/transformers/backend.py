"""The ``transformers`` backend: continuous batching with all computation in one thread."""

from __future__ import annotations

import asyncio
import importlib.util
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from fathom.core.errors import FathomError, Internal, InvalidField, MissingExtra, NotReady
from fathom.domain.chat.hermes import parse_tool_calls
from fathom.domain.chat.messages import Completion, FinishReason, Message, ToolFormat, ToolSpec, Usage
from fathom.services.policy.backends.chat import RenderedPrompt, render_prompt
from fathom.services.policy.backends.text import TextStream
from fathom.services.policy.config import TransformersModel
from fathom.services.policy.model import Item, Occupancy, Request, parse_json_object

if TYPE_CHECKING:
    from fathom.services.policy.backends.transformers.batch import Row
    from fathom.services.policy.backends.transformers.loading import LoadedNetwork
    from fathom.services.policy.backends.transformers.reload import Reloader

P = ParamSpec("P")
T = TypeVar("T")
Outbox = asyncio.Queue[str | FathomError | None]


class Sampler:
    """Continuous batching loop of one loaded version. The loop runs while there is work, then ends."""

    def __init__(
        self, loaded: LoadedNetwork, version: int, executor: ThreadPoolExecutor, largest_batch: int, prefix_tokens: int
    ) -> None:
        from fathom.services.policy.backends.transformers.batch import Batch
        from fathom.services.policy.backends.transformers.cache import PrefixStore

        self.loaded, self.version = loaded, version
        self._executor, self._largest = executor, largest_batch
        self._prefixes = PrefixStore(prefix_tokens)
        self._batch = Batch(loaded.network, self._prefixes)
        self._waiting: deque[Row] = deque()
        self._outboxes: dict[Row, Outbox] = {}
        self._loop: asyncio.Task[None] | None = None

    @property
    def occupancy(self) -> Occupancy:
        waiting, rows = len(self._waiting), list(self._outboxes)
        tokens = self._prefixes.tokens + sum(len(row.prompt) + len(row.sampled) for row in rows[: self._largest])
        room = self._prefixes.capacity + self._largest * self.loaded.window_tokens
        return Occupancy(len(rows) - waiting, waiting, tokens, tokens / room)

    def enter(self, row: Row) -> Outbox:
        """Queue a row and return its queue of text pieces, one per token, terminated by None."""
        outbox = self._outboxes[row] = asyncio.Queue()
        self._waiting.append(row)
        # The loop ends when it runs out of rows, so that an idle model costs nothing.
        if self._loop is None or self._loop.done():
            self._loop = asyncio.create_task(self._run(), name=f"sampling version {self.version}")
        return outbox

    def leave(self, row: Row) -> None:
        """Stop sampling a row."""
        # Read by the computing thread before the row's next token; a batch in flight is not interrupted.
        row.left = True
        self._outboxes.pop(row, None)

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while self._outboxes:
            joining: list[Row] = []
            while self._waiting and self._batch.size + len(joining) < self._largest:
                joining.append(self._waiting.popleft())
            try:
                pieces = await loop.run_in_executor(self._executor, self._batch.step, joining)
            except Exception as error:  # torch raises anything; without this, every caller would wait forever
                self._fail(error)
                return
            for row, piece in pieces:
                # The caller may have left while the step was computed.
                if row in self._outboxes:
                    self._outboxes[row].put_nowait(piece)
                if row.finish is not None and (outbox := self._outboxes.pop(row, None)) is not None:
                    outbox.put_nowait(None)
        self._clear()

    def _fail(self, error: Exception) -> None:
        """Pass an engine error to every row and reset the batch."""
        failure = Internal(f"sampling failed: {type(error).__name__}: {error}")
        failure.__cause__ = error
        for outbox in self._outboxes.values():
            outbox.put_nowait(failure)
        self._clear()

    def _clear(self) -> None:
        """Drop all rows and their key-value cache."""
        from fathom.services.policy.backends.transformers.batch import Batch

        self._outboxes.clear()
        self._waiting.clear()
        # After an error the cache of the batch may be half written, so no row of it can go on.
        self._batch = Batch(self.loaded.network, self._prefixes)


class TransformersBackend:
    """A causal language model."""

    engine = "transformers"
    exact = True

    def __init__(self, name: str, config: TransformersModel, cache_dir: Path) -> None:
        """Raise ``MissingExtra`` when torch, transformers or safetensors is not installed."""
        for module in ("torch", "transformers", "safetensors"):
            if importlib.util.find_spec(module) is None:
                raise MissingExtra(module, "policy")
        self._name, self._config, self._cache_dir = name, config, cache_dir
        # One thread computes: torch uses all cores within an operation, and two operations at once would slow each
        # other. A second one loads weights, so that sampling goes on meanwhile.
        self._executor = ThreadPoolExecutor(1, thread_name_prefix=f"torch-{name}")
        self._loader = ThreadPoolExecutor(1, thread_name_prefix=f"weights-{name}")
        self._reloader: Reloader | None = None
        self._current: Sampler | None = None

    @property
    def version(self) -> int:
        return self._current.version if self._current else 0

    @property
    def window_tokens(self) -> int:
        return self._current.loaded.window_tokens if self._current else self._config.window_tokens

    @property
    def occupancy(self) -> Occupancy:
        return self._current.occupancy if self._current else Occupancy()

    async def load(self) -> None:
        """Load the configured folder, or SmolLM2."""
        self._current = self._sampler(await self._in_thread(self._load_configured), 0)

    async def load_weights(self, folder: Path, version: int) -> None:
        """Load the new version alongside the old one, then swap."""
        swap = await self.stage_weights(folder, version)
        swap()

    async def stage_weights(self, folder: Path, version: int) -> Callable[[], None]:
        """Load and verify a version while sampling continues; return a call that makes it current immediately."""
        like = self._current.loaded if self._current else None
        loop = asyncio.get_running_loop()
        loaded = await loop.run_in_executor(self._loader, self._load_folder, folder, like)

        def swap() -> None:
            self._current = self._sampler(loaded, version)

        return swap

    def _load_configured(self) -> LoadedNetwork:
        return self._load_folder(self._config.adapter or self._configured_folder(), None)

    def _configured_folder(self) -> Path:
        from fathom.domain.smollm2 import smollm2_folder

        return self._config.folder or smollm2_folder(self._cache_dir)

    def _load_folder(self, folder: Path, like: LoadedNetwork | None) -> LoadedNetwork:
        import torch

        from fathom.services.policy.backends.transformers.loading import load_folder
        from fathom.services.policy.backends.transformers.reload import Reloader

        torch.set_num_threads(self._config.threads)
        if self._reloader is None:
            config = self._config
            self._reloader = Reloader(
                lambda path: load_folder(path, config.window_tokens, config.device, config.dtype),
                self._configured_folder,
            )
        return self._reloader.load(folder, like)

    def _sampler(self, loaded: LoadedNetwork, version: int) -> Sampler:
        return Sampler(loaded, version, self._executor, self._config.running, self._config.prefix_tokens)

    async def generate(self, request: Request) -> AsyncGenerator[Item, None]:
        """Sample with the current version; a swap during the generation does not affect it."""
        # Bound once: the sampler keeps its version's weights alive, so a swap does not mix two versions in one
        # completion.
        started, sampler = time.monotonic(), self._ready()
        # Rendering and tokenizing a long conversation takes tens of milliseconds, which would stall every stream.
        prompt = await asyncio.to_thread(render_prompt, sampler.loaded.tokenizer, request)
        row = await asyncio.to_thread(self._row, request, prompt.ids, sampler.loaded)
        outbox = sampler.enter(row)
        try:
            while True:
                piece = await outbox.get()
                # The end comes through the queue: the row itself is written by the other thread, ahead of its pieces.
                if piece is None:
                    break
                if isinstance(piece, FathomError):
                    raise piece
                if piece:
                    yield piece
        finally:
            sampler.leave(row)
        duration_ms = round((time.monotonic() - started) * 1000)
        yield self._completion(request, prompt, row, sampler.version, duration_ms)

    def _row(self, request: Request, prompt: list[int], loaded: LoadedNetwork) -> Row:
        from fathom.services.policy.backends.transformers.batch import Row
        from fathom.services.policy.backends.transformers.sampling import build_generator

        tokenizer, whole = loaded.tokenizer, [*request.context_token_ids, *prompt]
        check_ids(request.context_token_ids, loaded, "context_token_ids")
        room = loaded.window_tokens - len(whole)
        if room < 1:
            raise InvalidField("messages", f"take {len(whole):,} tokens; the window has {loaded.window_tokens:,}")
        wanted = request.sampling.max_tokens or self._config.max_tokens
        text = TextStream(tokenizer.decode, request.sampling.stop)
        source = build_generator(request.sampling, request.request_id)
        grammar = None
        if request.response_schema_json:
            schema = parse_json_object("response_schema_json", "it", request.response_schema_json)
            grammar = loaded.grammars.schema(schema)
        elif request.grammar:
            grammar = loaded.grammars.follow(request.grammar)
        elif self._config.guided_calls and request.tools and request.tool_format is ToolFormat.HERMES:
            grammar = loaded.grammars.calls(request.tools)
        return Row(whole, request.sampling, min(wanted, room), tokenizer.end_ids, source, text, grammar)

    def _completion(
        self, request: Request, prompt: RenderedPrompt, row: Row, version: int, duration_ms: int
    ) -> Completion:
        calls = parse_tool_calls(row.text.text)[1] if request.tool_format is ToolFormat.HERMES else ()
        finish = row.finish or FinishReason.ABORT
        return Completion(
            prompt_token_ids=tuple(prompt.ids),
            sampled_token_ids=tuple(row.sampled),
            log_probs=tuple(row.log_probs),
            text=row.text.text,
            tool_calls=calls,
            finish_reason=FinishReason.TOOL_CALLS if calls and finish is FinishReason.STOP else finish,
            version_min=version,
            version_max=version,
            usage=Usage(len(row.prompt), len(row.sampled), row.cached, duration_ms),
            exact=True,
            model=self._name,
            boundary_tokens=prompt.boundary,
        )

    async def score(self, sequences: Sequence[Sequence[int]], temperature: float) -> tuple[list[list[float]], int]:
        """Score the sequences one at a time; sampling continues in between."""
        from fathom.services.policy.backends.transformers.batch import score

        sampler = self._ready()
        loaded = sampler.loaded
        for index, ids in enumerate(sequences):
            check_ids(ids, loaded, f"sequences[{index}]")
            if not 1 <= len(ids) <= loaded.window_tokens:
                raise InvalidField(f"sequences[{index}]", f"must have 1 to {loaded.window_tokens:,} ids")
        # One task per sequence: the executor's queue is first in, first out, so a step of sampling comes between two of
        # them.
        scores = [await self._in_thread(score, loaded.network, ids, temperature) for ids in sequences]
        return scores, sampler.version

    async def tokenize(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec], add_generation_prompt: bool
    ) -> list[int]:
        tokenizer = self._ready().loaded.tokenizer
        return await asyncio.to_thread(
            lambda: tokenizer.encode(tokenizer.render(messages, tools, add_generation_prompt))
        )

    async def encode(self, text: str) -> list[int]:
        return await asyncio.to_thread(self._ready().loaded.tokenizer.encode_content, text)

    async def detokenize(self, ids: Sequence[int]) -> str:
        loaded = self._ready().loaded
        check_ids(ids, loaded, "token_ids")
        return await asyncio.to_thread(loaded.tokenizer.decode, ids)

    async def close(self) -> None:
        # Shutting down waits for running work, which would block the event loop.
        await asyncio.to_thread(self._loader.shutdown, cancel_futures=True)
        await asyncio.to_thread(self._executor.shutdown, cancel_futures=True)

    def _ready(self) -> Sampler:
        if self._current is None:
            raise NotReady(f"model {self._name!r} is being loaded", retry_after_s=1.0)
        return self._current

    async def _in_thread(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._executor, lambda: work(*args, **kwargs))


def check_ids(ids: Sequence[int], loaded: LoadedNetwork, field: str) -> None:
    """Raise ``InvalidField`` for a token id outside of the vocabulary."""
    # An index outside of the embedding raises on a CPU; on a GPU it makes every later call of the process fail.
    if ids and (min(ids) < 0 or max(ids) >= loaded.tokenizer.size):
        raise InvalidField(field, f"holds an id outside of 0 to {loaded.tokenizer.size - 1:,}")
