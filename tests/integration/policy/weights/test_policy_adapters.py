"""LoRA adapters: published as PEFT saves them, merged as PEFT merges them, served and taken back like any version."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import structlog

from fathom.core.errors import CorruptData, FathomError
from fathom.domain.chat.messages import Completion, Message, Role, Sampling
from fathom.domain.weights.manifest import publish
from fathom.services.policy.config import Config, ModelConfig, RulesModel, TransformersModel
from fathom.services.policy.engine import Engine
from fathom.services.policy.model import Request
from fathom.transport.store import ObjectStore, open_store
from tests.integration.policy.weights.models import tiny_model

torch = pytest.importorskip("torch")
peft = pytest.importorskip("peft")


def adapter(base: Path, target: Path, seed: int, **settings: Any) -> Path:
    """An adapter that changes something: PEFT begins with zeros."""
    from transformers import AutoModelForCausalLM

    # In 32 bits, as the backend computes: merged weights are compared to one millionth.
    network = AutoModelForCausalLM.from_pretrained(str(base), dtype=torch.float32)
    fields = {"r": 4, "lora_alpha": 16, "target_modules": ["q_proj", "down_proj"], "task_type": "CAUSAL_LM", **settings}
    made = peft.get_peft_model(network, peft.LoraConfig(**fields))
    torch.manual_seed(seed)
    for name, parameter in made.named_parameters():
        if "lora_" in name:
            # Large enough that greedy and sampled tokens change, which the tests look at.
            torch.nn.init.normal_(parameter, std=0.2)
    made.save_pretrained(str(target))
    (target / "README.md").unlink(missing_ok=True)
    return target


def merged_by_peft(base: Path, folder: Path) -> dict[str, Any]:
    from transformers import AutoModelForCausalLM

    network = AutoModelForCausalLM.from_pretrained(str(base), dtype=torch.float32)
    merged: dict[str, Any] = peft.PeftModel.from_pretrained(network, str(folder)).merge_and_unload().state_dict()
    return merged


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_model(tmp_path_factory.mktemp("base") / "m", 1)


@pytest.fixture
def store() -> ObjectStore:
    return open_store("memory://")


@pytest_asyncio.fixture
async def engine(tmp_path: Path, store: ObjectStore, base: Path) -> AsyncIterator[Engine]:
    models: dict[str, ModelConfig] = {"rules": RulesModel(), "own": TransformersModel(folder=base, threads=1)}
    made = Engine(Config(models=models, cache_dir=tmp_path / "cache"), store, structlog.get_logger())
    await made.start()
    opening = made._models["own"]._opening
    assert opening is not None
    await opening  # the tests load models themselves, and the library loads one at a time
    yield made
    await made.close()


async def ask(engine: Engine, model: str) -> Completion:
    # Seeded: two answers are the same tokens if and only if the weights are.
    sampling = Sampling(temperature=1.0, max_tokens=24, seed=3)
    request = Request("", model, (Message(Role.USER, "hello"),), sampling=sampling)
    items = [item async for item in engine.generate(request, lambda: 20.0)]
    assert isinstance(items[-1], Completion)
    return items[-1]


def network_of(engine: Engine, model: str) -> Any:
    slot = engine._models[model].main
    assert slot is not None
    backend: Any = slot.backend
    return backend._current.loaded.network


@pytest.mark.parametrize(
    "settings",
    [{}, {"use_rslora": True}, {"alpha_pattern": {"q_proj": 2}, "rank_pattern": {"down_proj": 2}}],
    ids=["plain", "rank-stabilised", "patterns"],
)
async def test_an_adapter_is_merged_as_peft_does_it(
    engine: Engine, store: ObjectStore, base: Path, tmp_path: Path, settings: dict[str, Any]
) -> None:
    folder = await asyncio.to_thread(lambda: adapter(base, tmp_path / "a", 1, **settings))
    # An adapter names the whole weights that it was trained on; they are published first.
    whole = await publish(store, base, "tiny", 1)
    await engine.load_weights("tiny", whole, 1)
    before = await ask(engine, "tiny")
    await engine.load_weights("tiny", await publish(store, folder, "tiny", 2, base=whole), 2)
    after = await ask(engine, "tiny")
    assert (after.version_min, after.version_max) == (2, 2)
    assert after.sampled_token_ids != before.sampled_token_ids
    expected = await asyncio.to_thread(merged_by_peft, base, folder)
    for name, tensor in network_of(engine, "tiny").state_dict().items():
        assert torch.allclose(tensor, expected[name], atol=1e-6), name
    await engine.load_weights("tiny", None, 1)
    assert (await ask(engine, "tiny")).sampled_token_ids == before.sampled_token_ids


async def test_adapters_follow_each_other_without_a_trace(
    engine: Engine, store: ObjectStore, base: Path, tmp_path: Path
) -> None:
    whole = await publish(store, base, "tiny", 1)
    one = await publish(store, await asyncio.to_thread(adapter, base, tmp_path / "1", 1), "tiny", 2, base=whole)
    two = await publish(store, await asyncio.to_thread(adapter, base, tmp_path / "2", 2), "tiny", 3, base=whole)
    await engine.load_weights("tiny", one, 2)  # also as the very first version
    first = {name: tensor.clone() for name, tensor in network_of(engine, "tiny").state_dict().items()}
    # Merged in place and taken out again, rounding would add up with every change; merged from the base it does not.
    for ref, version in ((two, 3), (one, 2), (two, 3), (one, 2)):
        await engine.load_weights("tiny", ref, version)
    assert all(torch.equal(tensor, first[name]) for name, tensor in network_of(engine, "tiny").state_dict().items())


async def test_an_adapter_of_the_model_as_configured(
    engine: Engine, store: ObjectStore, base: Path, tmp_path: Path
) -> None:
    before = await ask(engine, "own")
    folder = await asyncio.to_thread(adapter, base, tmp_path / "a", 5)
    await engine.load_weights("own", await publish(store, folder, "own", 1), 1)
    assert (await ask(engine, "own")).sampled_token_ids != before.sampled_token_ids
    await engine.load_weights("own", None, 0)
    assert (await ask(engine, "own")).sampled_token_ids == before.sampled_token_ids


@pytest.mark.parametrize("damage", ["shape", "half", "name", "dora", "saved", "cut", "config", "no base"])
async def test_an_adapter_that_does_not_fit_changes_nothing(
    engine: Engine, store: ObjectStore, base: Path, tmp_path: Path, damage: str
) -> None:
    from safetensors.torch import load_file, save_file

    whole = await publish(store, base, "tiny", 1)
    await engine.load_weights("tiny", whole, 1)
    before = await ask(engine, "tiny")
    source = base
    if damage == "shape":
        source = await asyncio.to_thread(tiny_model, tmp_path / "other", 2, 64)
    kinds: dict[str, dict[str, Any]] = {"dora": {"use_dora": True}, "saved": {"modules_to_save": ["lm_head"]}}
    more = kinds.get(damage, {})
    folder = await asyncio.to_thread(lambda: adapter(source, tmp_path / "a", 1, **more))
    path = folder / "adapter_model.safetensors"
    tensors = load_file(str(path))
    name = next(iter(tensors))
    if damage == "half":
        # One of two matrices is gone: a product of what is left would have no meaning.
        save_file({key: value for key, value in tensors.items() if key != name}, str(path))
    elif damage == "name":
        save_file({key.replace("q_proj", "z_proj"): value for key, value in tensors.items()}, str(path))
    elif damage == "cut":
        # Published as it is cut: its checksum is right, and only reading it shows what is missing.
        path.write_bytes(path.read_bytes()[:-9])
    elif damage == "config":
        (folder / "adapter_config.json").write_text("[1]")
    ref = await publish(store, folder, "tiny", 2, base=whole)
    if damage == "no base":
        # The manifest of the base alone: the adapter is whole and still cannot be served.
        await store.delete(whole.key)
    with pytest.raises(FathomError if damage == "no base" else CorruptData) as told:
        await engine.load_weights("tiny", ref, 2)
    assert told.value.code in ("DATA_LOSS", "NOT_FOUND")
    assert engine.get_model("tiny").policy_version == 1
    assert (await ask(engine, "tiny")).sampled_token_ids == before.sampled_token_ids
