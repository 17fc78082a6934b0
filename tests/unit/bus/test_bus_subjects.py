"""Subjects, claims and headers: what is spelled where, and what is refused."""

from __future__ import annotations

import json

import pytest

from fathom.core.call import Lane
from fathom.core.config import ConfigError
from fathom.core.errors import CorruptData, InvalidField, PayloadTooLarge
from fathom.core.ids import sha256
from fathom.transport.bus import open_bus, streams
from fathom.transport.bus.claim import CLAIM_HEADER, MAX_PAYLOAD, THRESHOLD, ClaimCheck
from fathom.transport.bus.streams import matches, topology
from fathom.transport.store.memory import MemoryStore


@pytest.mark.parametrize(
    ("pattern", "subject", "expected"),
    [
        ("a.b", "a.b", True),
        ("a.b", "a.c", False),
        ("a.*", "a.b", True),
        ("a.*", "a.b.c", False),
        ("a.*", "a", False),
        ("a.>", "a.b.c", True),
        ("a.>", "a", False),
        ("a.*.c", "a.b.c", True),
        ("a.*", "a.*", True),
        ("a.*", "a.>", False),
        ("a.>", "a.>", True),
    ],
)
def test_wildcards(pattern: str, subject: str, expected: bool) -> None:
    assert matches(pattern, subject) is expected


def test_every_subject_belongs_to_exactly_one_stream() -> None:
    declared = topology()
    subjects = {
        streams.run_subject(Lane.TRAINING): streams.RUNS,
        streams.events_subject("run_1"): streams.EVENTS,
        streams.rollout_subject(Lane.TRAINING): streams.ROLLOUTS,
        streams.trajectory_subject("ro_1", "0000-00"): streams.TRAJECTORIES,
        streams.weights_subject("org/model-1.5"): streams.WEIGHTS,
        streams.dead_subject("RUNS", "planner-training"): streams.DEAD_LETTERS,
        "$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.RUNS.planner-training": streams.DEAD_LETTERS,
    }
    for subject, name in subjects.items():
        homes = [s.name for s in declared.streams if any(matches(pattern, subject) for pattern in s.subjects)]
        assert homes == [name]
    with pytest.raises(InvalidField, match="no stream stores"):
        declared.stream_of(streams.rpc_subject("retrieval", "Search"))


def test_each_lane_has_one_durable_per_depth_and_work_queues_overlap_nowhere() -> None:
    declared = topology()
    names = [durable.name for stream in declared.streams for durable in stream.durables]
    assert names == [
        "planner-interactive", "planner-interactive-sub1", "planner-interactive-sub2",
        "planner-evaluation", "planner-evaluation-sub1", "planner-evaluation-sub2",
        "planner-training", "planner-training-sub1", "planner-training-sub2",
        "rollout-workers-interactive", "rollout-workers-evaluation", "rollout-workers", "planner-learners",
        "planner-dead-runs",
    ]  # fmt: skip
    for lane in Lane:
        for durable, subject in (
            *((streams.run_durable(lane, depth), streams.run_subject(lane, depth)) for depth in range(3)),
            (streams.rollout_durable(lane), streams.rollout_subject(lane)),
        ):
            assert declared.durable(durable)[1].filter_subject == subject
    with pytest.raises(InvalidField, match="depth"):
        streams.run_subject(Lane.TRAINING, 3)


def test_parts_of_subjects_cannot_smuggle_tokens() -> None:
    for spell in (
        streams.events_subject, streams.trajectory_subject,
        lambda text: streams.rpc_subject(text, "Search"), lambda text: streams.rpc_subject("retrieval", text),
    ):  # fmt: skip
        for text in ("a.b", "*", ">", "", "a b"):
            with pytest.raises(InvalidField):
                spell(text)
    models = ["a.b", "a/b", "a%2Eb", "*", ">", "a b", "模型"]
    spelled = [streams.weights_subject(model) for model in models]
    assert len(set(spelled)) == len(models)
    assert all(streams.checked_subject(subject).count(".") == 2 for subject in spelled)
    with pytest.raises(InvalidField, match=r"^model"):
        streams.weights_subject("")


async def test_small_payloads_are_left_alone() -> None:
    store = MemoryStore()
    payload = bytes(THRESHOLD)
    assert await ClaimCheck(store).seal(payload, {"a": "b"}) == (payload, {"a": "b"})
    assert await store.list("") == []


async def test_a_claim_opens_only_its_own_place() -> None:
    store = MemoryStore()
    claims = ClaimCheck(store)
    secret = await store.put("sessions/secret", b"secret")
    forged = {"key": secret.key, "size_bytes": 6, "sha256": secret.sha256, "content_type": "x"}
    for text in (json.dumps(forged), "", "[]", "{}", json.dumps({**forged, "more": 1}), "null"):
        with pytest.raises(CorruptData, match="fathom-claim"):
            await claims.open(b"", {CLAIM_HEADER: text})
    digest = sha256(b"x")
    gone = {**forged, "key": f"claims/{digest}", "sha256": digest}
    with pytest.raises(CorruptData, match="gone"):
        await claims.open(b"", {CLAIM_HEADER: json.dumps(gone)})
    with pytest.raises(PayloadTooLarge):
        await claims.open(b"", {CLAIM_HEADER: json.dumps({**gone, "size_bytes": MAX_PAYLOAD + 1})})


async def test_an_unknown_bus_is_a_setting_error() -> None:
    with pytest.raises(ConfigError, match="bus_url: unknown scheme 'amqp'"):
        await open_bus("amqp://host", MemoryStore())
