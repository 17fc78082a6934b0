"""Two hours of a department at work, whose requests are made as fast as the machine bears them.

40 people ask a question every eight minutes, through the page's HTTP or over gRPC: half of them of the data, in
conversations of five turns, every tenth of a table that they upload; half of a model that computes, searches and looks
things up. Around each they read what the page shows, every fourth loses its stream in the middle. Beside them a training
takes a step of 16 episodes every two minutes.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, TypeVar

import httpx

from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.api.planner.v1 import trajectory_pb2 as trajectory
from fathom.api.retrieval.v1 import retrieval_pb2 as retrieval
from fathom.clients import Clients
from fathom.clients.runs import run
from fathom.core.errors import FathomError
from tests.bench.chaos.model import CountingModel, make_question
from tests.bench.chaos.traffic import PATIENCE_S, PERSON_ROUNDS, Account, Trainer, find_wrong_answer
from tests.golden.agent.schema import load_questions

HOURS, PEOPLE, QUESTION_EVERY_MIN = 2.0, 40, 8
QUESTIONS = int(HOURS * 60 / QUESTION_EVERY_MIN) * PEOPLE
# A training that takes a step of 16 episodes every two minutes: 120 rollouts of 8.
EPISODES, ROUNDS = int(HOURS * 60 / 2) * 16, 10
TURNS, UPLOADS_EVERY, BREAKS_EVERY = 5, 10, 4
# So many people wait for an answer at once; on two cores more only wait for one another.
AT_ONCE = 8
COMPANIES = (
    "Apple",
    "Microsoft",
    "Walmart",
    "Pfizer",
    "Merck",
    "Chevron",
    "Home Depot",
    "Best Buy",
    "PepsiCo",
    "NVIDIA",
)
MEASURES = ("maximum drawdown", "annualised volatility", "total return", "Sharpe ratio")
REQUEST_S = 120.0
Found = TypeVar("Found")
# A round that searches, among those of the counting model.
SEARCHES_EVERY = 5


class SearchingModel(CountingModel):
    """Searches the documents in some rounds, besides what it does else."""

    def _choose_call(self, messages: Any, rounds: int, number: int) -> tuple[str, dict[str, Any]]:
        name, arguments = super()._choose_call(messages, rounds, number)
        if name == "think" and number % SEARCHES_EVERY == 2:
            return "search", {"query": f"interest rates {len(str(messages)) % 50}"}
        return name, arguments


@dataclass
class Played:
    """Traffic played so far, of so many hours' worth."""

    planned_hours: float = HOURS
    account: Account = field(default_factory=Account)
    """Of the training's episodes."""
    counts: Counter[str] = field(default_factory=Counter)
    refused: list[str] = field(default_factory=list)
    """Reads and uploads that were refused or late: counted, and no end of the bench."""
    failed: list[str] = field(default_factory=list)
    """Questions without the answer that they should have."""

    @property
    def hours(self) -> float:
        """Return how many hours the questions and episodes so far are worth."""
        share = (self.counts["questions"] / QUESTIONS + self.account.samples / EPISODES) / 2
        return HOURS * share


class Department:
    """People who ask, one question after the other, and a training beside them."""

    def __init__(self, clients: Clients, gateway: httpx.AsyncClient, trainer: Trainer, played: Played) -> None:
        self._clients, self._gateway, self._trainer, self._played = clients, gateway, trainer, played
        self._random = random.Random(7)
        self._golden = [question.ask for question in load_questions()]
        self._next = 0

    async def work(self, limit_s: float) -> None:
        """Play the planned hours, or what can be played of them in so many seconds."""
        until = time.monotonic() + limit_s
        share = self._played.planned_hours / HOURS
        questions, episodes = int(QUESTIONS * share), int(EPISODES * share)
        async with asyncio.TaskGroup() as working:
            for _ in range(AT_ONCE):
                working.create_task(self._ask_until(questions, until))
            working.create_task(
                self._trainer.train(lambda: self._played.account.samples >= episodes or time.monotonic() > until)
            )

    async def _ask_until(self, questions: int, until: float) -> None:
        while self._next < questions and time.monotonic() < until:
            self._next += 1
            await self._ask(self._next - 1)

    async def _ask(self, number: int) -> None:
        """Ask a question and read around it as the page does."""
        name = f"run_soak{number:05d}"
        body: dict[str, Any] = {"request_id": name}
        is_counted = number % 2 == 0
        if is_counted:
            body |= {"question": make_question(PERSON_ROUNDS, name), "model": "scripted", "protocol": "research"}
        else:
            person = (number // 2) % PEOPLE
            talk = number // 2 // PEOPLE // TURNS
            body |= {"question": self._make_question(number), "conversation_id": f"conv_soak{person}-{talk}"}
        if number % UPLOADS_EVERY == 1 and (sheet := await self._read("uploads", lambda: self._upload(number))):
            body |= {"question": "What is the maximum drawdown of my prices?", "table_ids": [sheet]}
            body.pop("conversation_id", None)
        try:
            ask = self._ask_by_page if number % 3 else self._ask_by_grpc
            answer = await ask(name, body, is_broken=number % BREAKS_EVERY == 3)
            wrong = find_wrong_answer(answer, PERSON_ROUNDS) if is_counted else ""
        except (FathomError, httpx.HTTPError, TimeoutError, LookupError) as error:
            wrong = f"{type(error).__name__} {error}"
        self._played.counts["questions"] += 1
        self._played.failed += [f"{name}: {wrong}"] if wrong else []
        await self._look_around(name, body.get("conversation_id", ""))

    def _make_question(self, number: int) -> str:
        """Return one of the written questions, or one that nobody has asked yet."""
        if number % 4 == 1:
            return self._golden[number // 4 % len(self._golden)]
        first, second = self._random.sample(COMPANIES, 2)
        since = self._random.randrange(2000, 2018)
        measure = self._random.choice(MEASURES)
        return f"Compare the {measure} of {first} and {second} from {since} to {since + self._random.randrange(1, 5)}"

    async def _ask_by_grpc(self, name: str, body: dict[str, Any], *, is_broken: bool) -> str:
        """Ask over gRPC and return the answer; a stream that is broken is taken up again by its name."""
        body = {**body, "protocol": trajectory.PROTOCOL_RESEARCH} if "protocol" in body else body
        request = pb.RunRequest(**body)
        if is_broken:
            async with aclosing(self._clients.planner.run(request, timeout_s=REQUEST_S)) as responses:
                await anext(responses)
            self._played.counts["streams left"] += 1
        async with aclosing(run(self._clients, request, patience_s=PATIENCE_S)) as events:
            return [event.finished.answer.markdown async for event in events if event.HasField("finished")][-1]

    async def _ask_by_page(self, name: str, body: dict[str, Any], *, is_broken: bool) -> str:
        """Ask as the page does, and return the answer; a stream that is broken goes on behind its last event."""
        (await self._gateway.post("/v1/runs", json=body)).raise_for_status()
        after, answers = 0, list[str]()
        while not answers:
            async with self._gateway.stream("GET", f"/v1/runs/{name}/events", params={"after": after}) as response:
                response.raise_for_status()
                async for line in response.aiter_lines():
                    event = json.loads(line.removeprefix("data: ")) if line.startswith("data: ") else {}
                    after = max(after, int(event.get("sequence", 0)))
                    answers += [event["finished"].get("answer", {}).get("markdown", "")] if "finished" in event else []
                    if is_broken and after > 2:
                        break
            self._played.counts["streams left"] += is_broken
            is_broken = False
        return answers[-1]

    async def _upload(self, number: int) -> str:
        """Upload a table of prices, and return its name."""
        rows = [f"{2000 + day // 360}-{day // 30 % 12 + 1:02d}-{day % 30 % 28 + 1:02d}" for day in range(720)]
        prices = [f"{day},{100 + (number * 37 + at * 7) % 90:.2f}" for at, day in enumerate(dict.fromkeys(rows))]
        content = "\n".join(["date,price", *prices]).encode()
        found = await self._gateway.post("/v1/tables", params={"name": f"prices{number}.csv"}, content=content)
        found.raise_for_status()
        sheet = str(found.json()["sheet"]["id"])
        await self._get(f"/v1/tables/{sheet}", limit=50)
        return sheet

    async def _look_around(self, name: str, conversation: str) -> None:
        """Read what the page shows beside an answer."""
        await self._read("lists", lambda: self._get("/v1/runs", page_size=20))
        await self._read("records", lambda: self._get(f"/v1/runs/{name}"))
        await self._read("models", lambda: self._get("/v1/models"))
        await self._read("searches", self._search)
        if conversation:
            await self._read("conversations", lambda: self._get(f"/v1/conversations/{conversation}"))

    async def _search(self) -> None:
        query = f"{self._random.choice(MEASURES)} of {self._random.choice(COMPANIES)}"
        await self._clients.retrieval.search(retrieval.SearchRequest(queries=[query], top_k=5), timeout_s=REQUEST_S)

    async def _get(self, path: str, **parameters: Any) -> None:
        (await self._gateway.get(path, params=parameters)).raise_for_status()

    async def _read(self, kind: str, read: Callable[[], Awaitable[Found]]) -> Found | None:
        """Read, and count it; count a refused or late one, and return None."""
        self._played.counts[kind] += 1
        try:
            return await read()
        except (FathomError, httpx.HTTPError) as error:
            self._played.refused.append(f"{kind}: {type(error).__name__} {error}"[:200])
            return None
