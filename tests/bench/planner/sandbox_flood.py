"""Users' questions that compute in the real sandbox, alone and beside 72 training episodes that do so too.

The scripted model takes ``REPLY_S`` for a reply, in which an episode holds its session, and answers all episodes at
once: the sessions decide, and neither the model's places nor this machine's processors. Seconds of a question, p50
and p99; and of the episodes, how many came back as samples, how many of them were spoilt by a failure of ours.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from pathlib import Path

from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.api.planner.v1 import trajectory_pb2 as trajectory
from fathom.clients import Clients, connect
from fathom.core.call import Lane
from fathom.services.local import LocalSettings, LocalStack
from tests.bench.chaos.chaos import HOME, lay_out
from tests.bench.chaos.model import CountingModel, make_question
from tests.bench.chaos.traffic import Account, People
from tests.integration.stack.scripted_model import entry

# Three requests of a trainer, as it was when every question beside them was refused its session.
REQUESTS, TASKS = 3, 24
ROUNDS, REPLY_S = 8, 1.5
QUESTIONS, PERSON_EVERY_S = 12, 2.0


async def train(clients: Clients, number: int, account: Account) -> None:
    """Play one request of a trainer."""
    request = pb.RolloutRequest(
        request_id=f"flood-{number}",
        tasks=[pb.RolloutTask(id=f"t{at}", question=make_question(ROUNDS, f"{number} {at}")) for at in range(TASKS)],
        group_size=1,
        protocol=trajectory.PROTOCOL_RESEARCH,
        model="scripted",
        budget=pb.Budget(max_rounds=ROUNDS + 2),
    )
    async with aclosing(clients.planner.rollout(request)) as responses:
        async for response in responses:
            item = response.trajectory
            account.check_sample((request.request_id, item.task_index, item.sample_index), item, ROUNDS)


async def ask(clients: Clients, account: Account, prefix: str, many: int = QUESTIONS) -> list[float]:
    """Return the seconds of users' questions that come one after the other, each beside those before it."""
    people = People(clients, account, prefix)
    for _ in range(many):
        people.ask()
        await asyncio.sleep(PERSON_EVERY_S)
    await people.leave()
    return people.seconds


async def measure(clients: Clients, trainers: Clients, account: Account) -> tuple[list[float], list[float]]:
    """Return the seconds of questions alone and beside the flood."""
    await ask(clients, account, "warm", 1)
    alone = await ask(clients, account, "alone")
    flood = [asyncio.create_task(train(trainers, number, account)) for number in range(REQUESTS)]
    # Behind the rush in which all episodes begin: those that hold a session now hold it while people come.
    await asyncio.sleep(REPLY_S)
    beside = await ask(clients, account, "beside")
    await asyncio.gather(*flood)
    return alone, beside


async def compare(places: Mapping[str, float]) -> tuple[float, float]:
    """Print the figures with a model that has such places; raise ``SystemExit`` when something was lost or spoilt.

    Return p50 and p99 beside the flood, each divided by that alone.
    """
    account, model = Account(), CountingModel()
    model.reply_s = REPLY_S
    with tempfile.TemporaryDirectory() as folder:
        async with model.running() as address:
            home = lay_out(Path(folder) / "home", HOME)
            models = {"rules": {"engine": "rules"}, "scripted": {**entry(address), **places}}
            async with LocalStack(LocalSettings(home=home, gateway_port=0, models=models)).running() as endpoints:
                clients, trainers = connect(endpoints.services), connect(endpoints.services, lane=Lane.TRAINING)
                alone, beside = await measure(clients, trainers, account)
                await clients.close()
                await trainers.close()
    for name, seconds in (("alone", alone), (f"beside {REQUESTS * TASKS} episodes", beside)):
        print(f"{len(seconds)} questions {name}: p50 {statistics.median(seconds):.2f} s, p99 {find_p99(seconds):.2f} s")
    print(account.describe())
    if not account.is_within_bounds():
        raise SystemExit("a bound is broken")
    return statistics.median(beside) / statistics.median(alone), find_p99(beside) / find_p99(alone)


def find_p99(seconds: Sequence[float]) -> float:
    return sorted(seconds)[int(0.99 * (len(seconds) - 1))]


async def run() -> None:
    """Needs the bundled data under ``.fathom`` (``make data``)."""
    await compare({"running": 2 * REQUESTS * TASKS})
