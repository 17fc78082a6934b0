"""Versions, lanes and pauses as a trainer's client sees them: over gRPC, on a real bus, through a restart."""

from __future__ import annotations

import asyncio
import io
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from fathom.api.common.v1 import common_pb2 as common
from fathom.api.policy.v1 import policy_pb2 as pb
from fathom.clients import Clients
from fathom.core.call import Lane
from fathom.core.errors import DeadlineExceeded, FailedPrecondition, InvalidField, NotFound, Overloaded
from fathom.core.telemetry import Telemetry
from fathom.domain.weights.manifest import publish
from fathom.hosting.host import Runtime, dependencies, hosting
from fathom.services.policy.config import Config, RulesModel, TransformersModel
from fathom.services.policy.server import build
from fathom.transport.bus.nats.server import NatsServer
from fathom.transport.store import open_store
from fathom.transport.store.refs import to_ref
from tests.integration.policy.weights.models import tiny_model

ALL = (Lane.INTERACTIVE, Lane.EVALUATION, Lane.TRAINING)


@asynccontextmanager
async def door(root: Path, bus_url: str) -> AsyncIterator[tuple[dict[Lane, Clients], int]]:
    """Clients of every lane, and the port of the metrics."""
    config = Config(
        models={"rules": RulesModel()}, cache_dir=root / "cache", trained=TransformersModel(threads=1, running=2)
    )
    runtime = Runtime(
        store_url=f"file://{root / 'store'}", bus_url=bus_url, metrics_port=0, grace_s=0.1, log_level="error"
    )
    async with dependencies("policy", runtime) as deps, hosting(build(config, deps), deps, runtime) as hosted:
        await hosted.warm
        telemetry = Telemetry("test", stream=io.StringIO())
        clients = {lane: Clients({"policy": hosted.url}, telemetry, lane=lane) for lane in ALL}
        yield clients, hosted.metrics_port
        for one in clients.values():
            await one.close()


async def version(clients: Clients, text: str = "hello", timeout_s: float = 20.0) -> int:
    request = pb.GenerateRequest(
        model="tiny",
        messages=[pb.Message(role=pb.ROLE_USER, content=text)],
        sampling=pb.Sampling(temperature=1.0, max_tokens=4, seed=3),
    )
    events = [event async for event in clients.policy.generate(request, timeout_s=timeout_s)]
    return int(events[-1].completion.version_min)


def metrics(port: int) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        return str(answer.read().decode())


async def test_a_service_that_restarts_serves_what_it_served(tmp_path: Path) -> None:
    store = open_store(f"file://{tmp_path / 'store'}")
    refs = [
        await publish(store, await asyncio.to_thread(tiny_model, tmp_path / str(number), number), "tiny", number)
        for number in (1, 2)
    ]
    async with NatsServer(tmp_path / "nats") as nats:
        async with door(tmp_path, nats.url) as (clients, port):
            person, trainer = clients[Lane.INTERACTIVE], clients[Lane.TRAINING]
            load = pb.LoadWeightsRequest(request_id="a", model="tiny", manifest=to_ref(refs[0]), policy_version=1)
            assert (await person.policy.load_weights(load)).previous_version == 0
            load = pb.LoadWeightsRequest(
                request_id="b", model="tiny", policy_version=2, lanes=[common.LANE_TRAINING], percent=100
            )
            loaded = await person.policy.load_weights(load)  # by its number
            assert {(item.lane, item.policy_version, item.percent) for item in loaded.model.lanes} == {
                (common.LANE_INTERACTIVE, 1, 100),
                (common.LANE_EVALUATION, 1, 100),
                (common.LANE_TRAINING, 2, 100),
            }
            assert (await version(person), await version(trainer)) == (1, 2)
            told = await asyncio.to_thread(metrics, port)
            assert 'fathom_policy_version{lane="training",model="tiny"} 2.0' in told
            assert 'fathom_policy_version{lane="interactive",model="tiny"} 1.0' in told
            assert 'fathom_policy_kv_pressure{model="tiny"}' in told
        async with door(tmp_path, nats.url) as (clients, port):
            assert (await version(clients[Lane.INTERACTIVE]), await version(clients[Lane.TRAINING])) == (1, 2)


async def test_what_cannot_be_asked_for(tmp_path: Path) -> None:
    store = open_store(f"file://{tmp_path / 'store'}")
    ref = to_ref(await publish(store, await asyncio.to_thread(tiny_model, tmp_path / "1", 1), "tiny", 1))
    async with door(tmp_path, "memory://") as (clients, _):
        policy = clients[Lane.TRAINING].policy
        with pytest.raises(NotFound):
            await policy.load_weights(pb.LoadWeightsRequest(model="tiny", policy_version=7))
        with pytest.raises(InvalidField, match="lanes"):
            await policy.load_weights(
                pb.LoadWeightsRequest(model="tiny", manifest=ref, policy_version=1, lanes=[common.LANE_UNSPECIFIED])
            )
        with pytest.raises(InvalidField, match="percent"):
            await policy.load_weights(pb.LoadWeightsRequest(model="tiny", manifest=ref, policy_version=1, percent=50))
        with pytest.raises(InvalidField, match="policy_version"):
            await policy.load_weights(pb.LoadWeightsRequest(model="tiny", manifest=ref, policy_version=-1))
        with pytest.raises(FailedPrecondition, match="does not support weight updates"):
            await policy.load_weights(pb.LoadWeightsRequest(model="rules", manifest=ref, policy_version=1))
        with pytest.raises(InvalidField, match="drain_ms"):
            await policy.pause_generation(pb.PauseGenerationRequest(drain_ms=-1))
        with pytest.raises(InvalidField, match="resume_after_ms"):
            await policy.pause_generation(pb.PauseGenerationRequest(resume_after_ms=-1))
        with pytest.raises(NotFound):  # nothing of all that made a model
            await policy.get_model(pb.GetModelRequest(model="tiny"))


async def test_a_pause_drains_keeps_waiting_calls_to_their_deadlines_and_ends(tmp_path: Path) -> None:
    store = open_store(f"file://{tmp_path / 'store'}")
    ref = to_ref(await publish(store, await asyncio.to_thread(tiny_model, tmp_path / "1", 1), "tiny", 1))
    async with door(tmp_path, "memory://") as (clients, _):
        person = clients[Lane.INTERACTIVE]
        await person.policy.load_weights(pb.LoadWeightsRequest(model="tiny", manifest=ref, policy_version=1))
        long = pb.GenerateRequest(
            model="tiny",
            messages=[pb.Message(role=pb.ROLE_USER, content="hello")],
            sampling=pb.Sampling(temperature=1.0, max_tokens=60, seed=3),
        )
        running = person.policy.generate(long, timeout_s=30)
        first = await anext(running)
        assert first.delta.text
        paused = await person.policy.pause_generation(pb.PauseGenerationRequest(model="tiny", drain_ms=20_000))
        assert (paused.model.state, paused.running) == (pb.MODEL_STATE_PAUSED, 0)
        assert [event async for event in running][-1].HasField("completion")
        # On a slow machine the wait is expected to be longer than the deadline, and the call is refused at once.
        with pytest.raises((DeadlineExceeded, Overloaded)):
            await version(person, timeout_s=0.3)
        waiting = asyncio.create_task(version(person))
        again = await person.policy.pause_generation(pb.PauseGenerationRequest(model="tiny", resume_after_ms=200))
        assert again.model.state == pb.MODEL_STATE_PAUSED
        assert await waiting == 1  # nobody resumed it
        await person.policy.pause_generation(pb.PauseGenerationRequest(model="tiny"))
        resumed = await person.policy.resume_generation(pb.ResumeGenerationRequest(model="tiny"))
        assert resumed.model.state == pb.MODEL_STATE_READY
        assert await version(person) == 1


async def test_a_caller_that_shows_no_draft_is_sent_the_completion_alone(tmp_path: Path) -> None:
    store = open_store(f"file://{tmp_path / 'store'}")
    ref = to_ref(await publish(store, await asyncio.to_thread(tiny_model, tmp_path / "1", 1), "tiny", 1))
    async with door(tmp_path, "memory://") as (clients, _):
        policy = clients[Lane.TRAINING].policy
        await policy.load_weights(pb.LoadWeightsRequest(model="tiny", manifest=ref, policy_version=1))
        request = pb.GenerateRequest(
            request_id="one",
            model="tiny",
            messages=[pb.Message(role=pb.ROLE_USER, content="hello")],
            sampling=pb.Sampling(temperature=1.0, max_tokens=8, seed=3),
        )
        streamed = [event async for event in policy.generate(request, timeout_s=30)]
        assert "".join(event.delta.text for event in streamed) == streamed[-1].completion.text
        assert any(event.HasField("delta") for event in streamed)
        # Of the same request: what is sent of it is not what is asked.
        request.without_deltas = True
        [alone] = [event async for event in policy.generate(request, timeout_s=30)]
        assert alone == streamed[-1]
