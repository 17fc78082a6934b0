"""Adapters in vLLM's engine, which a fake plays at the edge: which adapter each generation is given."""

from __future__ import annotations

import asyncio
import importlib.machinery
import json
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, ClassVar, Literal

import pytest
import torch
from safetensors.torch import save_file

from fathom.core.errors import CorruptData, DependencyFailed, FailedPrecondition, NotReady
from fathom.domain.chat.messages import Completion, Message, Role, Sampling
from fathom.services.policy.backends.vllm.backend import VllmBackend
from fathom.services.policy.config import RulesModel, TransformersModel, VllmModel
from fathom.services.policy.model import Request
from fathom.services.policy.serving.downloads import BASE_POINTER
from fathom.services.policy.serving.loaded_model import LoadedModel
from tests.integration.policy.weights.models import tiny_model
from tests.support.waiting import eventually


class FakeLLM:
    """An engine that says one token when it is allowed to, and remembers what it was asked."""

    started: ClassVar[list[Any]] = []

    def __init__(self, arguments: Any) -> None:
        self.arguments, self.asked, self.added, self.reloaded = arguments, [], [], []
        self.errored, self.problem = False, None
        self.may_speak = asyncio.Event()
        self.may_speak.set()
        self.may_reload = asyncio.Event()
        self.may_reload.set()

    @classmethod
    def from_engine_args(cls, arguments: Any, stat_loggers: Any) -> FakeLLM:
        cls.started.append(cls(arguments))
        made: FakeLLM = cls.started[-1]
        return made

    async def generate(self, prompt: Any, params: Any, ident: str, lora_request: Any = None) -> AsyncIterator[Any]:
        if self.errored:
            raise sys.modules["vllm.v1.engine.exceptions"].EngineDeadError
        self.asked.append(lora_request and lora_request.lora_name)
        await self.may_speak.wait()
        if params.prompt_logprobs is not None:
            ids = prompt["prompt_token_ids"]
            yield SimpleNamespace(prompt_logprobs=[None, *({one: SimpleNamespace(logprob=-1.0)} for one in ids[1:])])
            return
        sample = SimpleNamespace(
            token_ids=[65], logprobs=[{65: SimpleNamespace(logprob=-0.5)}], finish_reason="length", weight_versions=()
        )
        yield SimpleNamespace(outputs=[sample], num_cached_tokens=0)

    async def add_lora(self, lora_request: Any) -> bool:
        if self.problem is not None:
            raise self.problem
        self.added.append((lora_request.lora_name, lora_request.lora_path))
        return True

    async def collective_rpc(self, method: str, kwargs: Any = None) -> None:
        if method == "reload_weights":
            self.reloaded.append(Path(kwargs["weights_path"]))
            await self.may_reload.wait()

    async def update_weight_version(self, version: str) -> None: ...
    async def pause_generation(self, **options: Any) -> None: ...
    async def resume_generation(self) -> None: ...
    async def reset_prefix_cache(self, **options: Any) -> None: ...
    def get_num_unfinished_requests(self) -> int:
        return 0

    def shutdown(self) -> None: ...


class Lenient:
    """Parameters of vLLM with everything that was not given as None."""

    def __init__(self, **given: Any) -> None:
        self.__dict__.update(given)

    def __getattr__(self, name: str) -> None:
        return None


class LoRARequest:
    def __init__(self, lora_name: str, lora_int_id: int, lora_path: str) -> None:
        self.lora_name, self.lora_int_id, self.lora_path = lora_name, lora_int_id, lora_path


@pytest.fixture(autouse=True)
def vllm(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[FakeLLM]]:
    """The modules of vLLM that the adapter of its engine uses."""
    names: dict[str, dict[str, Any]] = {
        "vllm": {},
        "vllm.config": {"StructuredOutputsConfig": Lenient},
        "vllm.config.lora": {"MaxLoRARanks": Literal[1, 8, 16]},
        "vllm.engine.arg_utils": {"AsyncEngineArgs": Lenient},
        "vllm.exceptions": {"VLLMClientError": type("VLLMClientError", (Exception,), {})},
        "vllm.lora.request": {"LoRARequest": LoRARequest},
        "vllm.sampling_params": {
            "SamplingParams": Lenient, "RequestOutputKind": SimpleNamespace(DELTA=1), "StructuredOutputsParams": Lenient,
        },
        "vllm.v1.engine.async_llm": {"AsyncLLM": FakeLLM},
        "vllm.v1.engine.exceptions": {"EngineDeadError": type("EngineDeadError", (Exception,), {})},
        "vllm.v1.metrics.loggers": {"StatLoggerBase": object},
    }  # fmt: skip
    for name, content in names.items():
        module = ModuleType(name)
        module.__dict__.update(content)
        module.__spec__ = importlib.machinery.ModuleSpec(name, None)
        monkeypatch.setitem(sys.modules, name, module)
    FakeLLM.started.clear()
    yield FakeLLM
    FakeLLM.started.clear()


@pytest.fixture(scope="module")
def bases(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    root = tmp_path_factory.mktemp("bases")
    return [tiny_model(root / name, seed) for seed, name in enumerate(("one", "two"))]


def make_adapter(folder: Path, rank: int = 4, base: Path | None = None, **settings: Any) -> Path:
    """Write an adapter on one layer, as a downloaded version."""
    folder.mkdir()
    place = "base_model.model.model.layers.0.self_attn.q_proj.lora_"
    pair = {f"{place}A.weight": torch.zeros(rank, 32), f"{place}B.weight": torch.zeros(32, rank)}
    save_file(pair, folder / "adapter_model.safetensors")
    config = {"peft_type": "LORA", "lora_alpha": 8, "r": rank, "bias": "none", **settings}
    (folder / "adapter_config.json").write_text(json.dumps(config))
    if base is not None:
        (folder / BASE_POINTER).write_text(str(base))
    return folder


async def start(folder: Path, tmp_path: Path, rank: int = 8) -> VllmBackend:
    backend = VllmBackend("m", VllmModel(engine="vllm", folder=folder, lora_rank=rank), tmp_path)
    await backend.load()
    return backend


async def ask(backend: VllmBackend, ident: str = "r") -> Completion:
    request = Request(ident, "m", (Message(Role.USER, "hello"),), sampling=Sampling(max_tokens=1))
    items = [item async for item in backend.generate(request)]
    assert isinstance(items[-1], Completion)
    return items[-1]


async def test_each_generation_names_the_adapter_of_its_version(bases: list[Path], tmp_path: Path) -> None:
    backend = await start(bases[0], tmp_path)
    (llm,) = FakeLLM.started
    assert (llm.arguments.enable_lora, llm.arguments.max_lora_rank) == (True, 8)
    await ask(backend)
    await backend.load_weights(make_adapter(tmp_path / "1-abc"), 1)
    llm.may_speak.clear()
    early = asyncio.create_task(ask(backend, "early"))
    await eventually(lambda: len(llm.asked) == 2)
    await backend.load_weights(make_adapter(tmp_path / "2-def"), 2)
    llm.may_speak.set()
    first, second = await early, await ask(backend)
    # The one that ran goes on with its adapter, and nobody waited for it.
    assert [(one.version_min, one.version_max) for one in (first, second)] == [(1, 1), (2, 2)]
    assert llm.asked == [None, "1-abc.1", "2-def.2"]
    assert await backend.score([[1, 2]], 1.0) == ([[0.0, -1.0]], 2)
    assert llm.asked[-1] == "2-def.2"
    assert llm.reloaded == [], "the base stays where it is"
    await backend.load_weights(bases[0], 3)
    await ask(backend)
    assert (llm.asked[-1], backend.version) == (None, 3)


async def test_another_base_is_loaded_first_and_nothing_is_sampled_in_between(
    bases: list[Path], tmp_path: Path
) -> None:
    backend = await start(bases[0], tmp_path)
    (llm,) = FakeLLM.started
    llm.may_reload.clear()
    loading = asyncio.create_task(backend.load_weights(make_adapter(tmp_path / "1-abc", base=bases[1]), 1))
    await eventually(lambda: llm.reloaded)
    with pytest.raises(NotReady, match="are being replaced"):
        await ask(backend)
    llm.may_reload.set()
    await loading
    assert (await ask(backend)).version_min == 1
    assert (llm.reloaded, llm.added) == ([bases[1]], [("1-abc.1", str(tmp_path / "1-abc"))])
    # One that cannot be loaded: the base before comes back, and the version before serves on.
    llm.problem = RuntimeError("no room")
    with pytest.raises(CorruptData, match="no room"):
        await backend.load_weights(make_adapter(tmp_path / "2-def", base=bases[0]), 2)
    assert llm.reloaded[1:] == [bases[0], bases[1]]
    assert (await ask(backend)).version_max == 1
    assert llm.asked[-1] == "1-abc.1"


@pytest.mark.parametrize(
    ("settings", "error", "why"),
    [
        ({"rank": 9}, FailedPrecondition, "has rank 9, the engine takes up to 8"),
        ({"use_dora": True}, CorruptData, "only plain LoRA"),
        ({"alpha_pattern": {"q_proj": 2}}, CorruptData, "alike in all layers; not alpha_pattern"),
    ],
)
async def test_what_the_engine_would_serve_otherwise_is_refused(
    bases: list[Path], tmp_path: Path, settings: dict[str, Any], error: type[Exception], why: str
) -> None:
    backend = await start(bases[0], tmp_path)
    with pytest.raises(error, match=why):
        await backend.load_weights(make_adapter(tmp_path / "1-abc", **settings), 1)
    assert (backend.version, FakeLLM.started[0].added) == (0, [])
    assert (await ask(backend)).version_max == 0


async def test_an_engine_that_died_serves_the_adapter_when_it_is_back(bases: list[Path], tmp_path: Path) -> None:
    backend = await start(bases[0], tmp_path)
    await backend.load_weights(make_adapter(tmp_path / "1-abc"), 1)
    FakeLLM.started[0].errored = True
    with pytest.raises(DependencyFailed, match="process died"):
        await ask(backend)
    completion = await eventually(lambda: ask(backend), ignoring=(NotReady, DependencyFailed))
    assert completion.version_min == 1
    assert FakeLLM.started[1].asked == ["1-abc.1"]
    await backend.close()


async def test_engines_without_adapters_name_the_setting(bases: list[Path], tmp_path: Path) -> None:
    adapter = make_adapter(tmp_path / "1-abc")
    for field, config in (("lora_rank", VllmModel(engine="vllm", folder=bases[0])), ("manifest", RulesModel())):
        with pytest.raises(FailedPrecondition) as refused:
            LoadedModel("m", config, lambda: pytest.fail("opened")).check_kind(adapter)
        assert refused.value.metadata["field"] == field
    for config in (TransformersModel(), VllmModel(engine="vllm", folder=bases[0], lora_rank=1)):
        LoadedModel("m", config, lambda: pytest.fail("opened")).check_kind(adapter)
