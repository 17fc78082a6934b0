"""Adapters as versions of a policy: the base is stored once, and what the service adds up is what was trained."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from fathom.core.config import ConfigError
from fathom.core.errors import DeadlineExceeded, InvalidField
from fathom.domain.weights.manifest import fetch, read_manifest
from fathom.services.policy.backends.transformers.adapters import read
from fathom.trainers.jobs.registry import load_settings
from fathom.trainers.learners.models import load_model
from fathom.trainers.learners.ranks.groups import LocalGroup
from fathom.trainers.learners.workers import ActorWorker
from fathom.trainers.rollouts.publisher import Publisher
from fathom.transport.store import ObjectStore, open_store
from tests.unit.trainers.learners.test_learners import batch, run_steps, settings
from tests.unit.trainers.rollouts.test_lease import Policy

ADAPTED = ["model.lora_rank=2", "actor.optim.lr=0.05"]


async def publish(publisher: Publisher, group: LocalGroup) -> int:
    return await publisher.publish(partial(group.upload, "export_adapter"), partial(group.upload, "export_base"))


async def find_files(store: ObjectStore, version: int, tmp_path: Path) -> Path:
    """Fetch the version that was stored under a number."""
    (ref,) = await store.list(f"weights/small/{version}/manifest-")
    await fetch(store, ref, tmp_path / f"fetched-{version}")
    return tmp_path / f"fetched-{version}"


async def test_the_base_is_stored_once_and_each_version_is_an_adapter_of_it(tmp_path: Path) -> None:
    url = (tmp_path / "store").as_uri()
    store, group = open_store(url), LocalGroup(ActorWorker, settings(*ADAPTED))
    clients: Any = Policy()
    publisher = Publisher(clients, store, url, "small")
    # One has learned before it publishes, as after a resume: the base must be that of the adapter, not the merged one.
    await asyncio.to_thread(run_steps, group.worker, 1)
    versions = [await publish(publisher, group)]
    await asyncio.to_thread(run_steps, group.worker, 1)
    clients.calls = 1
    versions.append(await publish(publisher, group))
    # Number 1 is the base's, and nothing serves it.
    assert versions == [2, 3]
    manifests = [await read_manifest(store, ref) for ref in await store.list("weights/small/") if "manifest" in ref.key]
    (base,) = [one for one in manifests if not one.adapter]
    adapters = [one for one in manifests if one.adapter]
    assert {one.base.key.split("/")[2] for one in adapters if one.base} == {"1"}
    assert base.policy_version == 1
    assert max(sum(file.size_bytes for file in one.files) for one in adapters) < sum(f.size_bytes for f in base.files)
    trained = group.compute_log_prob(batch()).tensor("old_log_probs")
    served = load_model(settings(f"model.path={await find_files(store, 1, tmp_path)}").model, 0)
    start = {name: value.clone() for name, value in served.state_dict().items()}
    assert torch.equal(start["lm_head.weight"], load_model(settings().model, 7).state_dict()["lm_head.weight"])
    state = served.state_dict()
    # As the service adds an adapter to its base.
    for name, update in read(await find_files(store, 3, tmp_path)).items():
        state[name].copy_(update.added_to(state[name]))
    again = ActorWorker(settings())
    again.learner.model.load_state_dict(state)
    assert torch.allclose(again.compute_log_prob(batch()).tensor("old_log_probs"), trained, atol=1e-5)
    assert not torch.equal(
        state["model.layers.0.self_attn.q_proj.weight"], start["model.layers.0.self_attn.q_proj.weight"]
    )


async def test_an_adapter_that_was_not_served_keeps_its_base_for_the_next_attempt(tmp_path: Path) -> None:
    url = (tmp_path / "store").as_uri()
    group, clients = LocalGroup(ActorWorker, settings(*ADAPTED)), Policy(10**9)
    late: Any = clients
    store = open_store(url)
    publisher = Publisher(late, store, url, "small", timeout_s=0.01)
    with pytest.raises(DeadlineExceeded):
        await publish(publisher, group)
    assert publisher.version == 0, "nothing is served"
    clients.calls, publisher.timeout_s = 1, 30.0
    assert await publish(publisher, group) == 3
    manifests = [await read_manifest(store, ref) for ref in await store.list("weights/small/") if "manifest" in ref.key]
    assert sorted((one.policy_version, one.adapter) for one in manifests) == [(1, False), (2, True), (3, True)]


def test_adapters_are_published_where_there_are_some_and_somebody_takes_them() -> None:
    data = ["data.train_files=[rows.parquet]", "model.lora_publish=adapter"]
    assert load_settings("grpo", [], [*data, "model.lora_rank=2"]).model.lora_publish == "adapter"
    with pytest.raises(ConfigError, match=r"model\.lora_publish: is not read by grpo.*lora_rank above 0"):
        load_settings("grpo", [], data)
    with pytest.raises(InvalidField, match=r"model\.lora_rank"):
        LocalGroup(ActorWorker, settings()).export_adapter(Path("nowhere"))
