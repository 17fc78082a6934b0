"""Engines of every kind behind the same door, each with a model whose answers the tests know."""

from __future__ import annotations

import importlib.util
import os
import signal
import tempfile
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from contextlib import AbstractContextManager, AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing import active_children
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import structlog

from fathom.core.ids import new_id, sha256
from fathom.domain.chat.messages import Completion, Message, Role, ToolFormat, ToolSpec
from fathom.services.policy.backends import open_backend
from fathom.services.policy.config import Config, ModelConfig, OpenAIModel, RulesModel, TransformersModel, VllmModel
from fathom.services.policy.engine import Engine
from fathom.services.policy.model import Request, WaitChange
from fathom.transport.store import open_store
from tests.integration.policy import scribe
from tests.integration.policy.endpoint import Endpoint, endpoint
from tests.support.waiting import eventually

HOME = Path(__file__).resolve().parents[3] / ".fathom"
TOOLS = (
    ToolSpec("search", "finds documents", '{"type": "object", "properties": {"query": {"type": "string"}}}'),
    ToolSpec("finish", "ends", '{"type": "object"}'),
)
USER = Message(Role.USER, "What is the maximum drawdown of Apple?")
Cases = Mapping[str, Mapping[str, Any]]
Ask = Callable[..., Coroutine[Any, Any, Completion]]
RULES: Cases = {
    "short": {"messages": (USER,)},
    "call": {"messages": (USER,), "tools": TOOLS},
    "tag": {"messages": (USER,), "tool_format": ToolFormat.TAGS},
    "long": {"messages": (USER,), "tools": TOOLS},
}
RECITED: Cases = {
    **{name: {"messages": (Message(Role.USER, name),)} for name in ("short", "call")},
    "tag": {"messages": (Message(Role.USER, "tag"),), "tool_format": ToolFormat.TAGS},
    "long": {"messages": (Message(Role.USER, "sing"),)},
}


@dataclass
class Contender:
    """An engine and what may be expected of it. ``cases`` are fields of requests: a short answer, a tool call,
    an answer in tags, and one that goes on for ever where there is a network."""

    name: str
    engine: Engine
    cases: Cases
    crash: Callable[[], AbstractContextManager[None]]
    """Inside, the engine dies during the next generation."""
    exact: bool = True
    scores: bool = True
    endless: bool = True
    schema: bool = False
    hottest: float = 10.0
    granule: int = 0
    """Tokens of a block in which computed prefixes are reused by the next turn; 0: none are."""
    endpoints: list[Endpoint] = field(default_factory=list)

    def running(self) -> int:
        """Generations in the engine, that of the endpoint included."""
        far = sum(item.backend.occupancy.running + item.streaming for item in self.endpoints)
        return self.engine.get_occupancy("").running + far

    async def idle(self) -> None:
        """Returns when nothing is being generated any more."""
        await eventually(lambda: not self.running())


@pytest.fixture(scope="session")
def scribe_folder() -> Path:
    """Return the tiny model's folder; it is made once for each version of its recipe, by whichever worker comes first."""
    recipe = sha256(Path(scribe.__file__).read_bytes())[:12]
    folder = HOME / "tests" / f"scribe-{recipe}"
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(dir=folder.parent))
        scribe.scribe(made)
        with suppress(OSError):  # the other worker was first
            made.rename(folder)
    return folder


async def open_engine(config: ModelConfig, stack: AsyncExitStack, cache_dir: Path) -> Engine:
    engine = Engine(
        Config(models={"m": config}, default_model="m", cache_dir=cache_dir),
        open_store("memory://"),
        structlog.get_logger(),
    )
    stack.push_async_callback(engine.close)
    await engine.start()
    return engine


@contextmanager
def patch_attribute(target: str, replacement: Callable[..., Any]) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(target, replacement)
        yield


def after(calls: int, work: Callable[..., Any]) -> Callable[..., Any]:
    """``work``, which fails from its ``calls``-th call on."""
    left = iter(range(calls))

    def run(*args: Any, **kwargs: Any) -> Any:
        if next(left, None) is None:
            raise RuntimeError("the engine died")
        return work(*args, **kwargs)

    return run


async def rules(stack: AsyncExitStack, folder: Path, cache_dir: Path) -> Contender:
    engine = await open_engine(RulesModel(window_tokens=4096), stack, cache_dir)
    module = "fathom.services.policy.backends.rules.backend"
    return Contender(
        "rules", engine, RULES, lambda: patch_attribute(f"{module}.reply", after(0, str)), scores=False, endless=False
    )


def local(folder: Path) -> TransformersModel:
    return TransformersModel(folder=folder, threads=1, running=8)


async def transformers(stack: AsyncExitStack, folder: Path, cache_dir: Path) -> Contender:
    engine = await open_engine(local(folder), stack, cache_dir)

    def crash() -> AbstractContextManager[None]:
        from fathom.services.policy.backends.transformers import batch

        return patch_attribute("fathom.services.policy.backends.transformers.batch.forward", after(5, batch.forward))

    return Contender("transformers", engine, RECITED, crash, schema=True, granule=1)


async def openai(stack: AsyncExitStack, folder: Path, cache_dir: Path) -> Contender:
    far = open_backend("far", local(folder), cache_dir)
    await far.load()
    stack.push_async_callback(far.close)
    served = await stack.enter_async_context(endpoint(far))
    config = OpenAIModel(engine="openai", model="far", base_url=served.url, api_key_env="", timeout_s=2.0, greedy=True)
    engine = await open_engine(config, stack, cache_dir)

    @contextmanager
    def crash() -> Iterator[None]:
        # As often as the service asks for a reply that broke off.
        served.faults += ["cut"] * 3
        yield

    return Contender("openai", engine, RECITED, crash, exact=False, scores=False, schema=True, endpoints=[served])


async def vllm(stack: AsyncExitStack, folder: Path, cache_dir: Path) -> Contender:
    if importlib.util.find_spec("vllm") is None:
        pytest.skip("vllm is not installed: pip install 'fathom[vllm]'")
    config = VllmModel(engine="vllm", folder=folder, threads=1, kv_cache_gb=0.25)
    engine = await open_engine(config, stack, cache_dir)

    @contextmanager
    def crash() -> Iterator[None]:
        for process in active_children():
            if "EngineCore" in process.name and process.pid:
                os.kill(process.pid, signal.SIGKILL)
        yield

    return Contender("vllm", engine, RECITED, crash, schema=True, granule=128, hottest=2.0)


CONTENDERS = {"rules": rules, "transformers": transformers, "openai": openai, "vllm": vllm}
SLOW = {"vllm"}


@asynccontextmanager
async def contending(name: str, folder: Path, cache_dir: Path) -> AsyncIterator[Contender]:
    async with AsyncExitStack() as stack:
        yield await CONTENDERS[name](stack, folder, cache_dir)


@pytest_asyncio.fixture(
    scope="session",
    loop_scope="session",
    params=[pytest.param(name, marks=pytest.mark.slow if name in SLOW else ()) for name in CONTENDERS],
)
async def contender(
    request: pytest.FixtureRequest, scribe_folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Contender]:
    """Every engine in turn."""
    async with contending(request.param, scribe_folder, tmp_path_factory.mktemp("cache")) as made:
        yield made


@pytest.fixture
def ask(contender: Contender) -> Ask:
    """Generates a case with changed fields; every answer must be the sum of its pieces."""

    async def run(case: str, **fields: Any) -> Completion:
        request = Request(**{"request_id": new_id("t"), "model": "", **contender.cases[case], **fields})
        # A wait for a place is told first, and is no piece of the answer.
        generated = contender.engine.generate(request, lambda: None)
        items = [item async for item in generated if not isinstance(item, WaitChange)]
        completion = items[-1]
        assert isinstance(completion, Completion)
        assert all(isinstance(item, str) and item for item in items[:-1])
        assert "".join(item for item in items if isinstance(item, str)) == completion.text
        return completion

    return run


async def text_of(contender: Contender, ids: tuple[int, ...]) -> str:
    return await contender.engine.detokenize("", ids)
