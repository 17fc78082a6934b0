"""One loaded model version: lifecycle, admission control, backend."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import aclosing, contextmanager
from pathlib import Path

from fathom.core.admission import Admission, AdmissionObserver, Claimant, Limits
from fathom.core.errors import FailedPrecondition, FathomError, Internal, NotReady, VersionMismatch
from fathom.domain.weights.manifest import ADAPTER_CONFIG
from fathom.services.policy.config import ModelConfig, VllmModel
from fathom.services.policy.model import Backend, Item, ModelInfo, Request, State, WaitChange

# Loading takes seconds to minutes: clients should ask again, but not busily.
RETRY_WHILE_WARMING_S = 1.0
# Bytes of UTF-8 per token: about what English and Chinese text take, and rather too many tokens than too few, since a
# reservation that is too small would overfill the key-value cache.
BYTES_PER_TOKEN = 3
# Of eight places one is not kept, however many people come: trainings and evaluations take it at their turns.
FREE_SHARE = 8
DETAILS = {
    "rules": "Deterministic reference policy: fixed rules, no neural network.",
    "transformers": "Causal language model in this process.",
    "reading": "Reference policy for which a language model reads the question.",
    "vllm": "Causal language model in vLLM's engine.",
    "openai": "Model behind a compatible endpoint; token ids and log-probabilities are not exact.",
}


class LoadedModel:
    """A model with one version at a time. ``admission`` may be shared with other versions of the model."""

    def __init__(
        self,
        name: str,
        config: ModelConfig,
        open_backend: Callable[[], Backend],
        admission: Admission | None = None,
    ) -> None:
        self.name, self.config = name, config
        self.admission = admission or create_admission(name, config)
        self.idle = asyncio.Event()
        self.idle.set()
        self._users = 0
        self._open = open_backend
        self._backend: Backend | None = None
        self._error: FathomError | None = None
        self.is_loading = False
        self._swapping = asyncio.Lock()

    async def load(self, folder: Path | None = None, version: int = 0) -> None:
        """Load the backend with its configured model, or with a downloaded version.

        A failure is stored, and raised to every caller that needs the model.
        """
        # The start of the service must not fail because of one model of many, hence no exception.
        self._error, self.is_loading = None, True
        try:
            self.check_kind(folder)
            backend = self._open()
            await (backend.load() if folder is None else backend.load_weights(folder, version))
        except FathomError as error:
            self._error = error
        except Exception as error:  # backends' libraries raise anything; callers get a typed error
            self._error = Internal(f"model {self.name!r} cannot be loaded: {type(error).__name__}: {error}")
            self._error.__cause__ = error
        else:
            self._backend = backend
        finally:
            self.is_loading = False

    @property
    def info(self) -> ModelInfo:
        backend = self._backend
        state, detail = State.READY, DETAILS[self.config.engine]
        if self._error is not None:
            state, detail = State.FAILED, self._error.message
        elif backend is None:
            state, detail = State.WARMING, "Being loaded."
            if not self.is_loading and self.config.load == "request":
                state, detail = State.IDLE, "Loaded at the first request."
        elif self.admission.is_paused:
            state, detail = State.PAUSED, "Generations wait until the model is resumed."
        return ModelInfo(
            name=self.name,
            engine=self.config.engine,
            state=state,
            policy_version=backend.version if backend else 0,
            window_tokens=backend.window_tokens if backend else self.config.window_tokens,
            exact=self.config.engine not in ("openai", "reading"),
            detail=detail,
        )

    @property
    def error(self) -> FathomError | None:
        """Return the error of the last load; None when it succeeded, is running, or has not begun."""
        return self._error

    @property
    def is_ready(self) -> bool:
        """Return whether the model is loaded."""
        return self._error is None and self._backend is not None

    @property
    def version(self) -> int:
        """Return the version that serves; 0 while none is loaded."""
        return self._backend.version if self._backend else 0

    @property
    def backend(self) -> Backend:
        """Return the loaded backend; raise the error of a failed load, or ``NotReady`` before the load has finished."""
        if self._error is not None:
            raise self._error
        if self._backend is None:
            raise NotReady(f"model {self.name!r} is being loaded", retry_after_s=RETRY_WHILE_WARMING_S)
        return self._backend

    async def generate(self, request: Request) -> AsyncGenerator[Item, None]:
        """Wait for admission, then sample; raise ``Overloaded``, ``NotReady`` or ``VersionMismatch``."""
        backend = self.backend
        tokens = estimate_tokens(request, self.config, backend.window_tokens)
        # In use from before the wait: a version with queued requests must not be retired under them.
        with self.use():
            claimant = Claimant.current()
            # Told before it waits: the caller's own time does not run meanwhile.
            if is_waiting := self.admission.must_wait(claimant.lane, tokens):
                yield WaitChange(is_over=False)
            async with self.admission.admit(claimant, tokens):
                if is_waiting:
                    yield WaitChange(is_over=True)
                # Checked when its turn comes: the version may have changed while it waited.
                if request.policy_version not in (0, backend.version):
                    raise VersionMismatch(self.name, request.policy_version, backend.version)
                async with aclosing(backend.generate(request)) as items:
                    async for item in items:
                        yield item

    @contextmanager
    def use(self) -> Iterator[Backend]:
        """Yield the backend and keep ``idle`` unset inside the block, so that it is not retired.

        Raise as ``backend`` does.
        """
        backend = self.backend
        self._users += 1
        self.idle.clear()
        try:
            yield backend
        finally:
            self._users -= 1
            if not self._users:
                self.idle.set()

    async def stage(self, folder: Path, version: int) -> Callable[[], Awaitable[None]]:
        """Prepare the version in ``folder`` and return a call that activates it; an error leaves the state unchanged.

        Engines that can load beside the served version do all the work here; for others the returned call does it.
        """
        backend = self.backend
        self.check_kind(folder)
        # Optional in ``Backend``: vLLM replaces weights in place and cannot hold two versions.
        stage = getattr(backend, "stage_weights", None)
        if stage is None:
            return lambda: self._load_weights(folder, version)
        swap = await stage(folder, version)

        async def commit() -> None:
            swap()

        return commit

    def check_kind(self, folder: Path | None) -> None:
        """Raise ``FailedPrecondition`` for an adapter that the engine does not take."""
        if folder is None or not (folder / ADAPTER_CONFIG).is_file() or self.config.engine == "transformers":
            return
        if not isinstance(self.config, VllmModel):
            raise FailedPrecondition(
                f"model {self.name!r}: engine {self.config.engine!r} takes whole versions, no adapters",
                metadata={"model": self.name, "field": "manifest"},
            )
        if not self.config.lora_rank:
            raise FailedPrecondition(
                f"model {self.name!r}: engine 'vllm' takes adapters when lora_rank, their largest rank, is set",
                metadata={"model": self.name, "field": "lora_rank"},
            )

    async def _load_weights(self, folder: Path, version: int) -> None:
        # Two in-place loads at once would leave a mixture of both versions.
        async with self._swapping:
            await self.backend.load_weights(folder, version)

    async def close(self) -> None:
        if self._backend is not None:
            await self._backend.close()


def create_admission(name: str, config: ModelConfig, observer: AdmissionObserver | None = None) -> Admission:
    """Return the admission queue of a model, with the limits that its settings define.

    A generation reserves the sum of its prompt and its largest completion, an upper bound of its key-value cache.
    """
    tokens = config.tokens_in_flight or config.running * config.window_tokens
    most_reserved = config.running - -(-config.running // FREE_SHARE) if config.reserve_s else 0
    limits = Limits(config.running, config.waiting, tokens, most_reserved=most_reserved, reserve_s=config.reserve_s)
    return Admission(f"model {name!r}", limits, observer, "generations")


def estimate_tokens(request: Request, config: ModelConfig, window_tokens: int) -> int:
    """Return the largest size of a generation in tokens, at most the window.

    Earlier ids are counted exactly; new text is estimated from its UTF-8 size.
    """
    new = request.messages[request.context_messages :]
    size = sum(len((message.content + message.opaque_json).encode()) for message in new)
    # With earlier ids the tools stand in the context already.
    if not request.context_messages:
        size += sum(len(tool.parameters_json) + len(tool.description) for tool in request.tools)
    wanted = request.sampling.max_tokens or config.max_tokens
    return min(window_tokens, len(request.context_token_ids) + size // BYTES_PER_TOKEN + wanted)
