"""One question, one trace: what is played from a queue goes on with the trace and the tenant of who asked."""

from __future__ import annotations

import json

from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.core.call import TENANT_HEADER, TRACE_HEADER, Call, Lane, calling
from fathom.services.planner.runs.queue import submit_run
from fathom.services.planner.runs.repository import header_key
from tests.support.waiting import eventually
from tests.unit.planner.house import House, echo, finish
from tests.unit.planner.rollouts.test_queue import PassedOnce, Planner, request, watch_queue

LINES = (echo("a"), echo("wait"), finish("It is so."))
ASKED = Call.new(tenant="fund-7", traceparent=f"00-{'a' * 32}-{'b' * 16}-01")
RESUMED = Call.new(tenant="fund-7", traceparent=f"00-{'c' * 32}-{'d' * 16}-01")
ORIGIN = {TENANT_HEADER: "fund-7", TRACE_HEADER: ASKED.traceparent}


async def test_a_run_stays_in_its_questions_trace_when_another_worker_plays_it() -> None:
    house = House(*LINES)
    with calling(ASKED):
        await house.ask()
    async with house.working():
        await eventually(lambda: len(house.policy.sampled) == 2)
    house.release.set()
    async with house.working(house.worker()):
        with calling(ASKED):
            await house.events()
    assert house.policy.origins == [ORIGIN] * 3


async def test_a_resumed_run_goes_on_in_its_questions_trace() -> None:
    house = House(*LINES)
    with calling(ASKED):
        await house.ask(budget=pb.Budget(max_rounds=1))
    house.release.set()
    async with house.working():
        with calling(ASKED):
            await house.events()
        sampled = len(house.policy.sampled)
        with calling(RESUMED):
            header, leg = await house.runs.resume(pb.ResumeRunRequest(run_id="run_1", request_id="again"))
            await submit_run(house.bus, header, Lane.INTERACTIVE, leg)
            await house.events(leg=1)
    assert len(house.policy.sampled) > sampled
    assert house.policy.origins == [ORIGIN] * len(house.policy.sampled)


async def test_runs_of_older_and_of_newer_planners_are_read() -> None:
    house = House(*LINES)
    await house.ask()
    header = await house.record.get_header("run_1")
    older = {name: value for name, value in vars(header).items() if name not in ("tenant", "traceparent")}
    for written in (older, {**vars(header), "a_field_of_tomorrow": 1}):
        await house.store.put(header_key("run_1"), json.dumps(written).encode())
        assert await house.record.get_header("run_1") == header


async def test_queued_rollouts_stay_in_the_trace_of_who_submitted_them_also_when_they_come_again() -> None:
    house = House(echo("a"), finish("It is so."))
    first, second = Planner(house, concurrent_tasks=1, concurrent_rollouts=1), Planner(house)
    # From the beginning: a fast machine would have ended the second episode by the time that the first one is seen.
    first.policy.hold = {1: PassedOnce()}
    with calling(ASKED):
        await first.queue.submit(request(), Lane.TRAINING)
    async with first.working():
        with calling(ASKED):
            await watch_queue(first, most=1)
        await eventually(lambda: len(first.begun_runs) == 2)
    async with second.working():
        with calling(ASKED):
            await watch_queue(second)
    origins = [*first.policy.origins, *second.policy.origins]
    assert second.policy.origins
    assert origins == [ORIGIN] * len(origins)
