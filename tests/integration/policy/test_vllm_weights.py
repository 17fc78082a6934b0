"""Weights of the vllm engine: replaced in place, never half, stamped with the versions that sampled."""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from fathom.core.errors import CorruptData, FailedPrecondition
from fathom.core.ids import new_id
from fathom.domain.chat.messages import Completion, Message, Role, Sampling
from fathom.services.policy.backends import open_backend
from fathom.services.policy.config import VllmModel
from fathom.services.policy.model import Backend, Request
from tests.integration.policy.scribe import ANSWERS, fast_tokenizer, make_untrained, scribe

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.slow,
    pytest.mark.skipif(importlib.util.find_spec("vllm") is None, reason="vllm is not installed: fathom[vllm]"),
]


@pytest.fixture(scope="module")
def folders(scribe_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The served model, one that says something else, one that is wider, one whose file is cut."""
    root = tmp_path_factory.mktemp("versions")
    made = {
        "first": scribe_folder,
        "second": scribe(root / "second", 2, {**ANSWERS, "short": "No, it is blue.<|im_end|>"}),
    }
    for name in ("wide", "cut"):
        made[name] = root / name
        fast_tokenizer().save_pretrained(str(made[name]))
        make_untrained(276, 256 if name == "wide" else 128).save_pretrained(str(made[name]))
    cut = made["cut"] / "model.safetensors"
    cut.write_bytes(cut.read_bytes()[:-1000])
    return made


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=["wait", "keep"])
async def backend(
    request: pytest.FixtureRequest, folders: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Backend]:
    config = VllmModel(engine="vllm", folder=folders["first"], threads=1, kv_cache_gb=0.25, swap=request.param)
    made = open_backend("m", config, tmp_path_factory.mktemp("cache"))
    await made.load()
    yield made
    await made.close()


async def ask(backend: Backend, prompt: str, tokens: int = 0) -> Completion:
    asked = Request(new_id("t"), "", (Message(Role.USER, prompt),), sampling=Sampling(max_tokens=tokens))
    items = [item async for item in backend.generate(asked)]
    assert isinstance(items[-1], Completion)
    return items[-1]


async def test_a_version_replaces_the_other_and_comes_back(backend: Backend, folders: dict[str, Path]) -> None:
    for version, name, answer in (
        (1, "first", "Yes, the fox is red."),
        (2, "second", "No, it is blue."),
        (1, "first", "Yes, the fox is red."),
    ):
        await backend.load_weights(folders[name], version)
        # Twice: a prefix that was computed with other weights must not be reused.
        for _ in range(2):
            completion = await ask(backend, "short")
            assert completion.text == answer
            assert (completion.version_min, completion.version_max, backend.version) == (version,) * 3
        ids = [*completion.prompt_token_ids, *completion.sampled_token_ids]
        [scores], scored_by = await backend.score([ids], 0.0)
        assert scores[-len(completion.log_probs) :] == pytest.approx(completion.log_probs, abs=2e-3)
        assert scored_by == version


async def test_a_running_generation_ends_or_is_stamped_with_both(backend: Backend, folders: dict[str, Path]) -> None:
    await backend.load_weights(folders["first"], 1)
    asked = Request(new_id("t"), "", (Message(Role.USER, "sing"),), sampling=Sampling(max_tokens=500))
    items = backend.generate(asked)
    await anext(items)
    rest, _ = await asyncio.gather(drain(items), backend.load_weights(folders["second"], 2))
    completion = rest[-1]
    assert isinstance(completion, Completion)
    assert completion.version_min == 1
    if completion.version_max == 1:
        assert completion.text.startswith("la la")
        assert len(completion.sampled_token_ids) == 500
    assert (await ask(backend, "short")).text == "No, it is blue."


async def drain(items: object) -> list[object]:
    return [item async for item in items]  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", ["wide", "cut"])
async def test_what_does_not_fit_changes_nothing(backend: Backend, folders: dict[str, Path], name: str) -> None:
    await backend.load_weights(folders["first"], 1)
    with pytest.raises(CorruptData):
        await backend.load_weights(folders[name], 9)
    assert backend.version == 1
    assert (await ask(backend, "short")).text == "Yes, the fox is red."


def make_adapter(base: Path, folder: Path, rank: int, seed: int) -> Path:
    """Save an adapter on the linear layers that changes what the model says."""
    import peft
    import torch
    from transformers import AutoModelForCausalLM

    network = AutoModelForCausalLM.from_pretrained(str(base), dtype=torch.float32)
    targets = ["q_proj", "v_proj", "o_proj"]
    made = peft.get_peft_model(network, peft.LoraConfig(r=rank, target_modules=targets, task_type="CAUSAL_LM"))
    torch.manual_seed(seed)
    with torch.no_grad():
        for name, parameter in made.named_parameters():
            if "lora_B" in name:
                parameter.normal_(std=0.05)
    made.save_pretrained(str(folder))
    return folder


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def lora_backend(folders: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Backend]:
    config = VllmModel(engine="vllm", folder=folders["first"], threads=1, kv_cache_gb=0.25, lora_rank=8)
    made = open_backend("m", config, tmp_path_factory.mktemp("cache"))
    await made.load()
    yield made
    await made.close()


async def test_an_adapter_is_added_as_if_it_were_merged(
    lora_backend: Backend, folders: dict[str, Path], tmp_path: Path
) -> None:
    """vLLM computes with both what transformers computes with their sum, and tells versions apart."""
    from fathom.services.policy.config import TransformersModel

    merged = open_backend("n", TransformersModel(folder=folders["first"], threads=1), tmp_path)
    await merged.load()
    plain = await ask(lora_backend, "short")
    ids = [*plain.prompt_token_ids, *plain.sampled_token_ids]
    seen = {0: (await lora_backend.score([ids], 1.0))[0][0]}
    for version in (1, 2):
        folder = await asyncio.to_thread(make_adapter, folders["first"], tmp_path / str(version), 4, version)
        await lora_backend.load_weights(folder, version)
        await merged.load_weights(folder, version)
        [scores], scored_by = await lora_backend.score([ids], 1.0)
        [expected], _ = await merged.score([ids], 1.0)
        assert scored_by == version
        assert scores == pytest.approx(expected, abs=2e-3)
        assert scores != pytest.approx(seen[version - 1], abs=1e-2)
        seen[version] = scores
        completion = await ask(lora_backend, "short")
        assert (completion.version_min, completion.version_max) == (version, version)
    # Back to whole weights: nothing of the adapter is left, in the cache of prefixes neither.
    await lora_backend.load_weights(folders["first"], 3)
    assert (await ask(lora_backend, "short")).text == "Yes, the fox is red."
    assert (await lora_backend.score([ids], 1.0))[0][0] == pytest.approx(seen[0], abs=2e-3)
    large = await asyncio.to_thread(make_adapter, folders["first"], tmp_path / "large", 16, 3)
    with pytest.raises(FailedPrecondition, match="has rank 16, the engine takes up to 8"):
        await lora_backend.load_weights(large, 4)
    assert lora_backend.version == 3
    await merged.close()
