"""A recording finds calls by what was asked: whichever run asks, in whichever order, and through retries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from fathom.core.call import Call, calling
from fathom.core.errors import DependencyFailed, NotFound
from fathom.domain.chat.messages import Sampling
from fathom.services.planner.model.episode import Limits, Task
from fathom.services.planner.model.recording import Mode, RecordingChoice
from fathom.services.planner.recording.tape import RecordingMismatch, RecordingMiss, Recordings, Tape, Versions
from fathom.services.planner.runs.repository import RunRepository
from fathom.services.planner.runs.subruns import Allowance, SubRunClient
from fathom.transport.store.memory import MemoryStore

HERE = Versions("1.0", "abc")


class Service:
    """Counts its calls and says what it was told to."""

    def __init__(self, *results: bytes | Exception) -> None:
        self.results, self.calls = list(results), 0

    async def __call__(self) -> Sequence[bytes]:
        self.calls += 1
        result = self.results.pop(0)
        if isinstance(result, Exception):
            raise result
        return [result]


async def open_tape(store: MemoryStore, mode: Mode, run_id: str, versions: Versions = HERE) -> Tape:
    recordings, choice = Recordings(store, versions), RecordingChoice("r", mode)
    await recordings.open(choice, "2026-01-02")
    return recordings.tape(choice, run_id)


async def test_another_run_finds_the_results_in_any_order() -> None:
    store = MemoryStore()
    record = await open_tape(store, Mode.RECORD, "run_1")
    live = Service(b"a", b"b", b"c")
    for request in ('{"q": "x in run_1"}', '{"q": "y"}', '{"q": "y"}'):
        await record.play("retrieval", "Search", request, live)
    again, nobody = await open_tape(store, Mode.STRICT, "run_2"), Service()
    requests = ('{"q": "y"}', '{"q": "x in run_2"}', '{"q": "y"}')
    found = [await again.play("retrieval", "Search", request, nobody) for request in requests]
    assert (found, nobody.calls) == ([[b"b"], [b"a"], [b"c"]], 0)


async def test_a_session_with_a_state_is_found_by_all_of_its_calls() -> None:
    store = MemoryStore()
    record = await open_tape(store, Mode.RECORD, "run_1")
    for code, result in (("x = 1", b""), ("x", b"1"), ("x = 2", b""), ("x", b"2")):
        await record.play("sandbox", "Execute", code, Service(result))
    again = await open_tape(store, Mode.STRICT, "run_2")
    assert await again.play("sandbox", "Execute", "x = 1", Service()) == [b""]
    with pytest.raises(RecordingMiss, match=r"sandbox\.Execute"):
        await again.play("sandbox", "Execute", "x = 2", Service())
    assert again.missed is not None
    with pytest.raises(RecordingMiss):
        await again.play("sandbox", "Execute", "x", Service(b"9"))


async def test_a_recorded_refusal_is_raised_again_and_an_outage_is_no_part_of_the_recording() -> None:
    store = MemoryStore()
    record = await open_tape(store, Mode.RECORD, "run_1")
    with pytest.raises(NotFound):
        await record.play("retrieval", "Fetch", "id", Service(NotFound("document", "id", ["ix"])))
    flaky = Service(DependencyFailed("retrieval", "away"), b"back")
    with pytest.raises(DependencyFailed):
        await record.play("retrieval", "Search", "q", flaky)
    assert await record.play("retrieval", "Search", "q", flaky) == [b"back"]
    again = await open_tape(store, Mode.STRICT, "run_2")
    with pytest.raises(NotFound) as refused:
        await again.play("retrieval", "Fetch", "id", Service())
    assert refused.value.nearest == ("ix",)
    assert await again.play("retrieval", "Search", "q", Service()) == [b"back"]


async def test_fallback_makes_the_calls_that_are_not_there() -> None:
    store = MemoryStore()
    await (await open_tape(store, Mode.RECORD, "run_1")).play("retrieval", "Search", "q", Service(b"a"))
    tape, live = await open_tape(store, Mode.FALLBACK, "run_2"), Service(b"b")
    assert await tape.play("retrieval", "Search", "q", live) == [b"a"]
    assert await tape.play("retrieval", "Search", "other", live) == [b"b"]
    assert (live.calls, tape.missed) == (1, None)


@pytest.mark.parametrize("other", [Versions("1.1", "abc"), Versions("1.0", "abd")])
@pytest.mark.parametrize("mode", list(Mode))
async def test_versions_do_not_mix(other: Versions, mode: Mode) -> None:
    store = MemoryStore()
    await open_tape(store, Mode.RECORD, "run_1")
    with pytest.raises(RecordingMismatch, match="do not mix"):
        await open_tape(store, mode, "run_2", other)


async def test_a_recording_has_one_date_and_belongs_to_its_tenant() -> None:
    store, choice = MemoryStore(), RecordingChoice("r", Mode.RECORD)
    recordings = Recordings(store, HERE)
    assert await recordings.open(choice, "2026-01-02") == "2026-01-02"
    assert await recordings.open(choice, "2026-03-04") == "2026-01-02"
    with calling(Call.new(tenant="other")), pytest.raises(RecordingMismatch, match="does not exist"):
        await recordings.open(RecordingChoice("r", Mode.STRICT))


def test_a_recorded_episode_does_not_delegate() -> None:
    store, allowance = MemoryStore(), Allowance(runs=2)
    task = Task("run_1", "why?", "s", Sampling(), Limits(1, 1, 0.0))
    bus: Any = None
    assert SubRunClient(bus, RunRepository(store), task, allowance).is_allowed
    recorded = replace(task, recording=RecordingChoice("r", Mode.STRICT))
    assert not SubRunClient(bus, RunRepository(store), recorded, allowance).is_allowed
