"""A training through ``launch`` with its learners on Ray: two ranks that divide parameters, real services."""

from __future__ import annotations

import asyncio
import math
from pathlib import Path

import pytest

from fathom.api.policy.v1 import policy_pb2 as policy
from fathom.clients import Clients
from fathom.core.errors import NotReady
from fathom.services.local import Endpoints
from fathom.trainers.interfaces import Role
from fathom.trainers.jobs import assembly
from fathom.trainers.jobs.launch import Interruption, Outcome, Place, Run
from fathom.trainers.jobs.registry import load_settings
from fathom.trainers.learners.ranks.groups import RankDied
from tests.integration.dying_rank import MARK, ActorThatDiesOnce
from tests.support.training.metrics import read_lines

pytestmark = [pytest.mark.asyncio(loop_scope="package"), pytest.mark.slow]
Stack = tuple[Endpoints, Clients]
EXAMPLE = Path(__file__).parents[4] / "examples" / "train" / "grpo.yaml"
SMALL = [
    "trainer.world_size=2", "trainer.strategy=fsdp2", "model.hidden=16", "model.layers=1", "data.train_batch_size=2",
    "rollout.n=2", "actor.ppo_mini_batch_size=2", "critic.ppo_mini_batch_size=2", "actor.ppo_epochs=1",
    "trainer.test_freq=0", "trainer.val_before_train=false", "trainer.loggers=[jsonl]",
]  # fmt: skip


async def train(endpoints: Endpoints, algorithm: str, output: Path, *more: str) -> Outcome:
    """Train by the example with its learners on Ray; ``launch`` as the command line and the job use it."""
    # Without a critic its settings are refused.
    small = [one for one in SMALL if algorithm == "ppo" or not one.startswith("critic.")]
    config = load_settings(
        algorithm, [EXAMPLE], [*small, f"trainer.output={output}", f"model.name={output.name}", *more]
    )
    place = Place(endpoints.services, endpoints.store)
    return await asyncio.to_thread(Run(algorithm, config, place, lambda *_: None, Interruption()).train)


async def test_ppo_on_two_ranks_learns_from_the_queue_and_goes_on(stack: Stack, cluster: None, tmp_path: Path) -> None:
    endpoints, clients = stack
    output = tmp_path / "tiny-ray"
    ahead = ["rollout.mode=async", "rollout.staleness=1", "rollout.transport=queue"]
    # A rank costs seconds of imports. The reference is frozen, so the second start has nothing of it to find again.
    changed = ["algorithm.use_kl_in_reward=false", "trainer.resume_changed=true"]
    starts: list[tuple[int, int, list[str]]] = [(2, 1, []), (3, 3, changed)]
    for steps, first, more in starts:
        outcome = await train(endpoints, "ppo", output, *ahead, f"trainer.total_training_steps={steps}", *more)
        assert outcome.steps == steps
        lines = read_lines(output / "metrics.jsonl")
        assert list(lines) == list(range(1, steps + 1)), "goes on where the first one ended"
        assert all(lines[step]["actor/grad_norm"] > 0 for step in range(first, steps + 1))
        # Values start at 0, as answers do that are all wrong: a first critic may have nothing to learn.
        assert all(math.isfinite(lines[step]["critic/grad_norm"]) for step in range(first, steps + 1))
        assert ("actor/reward_kl_penalty" in lines[steps]) is not bool(more)
    # Ranks and engine compute the same probabilities of what was sampled with the version served.
    fresh = [line for line in lines.values() if line["rollout/age/max"] == 0]
    assert fresh
    assert all(abs(line["mismatch/kl"]) < 1e-3 for line in fresh)
    model = (await clients.policy.get_model(policy.GetModelRequest(model="tiny-ray"))).model
    assert model.policy_version == 2 + 3, "each start serves what it begins with, then one version per step"


async def test_a_dead_rank_is_replaced_and_the_training_ends_as_the_quiet_one(
    stack: Stack, cluster: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its second rank is killed in the third step, while the first waits for it in a sum over both."""
    endpoints, _ = stack
    settings = ["trainer.total_training_steps=4", "trainer.save_freq=1"]
    await train(endpoints, "grpo", tmp_path / "tiny-quiet", *settings)
    monkeypatch.setattr(assembly, "WORKERS", {**assembly.WORKERS, Role.ACTOR: ActorThatDiesOnce})
    outcome = await train(endpoints, "grpo", tmp_path / "tiny-struck", *settings)
    assert (tmp_path / "tiny-struck" / MARK).exists()
    assert outcome.steps == 4
    quiet, struck = (read_lines(tmp_path / name / "metrics.jsonl") for name in ("tiny-quiet", "tiny-struck"))
    for step in range(1, 5):
        for name in ("actor/pg_loss", "actor/grad_norm", "actor/entropy", "critic/score/mean", "response_length/mean"):
            # The same weights, of which the same answers were sampled: the step that was lost is the same again.
            assert struck[step].get(name) == quiet[step].get(name), (step, name)
    assert "rank 1: died in update_policy" in outcome.report.read_text()


async def test_a_rank_that_may_not_be_replaced_ends_the_training(
    stack: Stack, cluster: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoints, _ = stack
    monkeypatch.setattr(assembly, "WORKERS", {**assembly.WORKERS, Role.ACTOR: ActorThatDiesOnce})
    with pytest.raises(RankDied, match=r"rank 1: died in update_policy"):
        await train(endpoints, "grpo", tmp_path / "tiny-lost", "trainer.learner_restarts=0",
                    "trainer.total_training_steps=4")  # fmt: skip


async def test_what_cannot_be_placed_is_named_with_what_it_asks(stack: Stack, cluster: None, tmp_path: Path) -> None:
    endpoints, _ = stack
    wanted = ["trainer.device=cuda", "trainer.schedule_timeout_s=2"]
    with pytest.raises(NotReady, match=r"actor.*ActorWorker.*2 ranks of .*'GPU': 1.* could not be placed"):
        await train(endpoints, "ppo", tmp_path / "tiny-gpu", *wanted)
