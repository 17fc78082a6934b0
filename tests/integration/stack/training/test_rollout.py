"""Rollouts and training over the same stack: trajectories, versions, learning steps, refusal of what cannot train."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.api.planner.v1 import trajectory_pb2 as trajectory
from fathom.api.policy.v1 import policy_pb2 as policy
from fathom.clients import Clients
from fathom.core import errors
from fathom.services.local import Endpoints
from fathom.trainers.rollouts.client import Patience, Transport, collect

pytestmark = pytest.mark.asyncio(loop_scope="package")
Stack = tuple[Endpoints, Clients]
EXAMPLE = Path(__file__).parents[4] / "examples" / "train" / "grpo.yaml"
TRANSPORTS: tuple[Transport, ...] = ("stream", "queue")


async def test_training_takes_real_steps_and_policy_serves_the_new_version(stack: Stack, tmp_path: Path) -> None:
    from fathom.trainers.jobs.launch import Interruption, Place, Run
    from fathom.trainers.jobs.registry import load_settings

    endpoints, clients = stack
    output = tmp_path / f"tiny-test-{tmp_path.name}"
    overrides = (
        "model.name=tiny-test", "model.hidden=32", "model.layers=1", "data.train_batch_size=2", "rollout.n=4",
        "actor.ppo_mini_batch_size=2", "trainer.total_training_steps=3", "trainer.test_freq=0",
        "trainer.val_before_train=false", f"trainer.output={output}",
    )  # fmt: skip
    config = load_settings("grpo", [EXAMPLE], overrides)
    seen: list[tuple[int, dict[str, float]]] = []
    place = Place(endpoints.services, endpoints.store)
    run = Run("grpo", config, place, lambda step, _, metrics: seen.append((step, metrics)), Interruption())
    result = await asyncio.to_thread(run.train)
    model = (await clients.policy.get_model(policy.GetModelRequest(model="tiny-test"))).model
    # The start is published as version 1, and each of the three steps as one more.
    assert (model.policy_version, model.exact) == (4, True)
    assert [step for step, _ in seen] == [1, 2, 3]
    assert all(metrics["mismatch/prob_diff/max"] < 1e-3 for _, metrics in seen), "sampler and learner agree"
    assert result.steps == 3
    assert (output / "metrics.jsonl").read_text().count("\n") == 3

    request = pb.RolloutRequest(
        tasks=[pb.RolloutTask(id="t", question="larger of 1 and 2", references=["2"])], group_size=3,
        protocol=trajectory.PROTOCOL_SEARCH_R1, model="tiny-test", policy_version=4, system_prompt="answer",
        sampling=policy.Sampling(temperature=1.0, max_tokens=4, seed=5), budget=pb.Budget(max_rounds=1), grader="search_r1",
    )  # fmt: skip
    rollouts = [[r.trajectory async for r in clients.planner.rollout(request)] for _ in range(2)]
    for group in rollouts:
        assert sorted(item.sample_index for item in group) == [0, 1, 2]
        for item in group:
            assert len(item.token_ids) == len(item.mask) == len(item.log_probs)
            assert (item.version_min, item.version_max, item.exact) == (4, 4, True)
            assert sum(item.mask) == sum(len(step.completion.sampled_token_ids) for step in item.steps)
            assert item.steps[0].versions.proto_hash
    first, second = ({item.sample_index: item.hash for item in group} for group in rollouts)
    assert first == second, "the same seeds give bit-identical trajectories"
    assert len(set(first.values())) > 1, "samples of a group differ"

    # A version that was replaced: its samples would be of another policy than the trainer believes.
    request.policy_version = 2
    failed = [r.trajectory async for r in clients.planner.rollout(request)]
    assert all(item.stop_reason == trajectory.STOP_REASON_FAILED for item in failed)
    assert "version 4, not 2" in failed[0].error
    patience = Patience(60.0, 5)
    for transport in TRANSPORTS:
        request.request_id = f"gone-{transport}"
        with pytest.raises(errors.FailedPrecondition, match=r"policy: .*version 4, not 2") as fatal:
            async with asyncio.timeout(5):  # patience has attempts left: it is not asked again
                await collect(clients.planner, request, patience, transport=transport)
        assert (fatal.value.metadata["code"], fatal.value.metadata["culprit"]) == ("FAILED_PRECONDITION", "policy")


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"tasks": []}, "tasks"),
        ({"group_size": 0}, "group_size"),
        ({"group_size": 65}, "group_size"),
        ({"tasks": [pb.RolloutTask(question=" ")]}, "tasks[0].question"),
        ({"protocol": 99}, "protocol"),
        ({"grader": "nope"}, "items[0].grader"),
    ],
)
async def test_contract_errors_stop_a_rollout_by_field(stack: Stack, changes: dict[str, object], field: str) -> None:
    _, clients = stack
    fields: dict[str, object] = {
        "tasks": [pb.RolloutTask(id="t", question="What is CAGR?", references=["x"])], "group_size": 1,
        "protocol": trajectory.PROTOCOL_RESEARCH, "model": "rules", "grader": "em",
    }  # fmt: skip
    request = pb.RolloutRequest(**(fields | changes))  # type: ignore[arg-type]
    with pytest.raises(errors.InvalidField) as bad:
        async for _ in clients.planner.rollout(request):
            pass
    assert bad.value.field == field


async def test_production_and_training_are_the_same_episode(stack: Stack) -> None:
    """Run and Rollout of one question give the same ids, mask and tool contents, byte for byte."""
    _, clients = stack
    question = "What is maximum drawdown?"
    prompts, as_of = {"answer": "evidence"}, Timestamp(seconds=1_700_000_000)
    run = pb.RunRequest(question=question, request_id="run-skew", prompts=prompts, as_of=as_of)
    async for response in clients.planner.run(run):
        assert response.event.run_id == "run-skew"
    production = (await clients.planner.get_run(pb.GetRunRequest(run_id="run-skew"))).trajectory
    request = pb.RolloutRequest(
        tasks=[pb.RolloutTask(id="t", question=question)],
        group_size=1,
        protocol=trajectory.PROTOCOL_RESEARCH,
        model="rules",
        prompts=prompts,
        as_of=as_of,
    )
    [training] = [response.trajectory async for response in clients.planner.rollout(request)]
    assert training.hash == production.hash
    assert list(training.token_ids) == list(production.token_ids)
    # A reader is told first what stays open; what is graded is the answer as the model wrote it.
    assert production.answer.markdown.endswith(training.answer.markdown)
    assert training.prompts == production.prompts


async def test_a_compacted_rollout_trains_on_each_sampled_token_once(stack: Stack) -> None:
    """A window so small that the view is compacted: segments instead of one stretch of ids, engine's own throughout."""
    from fathom.trainers.rollouts.groups import Group, to_data

    _, clients = stack
    question = "Compare the adjusted close of Apple and Microsoft from 2015 to 2019, with volatility and drawdown."
    request = pb.RolloutRequest(
        tasks=[pb.RolloutTask(id="t", question=question)],
        group_size=1,
        protocol=trajectory.PROTOCOL_RESEARCH,
        model="rules",
        # The question asks for a report, whose corrections alone would fill so small a window.
        prompts={"answer": "conclusion"},
        window=trajectory.Window(policy=trajectory.STEP_POLICY_DELETE, tokens=22_000),
    )
    (item,) = [response.trajectory async for response in clients.planner.rollout(request)]
    assert item.stop_reason == trajectory.STOP_REASON_FINISHED, item.error
    assert item.exact
    compacted = [step.index for step in item.steps if step.HasField("compaction")]
    assert compacted
    assert [part.first_step for part in item.segments][-len(compacted) :] == compacted
    sampled = [token for step in item.steps for token in step.completion.sampled_token_ids]
    batch = to_data([Group({"uid": "t"}, (item,))])
    assert batch.tensor("responses")[batch.tensor("response_mask").bool()].tolist() == sampled
    assert set(batch.array("episode").tolist()) == {"t/0"}
    for step in item.steps:
        used = step.completion.usage.prompt_tokens
        assert step.context_tokens == used, "the measure is what the engine counted"
        assert step.index < compacted[0] or used < 0.70 * 22_000


async def test_tool_choice_is_graded_where_a_task_says_which_tools_fit(stack: Stack) -> None:
    _, clients = stack
    question, fitting = "What is maximum drawdown?", [["search"], ["python"], []]
    request = pb.RolloutRequest(
        tasks=[pb.RolloutTask(id=str(at), question=question, references=["x"], expected_tools=tools)
               for at, tools in enumerate(fitting)],
        group_size=1, protocol=trajectory.PROTOCOL_RESEARCH, model="rules", grader="agent",
    )  # fmt: skip
    found = {item.trajectory.task_index: item.trajectory async for item in clients.planner.rollout(request)}
    used = {result.tool for step in found[0].steps for result in step.tool_results}
    assert "search" in used
    assert found[0].reward_components["tool_choice"] > found[1].reward_components["tool_choice"] == 0.0
    assert "tool_choice" not in found[2].reward_components
    assert found[0].reward > found[1].reward
