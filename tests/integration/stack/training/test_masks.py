"""Recorded agent runs as training data: only what the model sampled is trained, in both protocols."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
import torch

from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.api.planner.v1 import trajectory_pb2 as trajectory
from fathom.api.policy.v1 import policy_pb2 as policy
from fathom.clients import Clients
from fathom.services.local import Endpoints
from fathom.trainers.batch_ops import compute_advantage
from fathom.trainers.config import load_config
from fathom.trainers.jobs.launch import Interruption, Place, Run
from fathom.trainers.jobs.registry import load_settings
from fathom.trainers.learners import tiny
from fathom.trainers.learners.actor import Actor
from fathom.trainers.rollouts.groups import Group, to_data

pytestmark = pytest.mark.asyncio(loop_scope="package")
Stack = tuple[Endpoints, Clients]
QUESTION = "Compare the price performance of Apple and Microsoft in 2019"
SHORT = "What is CAGR?"
FOUND, NOT_FOUND = "When was the Dow Jones Industrial Average first calculated?", "Who is Zzyzx Qwfpgj?"


async def research_run(clients: Clients, name: str, question: str, rounds: int = 0) -> trajectory.Trajectory:
    """A production run of the reference policy, as it was recorded."""
    # No round at all means no limit of the caller's own.
    budget = pb.Budget(max_rounds=rounds)
    async for _ in clients.planner.run(pb.RunRequest(question=question, request_id=name, budget=budget)):
        pass
    return (await clients.planner.get_run(pb.GetRunRequest(run_id=name))).trajectory


async def search_run(clients: Clients, question: str, rounds: int) -> trajectory.Trajectory:
    """A Search-R1 episode of the reference policy."""
    request = pb.RolloutRequest(
        tasks=[pb.RolloutTask(id="t", question=question, references=["x"])], group_size=1, model="rules", grader="em",
        protocol=trajectory.PROTOCOL_SEARCH_R1, budget=pb.Budget(max_rounds=rounds),
    )  # fmt: skip
    [item] = [response.trajectory async for response in clients.planner.rollout(request)]
    return item


async def text(clients: Clients, ids: list[int]) -> str:
    request = policy.DetokenizeRequest(model="rules", token_ids=ids)
    return (await clients.policy.detokenize(request)).text


def runs_of(item: trajectory.Trajectory, wanted: int) -> list[list[int]]:
    """The stretches of ids under one value of the mask, in order."""
    found: list[list[int]] = []
    before = -1
    for token, kind in zip(item.token_ids, item.mask, strict=True):
        if kind == wanted:
            found = [*found[:-1], [*found[-1], token]] if before == wanted else [*found, [token]]
        before = kind
    return found


@pytest.mark.parametrize("protocol", ["research", "search_r1"])
async def test_the_loss_covers_model_tokens_and_nothing_else(stack: Stack, protocol: str) -> None:
    _, clients = stack
    item = await (
        research_run(clients, "run-masks", QUESTION) if protocol == "research" else search_run(clients, FOUND, 4)
    )
    results = [result for step in item.steps for result in step.tool_results]
    assert results, "the run has called a tool"
    assert len(item.token_ids) == len(item.mask) == len(item.log_probs)

    position = 0
    for step in item.steps:
        said = step.completion
        prompt, sampled = list(said.prompt_token_ids), list(said.sampled_token_ids)
        middle, end = position + len(prompt), position + len(prompt) + len(sampled)
        assert list(item.token_ids[position:end]) == prompt + sampled, "ids are those that were rendered and sampled"
        assert list(item.mask[position:end]) == [0] * len(prompt) + [1] * len(sampled)
        assert list(item.log_probs[middle:end]) == list(said.log_probs), "every trained id has its log-probability"
        # Zero where the model did not sample: a number there could slip into a ratio.
        assert not any(item.log_probs[position:middle])
        position = end
    assert position == len(item.token_ids)

    trained = [await text(clients, ids) for ids in runs_of(item, 1)]
    observed = "".join([await text(clients, ids) for ids in runs_of(item, 0)])
    assert [one.removesuffix("<|im_end|>") for one in trained] == [step.completion.text for step in item.steps]
    # The result of the last call is shown to no further round, so that no prompt has it.
    for result in results[:-1] if item.steps[-1].tool_results else results:
        shown = "<information>" if protocol == "search_r1" else result.content[:200]
        assert shown in observed
        assert not any(shown in one for one in trained)

    arrays = to_data([Group({"uid": "g"}, (item,))]).batch
    assert arrays["input_ids"].shape == arrays["attention_mask"].shape == arrays["position_ids"].shape
    assert arrays["responses"].shape == arrays["response_mask"].shape == arrays["rollout_log_probs"].shape
    assert torch.equal(torch.cat([arrays["prompts"], arrays["responses"]], dim=1), arrays["input_ids"])
    assert arrays["response_mask"].sum() == sum(len(step.completion.sampled_token_ids) for step in item.steps)
    assert arrays["response_mask"][0, 0] == 1
    assert 0 in arrays["response_mask"][0], "observations lie between what the model said"


async def test_the_last_generation_is_one_without_a_search(stack: Stack) -> None:
    """By the real planner and the reference policy, which searches first, and again when it finds nothing."""
    _, clients = stack
    cut = await search_run(clients, FOUND, 1)
    assert "<search>" in cut.steps[0].completion.text
    assert [len(step.tool_results) for step in cut.steps] == [0], "the search of the only generation is not executed"
    assert cut.stop_reason == trajectory.STOP_REASON_BUDGET
    assert not cut.answer.markdown
    assert sum(cut.mask) == len(cut.steps[0].completion.sampled_token_ids), "and it is trained on none the less"

    two = await search_run(clients, FOUND, 2)
    assert [len(step.tool_results) for step in two.steps] == [1, 0]
    assert "<answer>" in two.steps[-1].completion.text
    assert two.stop_reason == trajectory.STOP_REASON_FINISHED

    again = await search_run(clients, NOT_FOUND, 2)
    kinds = ["<search>" in step.completion.text for step in again.steps]
    executed = [len(step.tool_results) for step in again.steps]
    assert len(again.steps) == 2
    assert executed == [1, 0], (kinds, executed)


async def test_one_optimiser_step_on_recorded_research_runs(stack: Stack) -> None:
    """Two recorded agent runs as one group; what tools said moves nothing."""
    _, clients = stack
    runs = [await research_run(clients, "run-whole", SHORT), await research_run(clients, "run-short", SHORT, rounds=1)]
    for sample, item in enumerate(runs):
        item.task_index, item.sample_index, item.reward = (
            0,
            sample,
            float(item.stop_reason == trajectory.STOP_REASON_FINISHED),
        )
    assert [item.reward for item in runs] == [1.0, 0.0]
    data = to_data([Group({"uid": "g"}, tuple(runs))], {"temperature": 1.0, "n": 2})
    mask = data.tensor("response_mask").bool()
    size = int(data.tensor("input_ids").max()) + 1
    # One row per micro-batch: the sums over both parts must come out as if they were one.
    settings = load_config([], ["actor.optim.lr=1e-3", "actor.ppo_micro_batch_size_per_gpu=1", "rollout.n=2"])

    def learner() -> Actor:
        return Actor(settings.actor, tiny.build_model([f"piece {number}" for number in range(size)], 16, 1, 7, 16_384))

    first = learner()
    data = data.union(first.compute_log_prob(data).select(["old_log_probs"]))
    data = compute_advantage(data.with_tensors(token_level_rewards=data.tensor("token_level_scores")), "grpo")
    before = [parameter.detach().clone() for parameter in first.model.parameters()]
    metrics = first.update_policy(data)
    # On the first step the learner is the policy that gave the old log-probabilities.
    assert metrics["actor/ppo_kl"] == pytest.approx(0.0, abs=1e-5)
    assert metrics["actor/grad_norm"] > 0
    moved = [not torch.equal(a, b) for a, b in zip(before, first.model.parameters(), strict=True)]
    assert all(moved)

    # The same batch with nonsense where the mask is 0 gives the same step, to the bit.
    second = learner()
    # Large enough that a single position that leaks would change the step.
    noise = {name: data.tensor(name).masked_fill(~mask, 100.0) for name in ("old_log_probs", "advantages")}
    second.update_policy(data.with_tensors(**noise))
    for one, other in zip(first.model.parameters(), second.model.parameters(), strict=True):
        assert torch.equal(one, other)
    assert not data.tensor("advantages")[~mask].any(), "what tools said has no advantage"
    assert bool((~mask & data.tensor("attention_mask")[:, -mask.shape[1] :].bool()).any()), "and tools said something"


async def test_the_trainer_rolls_out_the_research_agent(stack: Stack, tmp_path: Path) -> None:
    """Sampled with the learner's weights, graded, one step, published, served."""
    endpoints, clients = stack
    overrides = (
        "model.name=tiny-agent", "model.hidden=16", "model.layers=1", "model.window=4096", "rollout.protocol=research",
        "rollout.max_turns=2", "rollout.max_tokens=6", "rollout.n=2", "reward.grader=em", "data.train_batch_size=1",
        "actor.ppo_mini_batch_size=1", "actor.ppo_micro_batch_size_per_gpu=1", "actor.entropy_coeff=0.05",
        "trainer.total_training_steps=1", "trainer.test_freq=0", "trainer.val_before_train=false",
        f"trainer.output={tmp_path / f'tiny-agent-{tmp_path.name}'}",
    )  # fmt: skip
    config = load_settings("grpo", (), overrides)
    run = Run("grpo", config, Place(endpoints.services, endpoints.store), lambda *_: None, Interruption())
    result = await asyncio.to_thread(run.train)
    model = (await clients.policy.get_model(policy.GetModelRequest(model="tiny-agent"))).model
    assert model.policy_version == 2, "the start, then the step"
    assert result.metrics["mismatch/prob_diff/max"] < 1e-3, "sampler and learner agree on an agent's tokens"
    assert result.metrics["actor/grad_norm"] > 0
