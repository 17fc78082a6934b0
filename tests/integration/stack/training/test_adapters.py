"""GRPO whose adapter is served without being merged: sampler and learner compute the same probabilities."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from fathom.api.policy.v1 import policy_pb2 as policy
from fathom.clients import Clients
from fathom.domain.weights.manifest import read_manifest
from fathom.services.local import Endpoints
from fathom.trainers.jobs.launch import Interruption, Place, Run
from fathom.trainers.jobs.registry import load_settings
from fathom.transport.store import open_store
from tests.support.training.metrics import read_lines

pytestmark = [pytest.mark.asyncio(loop_scope="package")]
Stack = tuple[Endpoints, Clients]
EXAMPLE = Path(__file__).parents[4] / "examples" / "train" / "grpo.yaml"


async def test_an_adapter_is_a_version_of_the_policy(stack: Stack, tmp_path: Path) -> None:
    endpoints, clients = stack
    output = tmp_path / "tiny-adapter"
    settings = [
        "model.lora_rank=4", "model.lora_publish=adapter", "actor.optim.lr=0.05", "model.hidden=16", "model.layers=1",
        "data.train_batch_size=2", "rollout.n=4", "actor.ppo_mini_batch_size=2", "actor.entropy_coeff=0.01",
        "trainer.total_training_steps=3", "trainer.test_freq=0", "trainer.val_before_train=false",
        "trainer.loggers=[jsonl]", f"trainer.output={output}", "model.name=tiny-adapter",
    ]  # fmt: skip
    config = load_settings("grpo", [EXAMPLE], settings)
    run = Run("grpo", config, Place(endpoints.services, endpoints.store), lambda *_: None, Interruption())
    await asyncio.to_thread(run.train)
    lines = read_lines(output / "metrics.jsonl")
    # From the second step on what was sampled depends on the adapter: without it the two would differ.
    assert all(line["actor/grad_norm"] > 0 for line in lines.values())
    assert all(line["mismatch/prob_diff/max"] < 1e-4 for line in lines.values())
    model = (await clients.policy.get_model(policy.GetModelRequest(model="tiny-adapter"))).model
    assert model.policy_version == 5, "the base, the start and three steps"
    store = open_store(endpoints.store)
    try:
        kept = [ref for ref in await store.list("weights/tiny-adapter/") if "manifest" in ref.key]
        manifests = {one.policy_version: one for one in [await read_manifest(store, ref) for ref in kept]}
    finally:
        await store.close()
    assert manifests[5].adapter
    base = manifests[5].base
    assert base is not None
    assert "/1/" in base.key
