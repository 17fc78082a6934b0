"""Published weights: served without a restart, never half-loaded; tiny random models made here."""

from __future__ import annotations

import asyncio
import io
import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import structlog

from fathom.api.policy.v1 import policy_pb2 as pb
from fathom.clients import Clients
from fathom.core.errors import Conflict, CorruptData, InvalidField, NotFound, VersionMismatch
from fathom.core.telemetry import Telemetry
from fathom.domain.chat.messages import Completion, Message, Role, Sampling
from fathom.domain.weights.manifest import WeightManifest, publish
from fathom.hosting.host import Runtime, dependencies, hosting
from fathom.services.policy.config import Config, RulesModel
from fathom.services.policy.engine import Engine
from fathom.services.policy.model import Request
from fathom.services.policy.server import build
from fathom.services.policy.serving.downloads import prune
from fathom.transport.store import ObjectStore, open_store
from fathom.transport.store.refs import to_ref
from tests.integration.policy.weights.models import tiny_model

ASK = (Message(Role.USER, "hello"),)
RANDOM = Sampling(temperature=1.0, max_tokens=24, seed=3)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two versions of one model."""
    root = tmp_path_factory.mktemp("tiny")
    return [tiny_model(root / str(seed), seed) for seed in (1, 2)]


@pytest.fixture
def store() -> ObjectStore:
    return open_store("memory://")


@pytest_asyncio.fixture
async def engine(tmp_path: Path, store: ObjectStore) -> AsyncIterator[Engine]:
    config = Config(models={"rules": RulesModel()}, cache_dir=tmp_path / "cache")
    made = Engine(config, store, structlog.get_logger())
    await made.start()
    yield made
    await made.close()


async def ask(engine: Engine, ident: str, messages: tuple[Message, ...] = ASK, **fields: Any) -> Completion:
    request = Request(ident, "tiny", messages, **{"sampling": RANDOM, **fields})
    items = [item async for item in engine.generate(request, lambda: None)]
    assert isinstance(items[-1], Completion)
    return items[-1]


async def test_a_new_version_is_served_and_an_old_one_again(
    engine: Engine, store: ObjectStore, folders: list[Path]
) -> None:
    refs = [await publish(store, folder, "tiny", index + 1) for index, folder in enumerate(folders)]
    first = await engine.load_weights("tiny", refs[0], 1)
    assert (first.previous_version, first.model.policy_version, first.model.window_tokens) == (0, 1, 512)
    one = await ask(engine, "a")
    second = await engine.load_weights("tiny", refs[1], 2)
    assert (second.previous_version, second.model.policy_version) == (1, 2)
    two = await ask(engine, "b")
    assert (one.version_min, one.version_max, two.version_min, two.version_max) == (1, 1, 2, 2)
    assert one.sampled_token_ids != two.sampled_token_ids
    await engine.load_weights("tiny", refs[0], 1)
    assert (await ask(engine, "c")).sampled_token_ids == one.sampled_token_ids
    with pytest.raises(VersionMismatch):
        await ask(engine, "d", policy_version=2)
    assert (await ask(engine, "e", policy_version=1)).version_min == 1


async def test_a_running_generation_ends_on_its_version(
    engine: Engine, store: ObjectStore, folders: list[Path]
) -> None:
    refs = [await publish(store, folder, "tiny", index + 1) for index, folder in enumerate(folders)]
    await engine.load_weights("tiny", refs[0], 1)
    sampling = Sampling(temperature=1.0, max_tokens=200, seed=4)
    expected = await ask(engine, "alone", sampling=sampling)
    running = engine.generate(Request("running", "tiny", ASK, sampling=sampling), lambda: None)
    await anext(running)
    await engine.load_weights("tiny", refs[1], 2)
    assert (await ask(engine, "new")).version_min == 2
    items = [item async for item in running]
    assert isinstance(items[-1], Completion)
    assert (items[-1].version_min, items[-1].version_max) == (1, 1)
    assert items[-1].sampled_token_ids == expected.sampled_token_ids


async def test_ids_stay_exact_where_text_does_not(engine: Engine, store: ObjectStore, folders: list[Path]) -> None:
    """A random byte model says invalid UTF-8: decoding and encoding again would change the ids."""
    await engine.load_weights("tiny", await publish(store, folders[0], "tiny", 1), 1)
    messages, ids, mask, log_probs, covered = list(ASK), [], [], [], 0
    for turn in range(4):
        completion = await ask(
            engine,
            f"t{turn}",
            tuple(messages),
            context_token_ids=tuple(ids),
            context_messages=covered,
            sampling=Sampling(temperature=1.0, max_tokens=20, seed=turn + 1),
        )
        ids += [*completion.prompt_token_ids, *completion.sampled_token_ids]
        mask += [0] * len(completion.prompt_token_ids) + [1] * len(completion.sampled_token_ids)
        log_probs += [0.0] * len(completion.prompt_token_ids) + list(completion.log_probs)
        messages += [Message(Role.ASSISTANT, completion.text), Message(Role.TOOL, f"result {turn}")]
        covered = len(messages) - 1
    text = await engine.detokenize("tiny", ids)
    assert "\ufffd" in text
    assert await engine.tokenize("tiny", (), (), False, text) != ids
    [scores], version = await engine.score("tiny", [ids], 1.0)
    assert version == 1
    sampled = [(score, known) for score, known, own in zip(scores, log_probs, mask, strict=True) if own]
    assert max(abs(score - known) for score, known in sampled) < 1e-3


async def test_a_corrupt_file_keeps_the_old_version(
    engine: Engine, store: ObjectStore, folders: list[Path], tmp_path: Path
) -> None:
    await engine.load_weights("tiny", await publish(store, folders[0], "tiny", 1), 1)
    before = await ask(engine, "before")
    ref = await publish(store, folders[1], "tiny", 2)
    manifest = WeightManifest.from_json(await store.get(ref.key))
    weights = next(file for file in manifest.files if file.path.endswith(".safetensors"))
    data = bytearray(await store.get(weights.key))
    data[-1] ^= 1
    await store.put(weights.key, bytes(data))
    with pytest.raises(CorruptData):
        await engine.load_weights("tiny", ref, 2)
    assert engine.get_model("tiny").policy_version == 1
    assert (await ask(engine, "after")).sampled_token_ids == before.sampled_token_ids


@pytest.mark.parametrize("damage", ["cut", "no config", "no tokenizer", "other shape", "no template"])
async def test_a_folder_that_makes_no_model_changes_nothing(
    engine: Engine, store: ObjectStore, folders: list[Path], tmp_path: Path, damage: str
) -> None:
    await engine.load_weights("tiny", await publish(store, folders[0], "tiny", 1), 1)
    broken = await asyncio.to_thread(tiny_model, tmp_path / "broken", 5, 64 if damage == "other shape" else 32)
    if damage == "cut":
        data = (broken / "model.safetensors").read_bytes()
        (broken / "model.safetensors").write_bytes(data[: len(data) // 2])
    elif damage == "other shape":
        (broken / "config.json").write_bytes((folders[0] / "config.json").read_bytes())
    elif damage == "no template":
        (broken / "chat_template.jinja").unlink()
    else:
        (broken / {"no config": "config.json", "no tokenizer": "tokenizer.json"}[damage]).unlink()
    ref = await publish(store, broken, "tiny", 2)
    with pytest.raises(CorruptData):
        await engine.load_weights("tiny", ref, 2)
    assert engine.get_model("tiny").policy_version == 1
    with pytest.raises(CorruptData):
        await engine.load_weights("new", await publish(store, broken, "new", 1), 1)
    with pytest.raises(NotFound):
        engine.get_model("new")


async def test_what_the_manifest_says_must_be_what_was_asked(
    engine: Engine, store: ObjectStore, folders: list[Path]
) -> None:
    ref = await publish(store, folders[0], "tiny", 1)
    with pytest.raises(InvalidField, match="policy_version"):
        await engine.load_weights("tiny", ref, 2)
    with pytest.raises(InvalidField, match="model"):
        await engine.load_weights("other", ref, 1)


async def test_other_weights_under_a_number_that_is_served_are_a_conflict(
    engine: Engine, store: ObjectStore, folders: list[Path]
) -> None:
    """Two trainers of one name: neither may serve its weights to the other's episodes."""
    await engine.load_weights("tiny", await publish(store, folders[0], "tiny", 1), 1)
    with pytest.raises(Conflict, match="serves other weights under version 1") as refused:
        await engine.load_weights("tiny", await publish(store, folders[1], "tiny", 1), 1)
    assert refused.value.metadata["field"] == "policy_version"
    # The same weights published again are no others.
    model = await engine.load_weights("tiny", await publish(store, folders[0], "tiny", 1), 1)
    assert model
    await engine.load_weights("tiny", await publish(store, folders[1], "tiny", 2), 2)


async def test_old_downloads_are_removed(
    engine: Engine, store: ObjectStore, folders: list[Path], tmp_path: Path
) -> None:
    for version in range(1, 5):
        await engine.load_weights("tiny", await publish(store, folders[version % 2], "tiny", version), version)
    kept = sorted(path.name.split("-")[0] for path in (tmp_path / "cache" / "weights" / "tiny").iterdir())
    assert kept == ["3", "4"]


async def test_prunings_at_once_do_not_trip_over_each_other(tmp_path: Path) -> None:
    for version in range(200):
        (tmp_path / "tiny" / f"{version}-x").mkdir(parents=True)
    await asyncio.gather(*(asyncio.to_thread(prune, tmp_path / "tiny", {"3-x"}) for _ in range(8)))
    left = {path.name for path in (tmp_path / "tiny").iterdir()}
    assert "3-x" in left
    assert len(left) <= 3


async def test_the_whole_door_over_grpc(folders: list[Path], tmp_path: Path) -> None:
    """Publish, load, generate, score, pause and list as a trainer's client sees them."""
    config = Config(models={"rules": RulesModel()}, cache_dir=tmp_path / "cache")
    runtime = Runtime(store_url=f"file://{tmp_path / 'store'}", grace_s=0.1, log_level="error")
    async with dependencies("policy", runtime) as deps, hosting(build(config, deps), deps, runtime) as hosted:
        await hosted.warm
        clients = Clients({"policy": hosted.url}, Telemetry("test", stream=io.StringIO()))
        manifest = to_ref(await publish(deps.store, folders[0], "tiny", 1))
        loaded = await clients.policy.load_weights(
            pb.LoadWeightsRequest(request_id="l1", model="tiny", manifest=manifest, policy_version=1)
        )
        assert (loaded.model.state, loaded.model.policy_version) == (pb.MODEL_STATE_READY, 1)
        request = pb.GenerateRequest(
            request_id="g1",
            model="tiny",
            messages=[pb.Message(role=pb.ROLE_USER, content="hello")],
            sampling=pb.Sampling(temperature=1.0, max_tokens=12, seed=3),
            policy_version=1,
        )
        events = [event async for event in clients.policy.generate(request)]
        completion = events[-1].completion
        assert "".join(event.delta.text for event in events[:-1]) == completion.text
        assert completion.exact
        again = [event async for event in clients.policy.generate(request)]
        assert again[-1].completion == completion
        ids = [*completion.prompt_token_ids, *completion.sampled_token_ids]
        scored = await clients.policy.score_tokens(
            pb.ScoreTokensRequest(model="tiny", sequences=[pb.TokenSequence(token_ids=ids)])
        )
        tail = scored.scores[0].log_probs[-len(completion.log_probs) :]
        assert list(tail) == pytest.approx(list(completion.log_probs), abs=1e-3)
        listed = await clients.policy.list_models(pb.ListModelsRequest())
        assert [model.name for model in listed.models] == ["rules", "tiny"]
        paused = await clients.policy.pause_generation(pb.PauseGenerationRequest(model="tiny"))
        assert paused.model.state == pb.MODEL_STATE_PAUSED
        resumed = await clients.policy.resume_generation(pb.ResumeGenerationRequest(model="tiny"))
        assert resumed.model.state == pb.MODEL_STATE_READY
        with pytest.raises(NotFound):
            await clients.policy.get_model(pb.GetModelRequest(model="nothing"))
        await clients.close()


def test_a_version_that_is_half_deleted_takes_no_newer_one_s_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Deleting a folder's files makes the folder look new."""
    for version in range(1, 4):
        (tmp_path / f"{version}-x").mkdir()
        (tmp_path / f"{version}-x" / "weights").write_text("")
        os.utime(tmp_path / f"{version}-x", (version, version))
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", lambda path, ignore_errors: (path / "weights").unlink())
        prune(tmp_path, set())
    prune(tmp_path, set())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["2-x", "3-x"]
