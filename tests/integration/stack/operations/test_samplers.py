"""Replicas of policy that come and go during a training, which ends as if nothing had happened."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fathom.clients import Clients, connect
from fathom.hosting.host import Runtime, dependencies, hosting
from fathom.services.local import Endpoints, wait_until_serving
from fathom.trainers.interfaces import Metrics
from fathom.trainers.jobs.launch import Interruption, Place, Run
from fathom.trainers.jobs.registry import load_settings
from fathom.transport.bus.nats.server import NatsServer
from fathom.transport.rpc.service import Service
from fathom.transport.sockets import reserved_port
from tests.integration.stack.planners import ROOT, Door, Planners, start, stop

pytestmark = [pytest.mark.asyncio(loop_scope="package"), pytest.mark.slow]
Stack = tuple[Endpoints, Clients]
EXAMPLE = ROOT / "examples" / "train" / "grpo.yaml"
STEPS = 7
JOIN_WITHIN_S = 240
SAME = ("actor/pg_loss", "actor/grad_norm", "actor/entropy", "critic/score/mean", "response_length/mean")


class Samplers:
    """Replicas of policy behind one address, as a balancer of load has them: calls go round."""

    def __init__(self, contexts: AsyncExitStack, bus: str, endpoints: Endpoints, folder: Path) -> None:
        self._contexts, self._bus, self._endpoints, self._folder = contexts, bus, endpoints, folder
        self._clients: dict[str, Clients] = {}
        self._processes: dict[str, asyncio.subprocess.Process] = {}
        self._turns = itertools.count()
        self._doomed = ""
        self.sampled: Counter[str] = Counter()

    def __getattr__(self, method: str) -> Callable[..., Any]:
        """Return a method of the next replica's client."""

        def call(request: Any) -> Any:
            names = list(self._clients)
            name = names[next(self._turns) % len(names)]
            self.sampled[name] += method == "generate"
            client = self._clients[name]
            if method == "generate" and name == self._doomed:
                # The balancer sends it nothing more; this call, and those under way, meet a connection that breaks.
                self._processes[name].kill()
                del self._clients[name]
            return getattr(client.policy, method)(request)

        return call

    async def join(self, name: str) -> None:
        """Start a replica, and send it calls once it is ready."""
        port = self._contexts.enter_context(reserved_port())
        environ = {
            **os.environ,
            "FATHOM_RUNTIME_PORT": str(port),
            "FATHOM_RUNTIME_BUS_URL": self._bus,
            "FATHOM_RUNTIME_STORE_URL": self._endpoints.store,
            "FATHOM_RUNTIME_DIE_WITH_PARENT": "true",
            "FATHOM_POLICY_MODELS": json.dumps({"rules": {"engine": "rules"}}),
            "FATHOM_POLICY_TRAINED": json.dumps({"engine": "transformers", "threads": 1}),
            "FATHOM_POLICY_CACHE_DIR": str(self._folder / f"{name}-models"),
            # Ready means that it has loaded the serving version, however long that takes beside other programs.
            "FATHOM_POLICY_READY_WAIT_S": str(JOIN_WITHIN_S),
        }
        with (self._folder / f"{name}.log").open("ab") as log:
            self._processes[name] = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "fathom.services.policy", env=environ, cwd=ROOT, stdout=log, stderr=log,
                stdin=asyncio.subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip
        self._contexts.push_async_callback(stop, self._processes[name])
        url = f"grpc://127.0.0.1:{port}"
        async with asyncio.timeout(JOIN_WITHIN_S):
            await wait_until_serving("policy", url)
        self._clients[name] = connect({"policy": url})
        self._contexts.push_async_callback(self._clients[name].close)

    async def leave(self, name: str) -> None:
        """Send a replica no further calls, and let it end."""
        # First: a call that began before ends while the process drains, and none comes after.
        del self._clients[name]
        self._processes[name].terminate()
        await self._processes[name].wait()

    def doom(self, name: str) -> None:
        """Kill a replica with the next generation that is sent to it."""
        self._doomed = name


@asynccontextmanager
async def open_house(endpoints: Endpoints, folder: Path) -> AsyncIterator[tuple[Samplers, Mapping[str, str]]]:
    """One sampler with a planner of its own before it; yields the samplers and where a trainer finds its services."""
    async with AsyncExitStack() as contexts:
        # Of their own: the stack's policy would follow every version too, and nobody would ask it.
        nats = await contexts.enter_async_context(NatsServer(folder / "nats"))
        samplers = Samplers(contexts, nats.url, endpoints, folder)
        await samplers.join("first")
        runtime = Runtime(log_level="warning")
        deps = await contexts.enter_async_context(dependencies("policy", runtime))

        async def pass_on(method: str, request_id: str) -> None:
            """Let every call through."""

        clients: Any = SimpleNamespace(policy=samplers)
        door = Service("policy", Door("policy", clients, [], pass_on))
        policy = (await contexts.enter_async_context(hosting(door, deps, runtime))).url
        found = Planners(bus=nats.url, services={**endpoints.services, "policy": policy})
        await start(contexts, found, "player", folder, endpoints.store)
        yield samplers, {**found.services, "planner": found.urls["player"]}


async def train(
    endpoints: Endpoints, services: Mapping[str, str], output: Path, change: Callable[[int], Coroutine[Any, Any, None]]
) -> dict[int, Metrics]:
    """Return the metrics by step of a training that waits after each step for ``change``."""
    settings = [
        "model.hidden=16", "model.layers=1", "data.train_batch_size=2", "rollout.n=4", "actor.ppo_mini_batch_size=2",
        f"trainer.total_training_steps={STEPS}", "trainer.test_freq=0", "trainer.val_before_train=false",
        "trainer.loggers=[jsonl]", f"trainer.output={output}", f"model.name={output.name}",
    ]  # fmt: skip
    loop, seen = asyncio.get_running_loop(), dict[int, Metrics]()

    def show(step: int, total: int, metrics: Metrics) -> None:
        seen[step] = dict(metrics)
        # The training waits: which steps a replica is there for does not depend on how fast it starts.
        asyncio.run_coroutine_threadsafe(change(step), loop).result()

    place = Place(services, endpoints.store)
    await asyncio.to_thread(Run("grpo", load_settings("grpo", [EXAMPLE], settings), place, show, Interruption()).train)
    return seen


async def test_samplers_join_leave_and_are_killed_in_a_training_that_ends_as_the_quiet_one(
    stack: Stack, tmp_path: Path
) -> None:
    endpoints, _ = stack
    counts: dict[int, Counter[str]] = {}

    async with open_house(endpoints, tmp_path) as (samplers, services):

        async def leave_alone(step: int) -> None:
            """Change nothing."""

        async def come_and_go(step: int) -> None:
            counts[step] = Counter(samplers.sampled)
            samplers.sampled.clear()
            if step == 2:
                await samplers.join("second")
            if step == 4:
                await samplers.leave("first")
            if step == 5:
                await samplers.join("third")
                samplers.doom("second")

        quiet = await train(endpoints, services, tmp_path / "tiny-alone", leave_alone)
        samplers.sampled.clear()
        changed = await train(endpoints, services, tmp_path / "tiny-elastic", come_and_go)
    assert list(changed) == list(quiet) == list(range(1, STEPS + 1))
    for step, metrics in quiet.items():
        for name in SAME:
            assert changed[step].get(name) == metrics.get(name), (step, name)
        assert changed[step]["mismatch/prob_diff/max"] < 1e-3, "each sampler has the step's own weights"
    assert [set(counts[step]) for step in (1, 2)] == [{"first"}] * 2
    assert [set(counts[step]) for step in (3, 4)] == [{"first", "second"}] * 2, "the joining one is sampled from"
    assert set(counts[5]) == {"second"}, "and goes on alone"
    assert set(counts[6]) == {"second", "third"}, "until it is killed in the midst of a step"
    assert counts[6]["second"] == 1, "with its first generation, which another one makes anew"
    assert set(counts[7]) == {"third"}
