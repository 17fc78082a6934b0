"""Rollouts as training loops see them: whole batches, one request id, bounded patience, bounded age, records."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
import torch

from fathom.api.planner.v1.planner_pb2 import EFFORT_DEEP
from fathom.api.planner.v1.trajectory_pb2 import PROTOCOL_AUTO, PROTOCOL_WORKFLOW, Segment
from fathom.api.policy.v1.policy_pb2 import ROLE_ASSISTANT, ROLE_USER
from fathom.core.config import ConfigError
from fathom.core.errors import (
    Conflict,
    CorruptData,
    DeadlineExceeded,
    DependencyFailed,
    FailedPrecondition,
    FathomError,
    InvalidField,
    NotFound,
    VersionMismatch,
)
from fathom.core.retry import RetryPolicy
from fathom.trainers.batch import DataProto
from fathom.trainers.config import TrainConfig, load_config
from fathom.trainers.data.records import Record, read, write
from fathom.trainers.data.synth.task import Step, SynthTask
from fathom.trainers.rollouts.client import Patience, collect
from fathom.trainers.rollouts.groups import Group, to_data
from fathom.trainers.rollouts.pace import Pace
from fathom.trainers.rollouts.publisher import Publisher
from fathom.trainers.rollouts.recording import Recording
from fathom.trainers.rollouts.replayed import ReplayedRollouts
from fathom.trainers.rollouts.requests import SamplingSettings, question_of, references_of, rollout_request
from fathom.trainers.rollouts.source import PlannerRollouts
from fathom.transport.store import open_store
from tests.support.clock import SimulatedLoopThread, loop_time, simulate_time
from tests.support.waiting import eventually
from tests.unit.trainers.rollouts.scripted_planner import ScriptedClients, ScriptedPlanner, make_failure, trajectory

# Ten seconds, three attempts, and pauses that no test waits for.
QUICK = Patience(10.0, 3, RetryPolicy(first_delay_s=0.001, max_delay_s=0.002))
ASYNC = ["rollout.mode=async", "rollout.staleness=2", "rollout.n=2"]


def prompts(first: int, count: int, n: int = 2, step: int = 1, **meta: Any) -> DataProto:
    rows = range(first, first + count)
    return DataProto.from_dict(
        {},
        {
            "uid": [f"p{row}" for row in rows],
            "raw_prompt": [[{"role": "user", "content": f"question {row}"}] for row in rows],
            "data_source": ["toy"] * count,
            "reward_model": [{"ground_truth": {"target": [str(row)]}} for row in rows],
            "extra_info": [{"index": row} for row in rows],
        },
        {"n": n, "seed": 5, "step": step, **meta},
    )


@pytest.fixture
def bridge() -> Iterator[SimulatedLoopThread]:
    with SimulatedLoopThread() as made:
        yield made


def source(
    planner: ScriptedPlanner, bridge: SimulatedLoopThread, config: TrainConfig, recording: Recording | None = None
) -> Any:
    clients = cast(Any, ScriptedClients(planner))
    publisher = Publisher(clients, open_store("memory://"), "memory://", "tiny", version=planner.version)

    async def publish(
        write: Any, write_base: Any = None
    ) -> int:  # without a policy: versions count, nothing is written
        planner.version += 1
        publisher.version = planner.version
        return planner.version

    cast(Any, publisher).publish = publish
    return PlannerRollouts(config, clients, publisher, bridge, recording)  # type: ignore[arg-type]


def request(tasks: int = 2, n: int = 2, version: int = 1) -> Any:
    rows = [{"uid": f"p{at}", "question": f"q{at}"} for at in range(tasks)]
    return rollout_request(load_config(), "t", rows, SamplingSettings(n, 5), version)


async def test_a_broken_stream_is_taken_up_under_the_same_request_id() -> None:
    planner = ScriptedPlanner()
    # Streams that break after so many episodes: one, none, and three, of four in all.
    planner.trouble = [(1, make_failure()), (0, make_failure()), (3, make_failure())]
    found = await collect(cast(Any, planner), request(), QUICK)
    assert [(item.task_index, item.sample_index) for item in found] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert len(planner.requests) == 4
    # One id over all attempts: the planner goes on where it stood and plays nothing twice.
    assert len({one.request_id for one in planner.requests}) == 1


async def test_a_failed_episode_is_asked_for_again_and_in_the_end_names_its_culprit() -> None:
    planner = ScriptedPlanner()
    planner.failing = {(1, 0): 2}
    assert len(await collect(cast(Any, planner), request(), QUICK)) == 4
    # More often than there are attempts.
    planner.failing = {(1, 0): 99}
    with pytest.raises(DependencyFailed, match=r"1 of 4 episodes .* after 3 attempts: retrieval: out of reach") as bad:
        await collect(cast(Any, planner), request(), QUICK)
    assert bad.value.metadata["culprit"] == "retrieval"


@pytest.mark.parametrize(
    "error", [InvalidField("group_size", "must be 1 to 64"), VersionMismatch("tiny", 3, 2), NotFound("model", "x")]
)
async def test_contract_errors_are_fatal_at_once(error: FathomError) -> None:
    planner = ScriptedPlanner()
    planner.trouble = [(0, error)]
    # What the next attempt would meet again: a bad setting, weights that are too old, a model that is not there.
    with pytest.raises(type(error)) as bad:
        await collect(cast(Any, planner), request(), QUICK)
    assert bad.value.message == error.message
    assert len(planner.requests) == 1


@pytest.mark.parametrize("transport", ["stream", "queue"])
async def test_an_episode_that_no_attempt_would_mend_is_fatal_at_once_and_names_its_culprit(transport: Any) -> None:
    planner = ScriptedPlanner()
    planner.failing, planner.error_code = {(1, 0): 99}, "FAILED_PRECONDITION"
    with pytest.raises(FailedPrecondition, match="episode run-1-0: retrieval: out of reach") as bad:
        await collect(cast(Any, planner), request(), QUICK, transport=transport)
    assert (bad.value.metadata["culprit"], bad.value.metadata["code"]) == ("retrieval", "FAILED_PRECONDITION")
    assert len(planner.requests) == 1
    # A stream ends with its caller; a queued request would be played on by some planner and must be stopped.
    assert planner.stopped == ([request().request_id] if transport == "queue" else [])


@simulate_time
async def test_a_service_that_is_away_for_longer_than_a_few_attempts_is_waited_for() -> None:
    planner = ScriptedPlanner()
    planner.trouble = [(0, make_failure())] * 9
    patience = Patience(10.0, 3, QUICK.retry, outage_s=5.0)
    assert len(await collect(cast(Any, planner), request(), patience)) == 4


@simulate_time
async def test_the_deadline_bounds_all_attempts_together() -> None:
    # The first sample of each prompt comes at once, the second after a minute, against a deadline of 0.2 s.
    planner = ScriptedPlanner(lambda uid, sample: 60.0 if sample else 0.0)
    with pytest.raises(DeadlineExceeded, match=r"2 of 4 episodes after 0\.2 s"):
        await collect(cast(Any, planner), request(), Patience(0.2, 3))


async def test_a_queued_request_is_followed_over_broken_streams_and_its_end_is_an_end() -> None:
    planner = ScriptedPlanner()
    planner.trouble = [(1, make_failure()), (3, make_failure())]
    found = await collect(cast(Any, planner), request(), QUICK, transport="queue")
    assert [(item.task_index, item.sample_index) for item in found] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert len(planner.queued) == 1
    assert planner.stopped == []
    # Without a code the failure may pass, but the queue has its own attempts, so it is not asked for again.
    for code, kind, said in (
        ("", DependencyFailed, "retrieval: out of reach"), ("INVALID_ARGUMENT", FailedPrecondition, "out of reach"),
    ):  # fmt: skip
        planner = ScriptedPlanner()
        planner.failing, planner.error_code = {(1, 0): 99}, code
        with pytest.raises(kind, match=said):
            await collect(cast(Any, planner), request(), QUICK, transport="queue")
        assert len(planner.requests) == 1, "the queue has played it as often as it may"
        assert planner.stopped == [request().request_id]


@simulate_time
async def test_a_queued_request_that_is_given_up_is_stopped() -> None:
    planner = ScriptedPlanner(lambda uid, sample: 60.0)
    asking = asyncio.create_task(collect(cast(Any, planner), request(), QUICK, transport="queue"))
    await eventually(lambda: planner.played)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    with pytest.raises(DeadlineExceeded, match="0 of 4 episodes"):
        await collect(cast(Any, planner), request(version=2), Patience(0.1, 3), transport="queue")
    assert planner.stopped == [request().request_id, request(version=2).request_id]


def test_the_same_prompts_give_the_same_request_and_different_rows_different_seeds() -> None:
    # Equal bytes, since the planner compares a repeated request with the first one.
    assert request() == request()
    assert request().request_id != request(version=2).request_id
    config = load_config(overrides=["rollout.max_turns=3", "reward.parameters={structure_weight: 0.1}"])
    rows = [{"uid": "a", "question": "q"}]
    one, two = (rollout_request(config, "t", rows, SamplingSettings(4, 100), 0, offset) for offset in (0, 1))
    # Four samples per prompt: the second row's seeds begin behind the first one's, and never overlap.
    assert (one.sampling.seed, two.sampling.seed) == (100, 104), "planner counts samples from the seed on"
    assert one.budget.max_rounds == 4, "three turns with search, one without"
    assert one.grader_parameters["structure_weight"] == pytest.approx(0.1)


def test_the_texts_of_a_protocol_with_tags_come_from_files_to_the_byte(tmp_path: Path) -> None:
    (tmp_path / "instruction").write_bytes(b"Answer. Question: {question}\r\n")
    (tmp_path / "invalid").write_bytes(b"\nAgain.\n")
    given = [
        f"rollout.instruction_file={tmp_path / 'instruction'}",
        f"rollout.invalid_action_file={tmp_path / 'invalid'}",
    ]
    rows = [{"uid": "a", "question": "q"}]
    asked = rollout_request(load_config(overrides=given), "t", rows, SamplingSettings(4, 100), 0)
    assert (asked.instruction, asked.invalid_action) == ("Answer. Question: {question}\r\n", "\nAgain.\n")
    missing = load_config(overrides=[f"rollout.instruction_file={tmp_path / 'none'}"])
    with pytest.raises(InvalidField, match=r"rollout\.instruction_file: .* cannot be read"):
        rollout_request(missing, "t", rows, SamplingSettings(4, 100), 0)
    (tmp_path / "invalid").write_bytes(b"")
    with pytest.raises(InvalidField, match=r"rollout\.invalid_action_file: .* is empty"):
        rollout_request(load_config(overrides=given), "t", rows, SamplingSettings(4, 100), 0)


def test_an_episode_of_an_effort_has_productions_limits() -> None:
    rows = [{"uid": "a", "question": "q"}]
    config = load_config(overrides=["rollout.protocol=auto", "rollout.effort=deep"])
    asked = rollout_request(config, "t", rows, SamplingSettings(4, 100), 0)
    assert (asked.protocol, asked.effort) == (PROTOCOL_AUTO, EFFORT_DEEP)
    assert not asked.HasField("budget")
    assert asked.sampling.max_tokens == 0
    fixed = load_config(overrides=["rollout.protocol=workflow"])
    assert rollout_request(fixed, "t", rows, SamplingSettings(4, 100), 0).protocol == PROTOCOL_WORKFLOW


def test_each_row_may_have_its_own_day_and_the_turns_before_it() -> None:
    turns = [{"role": "user", "content": "what?"}, {"role": "assistant", "content": "that"}]
    day = {"as_of": "2014-03-31T16:00:00+08:00", "history": turns}
    rows = [{"uid": "a", "question": "q", "extra_info": day}, {"uid": "b", "question": "q"}]
    config = load_config(overrides=["rollout.protocol=research"])
    dated, plain = rollout_request(config, "t", rows, SamplingSettings(1, 0), 0).tasks  # type: ignore[arg-type]
    assert dated.as_of.ToJsonString() == "2014-03-31T08:00:00Z"
    assert [(turn.role, turn.content) for turn in dated.history] == [(ROLE_USER, "what?"), (ROLE_ASSISTANT, "that")]
    assert not plain.HasField("as_of")
    assert not plain.history
    with pytest.raises(InvalidField, match="row a has earlier turns, which search_r1 cannot show"):
        rollout_request(load_config(), "t", rows, SamplingSettings(1, 0), 0)  # type: ignore[arg-type]


def test_a_row_may_follow_a_conversation_of_the_memory_service() -> None:
    rows = [{"uid": "a", "question": "q", "extra_info": {"conversation_id": "conv_1", "conversation_turns": 3}}]
    config = load_config(overrides=["rollout.protocol=research"])
    [task] = rollout_request(config, "t", rows, SamplingSettings(1, 0), 0).tasks
    assert (task.conversation_id, task.conversation_turns) == ("conv_1", 3)
    with pytest.raises(InvalidField, match="row a has one, which search_r1 cannot show"):
        rollout_request(load_config(), "t", rows, SamplingSettings(1, 0), 0)


def test_rows_are_read_in_the_forms_of_the_data_sets() -> None:
    chat = [{"role": "user", "content": "said"}]
    assert question_of({"uid": "a", "raw_prompt": chat}) == "said"
    assert question_of({"uid": "a", "raw_prompt": chat, "extra_info": {"question": "bare"}}) == "bare"
    with pytest.raises(InvalidField, match="raw_prompt: row a"):
        question_of({"uid": "a"})
    # Ground truths as data sets have them: one, a number, several, Search-R1's mapping, none.
    for truth, found in (("x", ["x"]), (3, ["3"]), (["x", "y"], ["x", "y"]), ({"target": ["z"]}, ["z"]), (None, [])):
        assert references_of({"reward_model": {"ground_truth": truth}}) == found


def test_groups_become_left_padded_prompts_and_right_padded_responses() -> None:
    # Two prompt ids and three sampled ones against four and four; 90 is an observation.
    short, long = trajectory(0, 1, 4, prompt=2), trajectory(1, 0, 4, prompt=4, sampled=3)
    data = to_data([Group({"uid": "a"}, (short,)), Group({"uid": "b"}, (long,))], {"n": 1}, pad=7)
    data.require("prompts", "responses", "input_ids", "attention_mask", "position_ids", "response_mask", "acc")
    assert data.tensor("prompts").tolist() == [[7, 7, 10, 10], [11, 11, 11, 11]]
    assert data.tensor("responses").tolist() == [[50, 51, 90, 51, 7], [50, 51, 52, 90, 51]]
    assert data.tensor("response_mask").tolist() == [[1, 1, 0, 1, 0], [1, 1, 1, 0, 1]]
    assert data.tensor("attention_mask").tolist() == [[0, 0, 1, 1, 1, 1, 1, 1, 0], [1] * 9]
    # Positions stop counting on padding, so that it gets no embedding of its own beyond the window.
    assert data.tensor("position_ids")[0].tolist() == [0, 0, 0, 1, 2, 3, 4, 5, 5]
    assert data.tensor("rollout_log_probs")[0].tolist() == [-0.5, -0.5, 0.0, -0.5, 0.0]
    # The reward stands on the last sampled token of the row that earned it.
    assert data.tensor("token_level_scores").tolist() == [[0, 0, 0, 1, 0], [0, 0, 0, 0, 0]]
    assert data.tensor("acc").tolist() == [1, 0]
    assert data.array("reward/correct").tolist() == [1, 0]
    assert data.array("episode").tolist() == ["a/0", "b/0"]


def test_a_compacted_episode_has_a_row_per_segment_with_one_name_and_its_score_in_each() -> None:
    item = trajectory(0, 1, 4)
    item.steps.clear()
    for ids, mask in (([1, 2, 3], [0, 1, 1]), ([1, 9, 4], [0, 0, 1])):
        # The second segment begins with a rendered beginning of the first one: ids of mask 0, never trained twice.
        item.segments.append(Segment(token_ids=ids, mask=mask, log_probs=[-1.0 * bit for bit in mask]))
    data = to_data([Group({"uid": "a"}, (item,))])
    assert data.array("episode").tolist() == ["a/0", "a/0"]
    assert data.tensor("prompts").tolist() == [[0, 1], [1, 9]]
    assert data.tensor("token_level_scores").tolist() == [[0, 1], [1, 0]]


def test_an_episode_that_cannot_train_is_refused_by_field() -> None:
    item = trajectory(0, 0, 4)
    item.exact = False
    with pytest.raises(InvalidField, match=r"trajectory\.exact"):
        to_data([Group({"uid": "a"}, (item,))])


def test_the_barrier_pins_the_version_and_gives_whole_groups(bridge: SimulatedLoopThread) -> None:
    # Random durations, so that episodes end out of order; groups must come out in the prompts' order all the same.
    planner = ScriptedPlanner(lambda uid, sample: random.Random(f"{uid}{sample}").random() / 50)
    rollouts = source(planner, bridge, load_config(overrides=["rollout.n=3", "rollout.concurrency=4"]))
    for version in (1, 2):
        data = rollouts.generate(prompts(0, 4, n=3))
        data.require_groups(3)
        assert {one.policy_version for one in planner.requests[version - 1 :]} == {version}
        assert data.array("version_min").tolist() == [version] * 12
        assert data.array("uid").tolist() == [f"p{row}" for row in range(4) for _ in range(3)]
        assert data.meta_info["metrics"]["rollout/age/max"] == 0
        assert rollouts.publish(lambda folder: None) == version + 1
    assert planner.requests[0].concurrency == 4
    with pytest.raises(InvalidField, match="uid: names two prompts alike"):
        rollouts.generate(DataProto.concat([prompts(0, 1), prompts(0, 1)]))


@pytest.mark.parametrize(
    ("staleness", "kind", "transport"),
    [(1, "single", "stream"), (2, "single", "queue"), (1, "weighted", "queue"), (2, "weighted", "stream")],
)
def test_no_sample_is_older_than_the_bound_and_no_prompt_is_lost(
    bridge: SimulatedLoopThread, staleness: int, kind: str, transport: str
) -> None:
    """Durations with a long tail over many versions: ages, groups, and each prompt once."""
    rng, lengths = random.Random(3), {}

    # Lognormal with a sigma of 1.6: one episode of a hundred takes forty times as long as the median.
    def duration(uid: str, sample: int) -> float:
        lengths[(uid, sample)] = min(0.4, 0.004 * rng.lognormvariate(0.0, 1.6))
        return lengths[(uid, sample)]

    planner = ScriptedPlanner(duration)
    overrides = [
        "rollout.mode=async",
        f"rollout.staleness={staleness}",
        "rollout.n=2",
        f"rollout.group_versions={kind}",
        f"rollout.transport={transport}",
    ]
    if kind == "weighted":
        overrides.append("rollout.importance_cap=2.0")
    rollouts = source(planner, bridge, load_config(overrides=overrides))
    # As many batches are asked for ahead as the bound has versions.
    assert rollouts.ahead == staleness
    steps, size, seen = 12, 4, []
    for step in range(staleness):
        rollouts.submit(prompts(step * size, size))
    begun_anew = 0.0
    for step in range(staleness, steps + staleness):
        data = rollouts.generate(prompts(step * size, size))
        data.require_groups(2)
        ages = rollouts.publisher.version - data.array("version_min")
        assert ages.min() >= 0
        # An average within the bound would not do: importance weights assume it of each sample.
        assert ages.max() <= staleness, "strictly, for each sample"
        if kind == "single":
            assert (data.array("version_min") == data.array("version_max")).all()
        seen += data.array("uid").tolist()[::2]
        begun_anew += data.meta_info["metrics"]["rollout/begun_anew"]
        assert len(rollouts._pool.pending()) == staleness * size, "as many groups under way as before, one for one"
        rollouts.publish(lambda folder: None)
    assert begun_anew > 0, "the tail is long enough that groups got too old"
    assert len(seen) == len(set(seen)) == steps * size
    rollouts.close()
    under_way = set(f"p{row}" for row in range((steps + staleness) * size)) - set(seen)
    assert len(under_way) == staleness * size, "what was not given out is what was still under way"


@pytest.mark.parametrize("kind", ["single", "weighted"])
def test_a_group_that_takes_longer_than_the_bound_is_waited_for_in_the_end(
    bridge: SimulatedLoopThread, kind: str
) -> None:
    # Only p0 is slow: longer than five steps of the others.
    planner = ScriptedPlanner(lambda uid, sample: 0.25 if uid == "p0" else 0.0)
    overrides = [*ASYNC, "rollout.staleness=1", "rollout.max_restarts=1", "rollout.importance_cap=2.0"]
    overrides.append(f"rollout.group_versions={kind}")
    rollouts = source(planner, bridge, load_config(overrides=overrides))
    rollouts.submit(prompts(0, 2))
    found = []
    for step in range(1, 6):
        data = rollouts.generate(prompts(step * 2, 2))
        found.append(data.array("uid").tolist()[::2])
        rollouts.publish(lambda folder: None)
    assert any("p0" in uids for uids in found), "a slow prompt is trained on all the same"
    versions = {version for uid, _, version in planner.played if uid == "p0"}
    # Version 1, then one restart, and by timing perhaps a second version within the same attempt.
    assert 2 <= len(versions) <= 3, "begun anew as often as allowed, then waited for"


def test_validation_does_not_wait_for_the_pool_and_is_pinned(bridge: SimulatedLoopThread) -> None:
    # Training's episodes never end here; a validation behind them would wait for ever.
    planner = ScriptedPlanner(lambda uid, sample: 9.0 if uid.startswith("p") else 0.0)
    rollouts = source(planner, bridge, load_config(overrides=ASYNC))
    rollouts.submit(prompts(0, 2))
    held_out = prompts(0, 2, n=1, validate=True, temperature=0.0)
    held_out = DataProto.from_dict({}, held_out.non_tensor_batch | {"uid": ["v0", "v1"]}, held_out.meta_info)  # type: ignore[arg-type]
    assert len(rollouts.generate(held_out)) == 2
    assert planner.requests[-1].policy_version == 1
    assert planner.requests[-1].sampling.temperature == 0.0
    rollouts.close()


def test_what_ends_a_group_ends_the_training(bridge: SimulatedLoopThread) -> None:
    planner = ScriptedPlanner()
    planner.trouble = [(0, InvalidField("tasks[0].question", "is empty"))]
    rollouts = source(planner, bridge, load_config(overrides=ASYNC))
    with pytest.raises(InvalidField, match="question"):
        rollouts.generate(prompts(0, 2))


def test_groups_of_several_versions_need_importance_weights(bridge: SimulatedLoopThread) -> None:
    with pytest.raises(ConfigError, match="importance_cap"):
        source(ScriptedPlanner(), bridge, load_config(overrides=[*ASYNC, "rollout.group_versions=weighted"]))


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_a_recorded_run_is_replayed_to_the_bit(bridge: SimulatedLoopThread, tmp_path: Path, mode: str) -> None:
    rng = random.Random(5)
    planner = ScriptedPlanner(lambda uid, sample: rng.random() / 100)
    overrides = ASYNC if mode == "async" else ["rollout.n=2"]
    recording = Recording(open_store(f"file://{tmp_path}"), "rollouts")
    rollouts = source(planner, bridge, load_config(overrides=overrides), recording)
    replayed = ReplayedRollouts(recording, bridge, rollouts.ahead)  # type: ignore[arg-type]
    batches: list[list[DataProto]] = []
    for played in (rollouts, replayed):
        for step in range(played.ahead):
            played.submit(prompts(step * 3, 3, step=step + 1))
        batches.append([])
        for step in range(played.ahead, played.ahead + 4):
            batches[-1].append(played.generate(prompts(step * 3, 3, step=step + 1)))
            held_out = prompts(0, 3, n=1, step=step + 1, validate=True)
            batches[-1] += [played.generate(held_out) for _ in range(2)]
            played.publish(lambda folder: None)  # type: ignore[arg-type]
    for one, other in zip(*batches, strict=True):
        assert one.batch.keys() == other.batch.keys()
        assert all(torch.equal(one.batch[name], other.batch[name]) for name in one.batch)
        for name, values in one.non_tensor_batch.items():
            assert values.tolist() == other.non_tensor_batch[name].tolist(), name
        ages = [data.meta_info["metrics"]["rollout/age/max"] for data in (one, other)]
        assert ages[0] == ages[1]
    rollouts.close()
    with pytest.raises(NotFound, match="recorded batch"):
        replayed.generate(prompts(90, 3, step=99))
    assert bridge.call(recording.steps()) == 4


@pytest.mark.parametrize("manager", ["prime", "search_r1"])
def test_a_reward_manager_of_the_trainers_gets_ungraded_episodes(
    bridge: SimulatedLoopThread, tmp_path: Path, manager: str
) -> None:
    """Else the setting would change nothing, for the loop keeps the scores that a batch brings."""
    planner, recording = ScriptedPlanner(), Recording(open_store(f"file://{tmp_path}"), "rollouts")
    config = load_config(overrides=[f"reward.manager={manager}", "rollout.n=2"])
    played = source(planner, bridge, config, recording).generate(prompts(0, 2))
    replayed = ReplayedRollouts(recording, bridge, graded=False)  # type: ignore[arg-type]
    replayed.publish(lambda folder: None)  # type: ignore[arg-type]
    assert [(one.grader, dict(one.grader_parameters)) for one in planner.requests] == [("", {})]
    for data in (played, replayed.generate(prompts(0, 2))):
        assert not {"token_level_scores", "acc"} & {name for name, _ in data.columns()}
        assert data.array("reward_model")[0] == {"ground_truth": {"target": ["0"]}}, "what the manager compares with"
    with pytest.raises(ConfigError, match="answer tags"):
        load_config(overrides=[f"reward.manager={manager}", "rollout.protocol=research"])


async def test_a_record_of_other_prompts_or_of_half_a_file_is_refused() -> None:
    store = open_store("memory://")
    recording, asked = Recording(store, "r"), SamplingSettings(1, 0, 1)
    await recording.write(recording.key(asked), [Group({"uid": "a"}, (trajectory(0, 0, 1),))], 1)
    with pytest.raises(Conflict, match="prompt a"):
        await recording.read(recording.key(asked), {"b": {"uid": "b"}})
    data = await store.get(recording.key(asked))
    for broken_data in (data[:-3], b"x" + data, data[:6]):
        await store.put("r/broken", broken_data)
        with pytest.raises(CorruptData):
            await recording.read("r/broken", {"a": {"uid": "a"}})


@simulate_time
async def test_the_pace_spreads_beginnings() -> None:
    pace, begun = Pace(100.0), list[float]()

    async def begin() -> None:
        await pace.wait(5)
        begun.append(loop_time())

    await asyncio.gather(*(begin() for _ in range(4)))
    assert begun == pytest.approx([0.0, 0.05, 0.1, 0.15])
    free = Pace(0.0)
    await free.wait(10_000)
    assert free._free_at == 0.0


def test_each_prompt_may_have_its_own_grader() -> None:
    """As the parquet schema names them, whether read as records or by the data set."""
    record = Record("s", (("user", "q"),), "a", ("12%",), "train", 0, "i", "q", "en", "number", {"rel_tol": 0.01})
    extra = record.row()["extra_info"]
    # One row brings its grader from the data set's own record, the other in plain fields.
    rows = [
        {"uid": "a", "extra_info": extra, "reward_model": record.row()["reward_model"]},
        {"uid": "b", "extra_info": {"question": "q", "grader": "em", "grader_parameters": {}}},
    ]
    config = load_config(overrides=["reward.grader=own"])
    request = rollout_request(config, "x", rows, SamplingSettings(1, 0), 1)
    assert request.grader == ""
    assert [(task.grader, dict(task.grader_parameters)) for task in request.tasks] == [
        ("number", {"rel_tol": 0.01}),
        ("em", {}),
    ]
    # A reward manager in the trainer grades later: asking for a grade twice would cost a judge twice.
    ungraded = rollout_request(config, "x", rows, SamplingSettings(1, 0), 1, graded=False)
    assert not any(task.grader for task in ungraded.tasks)
    with pytest.raises(InvalidField, match=r"extra_info\.grader"):
        rollout_request(config, "x", [{"uid": "a", "question": "q"}], SamplingSettings(1, 0), 1)
    plain = rollout_request(load_config(), "x", rows, SamplingSettings(1, 0), 1)
    assert (plain.grader, plain.tasks[0].grader) == ("search_r1", "")


def test_the_tools_that_fit_a_task_reach_its_grader(tmp_path: Path) -> None:
    """From a made task over its parquet file to planner's request."""
    task = SynthTask(
        # "data" twice: tools are asked for by name, in the order of their first use.
        "table", "growth", "f", "en", "How fast?", ("12%",), "number", (Step("data", {}), Step("python", {}), Step("data", {}))
    )  # fmt: skip
    write([task.record("train", 0)], tmp_path / "tasks.parquet")
    [record] = read(tmp_path / "tasks.parquet")
    assert record.expected_tools == ("data", "python")
    rows = [{"uid": "a", **record.row()}, {"uid": "b", "question": "q"}]
    asked = rollout_request(load_config(overrides=["reward.grader=agent"]), "x", rows, SamplingSettings(1, 0), 1)
    assert [list(item.expected_tools) for item in asked.tasks] == [["data", "python"], []]
