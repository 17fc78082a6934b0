"""Episodes that go on under new weights: every turn is the work of the version that it names, token by token."""

from __future__ import annotations

import asyncio
import copy
from functools import partial
from typing import Any

import pytest
import torch

from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.api.planner.v1 import trajectory_pb2 as trajectory
from fathom.api.policy.v1 import policy_pb2 as policy
from fathom.clients import Clients
from fathom.services.local import Endpoints
from fathom.trainers.learners.ranks.groups import LocalGroup
from fathom.trainers.learners.workers import ActorWorker
from fathom.trainers.rollouts.groups import Group, to_data
from fathom.trainers.rollouts.publisher import Publisher
from fathom.transport.store import open_store
from tests.unit.trainers.learners.test_learners import settings

pytestmark = pytest.mark.asyncio(loop_scope="package")
Stack = tuple[Endpoints, Clients]
NAME, ROUNDS, EPISODES, ATTEMPTS = "tiny-changing", 8, 8, 10


async def play(clients: Clients, seed: int) -> list[trajectory.Trajectory]:
    """Play episodes of many turns by whatever version serves: a random model never finds a valid action."""
    request = pb.RolloutRequest(
        tasks=[pb.RolloutTask(id="t", question="a b", references=["c"])], group_size=EPISODES,
        protocol=trajectory.PROTOCOL_SEARCH_R1, model=NAME, system_prompt="a b c",
        sampling=policy.Sampling(temperature=1.0, max_tokens=6, seed=seed), budget=pb.Budget(max_rounds=ROUNDS),
    )  # fmt: skip
    return [response.trajectory async for response in clients.planner.rollout(request)]


async def test_an_episode_goes_on_under_new_weights_and_each_turn_names_its_own(stack: Stack) -> None:
    endpoints, clients = stack
    group = LocalGroup(ActorWorker, settings(f"model.name={NAME}", "model.window=2048"))
    models: dict[int, Any] = {}
    store = open_store(endpoints.store)
    publisher = Publisher(clients, store, endpoints.store, NAME)

    async def publish_another() -> None:
        with torch.no_grad():
            for parameter in group.worker.learner.model.parameters():
                # So far from the version before that a token ascribed to the wrong one is seen.
                parameter.add_(0.1 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(len(models))))
        version = await publisher.publish(partial(group.upload, "export"))
        models[version] = copy.deepcopy(group.worker.learner.model).eval()

    await publish_another()
    found: list[trajectory.Trajectory] = []
    for seed in range(ATTEMPTS):
        playing = asyncio.create_task(play(clients, seed))
        while not playing.done():
            await publish_another()
        found = [item for item in await playing if item.version_min < item.version_max]
        if found:
            break
    await store.close()
    assert found, "weights were published while episodes were played"
    for item in found:
        check_turns(item, models)


def check_turns(item: trajectory.Trajectory, models: dict[int, Any]) -> None:
    """Check that a mixed episode can be trained, and the log-probabilities of its tokens by their turns' versions."""
    assert item.stop_reason != trajectory.STOP_REASON_FAILED, item.error
    assert item.exact
    versions = []
    for step in item.steps:
        done = step.completion
        # Within a turn the weights stay: its generation ends on the version on which it began.
        assert done.version_min == done.version_max
        versions += [done.version_min] * len(done.sampled_token_ids)
    assert versions == sorted(versions)
    assert len(set(versions)) > 1
    data = to_data([Group({"uid": "t"}, (item,))])
    assert (data.array("version_min")[0], data.array("version_max")[0]) == (versions[0], versions[-1])
    mask, ids = data.tensor("response_mask")[0].bool(), data.tensor("input_ids")
    recorded, start = data.tensor("rollout_log_probs")[0][mask], data.tensor("prompts").shape[1]
    targets = data.tensor("responses")[0]
    for version in set(versions):
        with torch.no_grad():
            logits = models[version](input_ids=ids).logits[0, start - 1 : -1].float()
        own = torch.log_softmax(logits, dim=-1).gather(-1, targets.unsqueeze(-1)).squeeze(-1)[mask]
        here = torch.tensor([one == version for one in versions])
        torch.testing.assert_close(recorded[here], own[here], atol=1e-4, rtol=1e-4)
        assert float((recorded[~here] - own[~here]).abs().max()) > 1e-2, "another version's would show"
