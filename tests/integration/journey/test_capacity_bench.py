"""The benchmark of a release's capacity: what it asks for, and what it makes of what pods used."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import pytest

from fathom.api.planner.v1 import trajectory_pb2 as trajectory
from tests.bench.capacity import describe
from tests.integration.cluster.load import Wrong
from tests.integration.journey import capacity


def test_a_pod_and_some_processors_carry_what_follows_from_their_seconds() -> None:
    measured = {
        "count": 20,
        "seconds": 40.0,
        "processor_s": {"planner": 10.0, "datafetch": 30.0, "nats": 0.0},
        "memory_mib": {"planner": 130.0, "datafetch": 800.0, "nats": 9.0},
    }
    head, *pods, one, _, eight = describe("question", measured).splitlines()
    assert head == "question: 20 in 40 s, 2.00 processor seconds each"
    assert [line.split()[0] for line in pods] == ["datafetch", "planner", "nats"]
    assert "1.50 processor s each,   800 MiB" in pods[0]
    assert "2.0 a second by a pod with one processor" in pods[1]
    assert pods[2].endswith("9 MiB"), "nothing follows from no seconds"
    assert one.endswith("1 in all: 0.50 a second, 60 users")
    assert eight.endswith("8 in all: 4.00 a second, 480 users")
    assert describe("rollout", measured).endswith("8 in all: 4.00 a second")


def test_no_question_is_asked_twice() -> None:
    asked = list(capacity.compose_questions())
    assert len(set(asked)) == len(asked)
    assert len(asked) >= len(capacity.WORK) * (capacity.WARM + capacity.COUNT)


class FakeClients:
    """Play rollouts by a function, and note what was asked for."""

    def __init__(self, play: Callable[[object], list[SimpleNamespace]]) -> None:
        self.planner, self.is_closed, self._play = self, False, play

    async def rollout(self, request: object) -> object:
        for played in self._play(request):
            yield SimpleNamespace(trajectory=played)

    async def close(self) -> None:
        self.is_closed = True


@pytest.mark.parametrize(
    ("reasons", "said"),
    [
        (["STOP_REASON_FINISHED", "STOP_REASON_FAILED"], "1 of 2 failed"),
        (["STOP_REASON_FINISHED"], "0 of 1 failed, 2 were asked for"),
        (["STOP_REASON_FINISHED", "STOP_REASON_FINISHED"], ""),
    ],
)
async def test_a_rollout_that_fails_or_does_not_come_fails_the_measurement(
    monkeypatch: pytest.MonkeyPatch, reasons: list[str], said: str
) -> None:
    def play(request: object) -> list[SimpleNamespace]:
        stops = [trajectory.StopReason.Value(reason) for reason in reasons]
        return [SimpleNamespace(stop_reason=stop, error="no data") for stop in stops]

    clients = FakeClients(play)
    monkeypatch.setattr(capacity, "connect_services", lambda prefix, sandboxes: clients)
    if said:
        with pytest.raises(Wrong, match=said):
            await capacity.play_rollouts("demo-fathom", ["a?", "b?"])
    else:
        await capacity.play_rollouts("demo-fathom", ["a?", "b?"])
    assert clients.is_closed
