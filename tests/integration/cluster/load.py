"""Users of a release, as a program that runs in a pod: ``python3 -m tests.integration.cluster.load PREFIX SANDBOXES``.

Each user repeats one operation through Fathom's own clients and writes a line per operation: which, when, how long, and
what went wrong. What a user may do again without being asked, a client of the product does: calls are retried by the
clients, a run is followed to its end, a session that is lost is opened again, an event stream is taken up where it broke.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import aiohttp

from fathom.api.datafetch.v1 import datafetch_pb2 as datafetch
from fathom.api.memory.v1 import memory_pb2 as memory
from fathom.api.planner.v1 import planner_pb2 as planner
from fathom.api.policy.v1 import policy_pb2 as policy
from fathom.api.retrieval.v1 import retrieval_pb2 as retrieval
from fathom.api.reward.v1 import reward_pb2 as reward
from fathom.api.sandbox.v1 import sandbox_pb2 as sandbox
from fathom.clients import Clients, connect
from fathom.clients.runs import run
from fathom.core.errors import DependencyFailed, FathomError, NotFound, SessionLost
from fathom.core.ids import new_id
from fathom.core.retry import RetryPolicy

SERVICES = ("planner", "policy", "retrieval", "datafetch", "memory", "reward")
USERS = frozenset({*SERVICES, "sandbox", "question", "gateway"})
"""Names of the operations, each of which has one user."""
QUESTION = "What was the maximum drawdown of Apple in 2020?"
PAUSE_S = 0.2
TIMEOUT_S = 180.0
# A browser waits a few seconds before it takes a stream up again; less finds more.
RECONNECT_S = 0.5
# Three of the gateway's pings, as for the page: a stream without them has no other end any more.
SILENCE_S = 30.0
SESSION_CELLS, CELL_PAUSE_S = 12, 0.25
Operation = Callable[[], Awaitable[str]]


class Wrong(Exception):
    """An answer that is not what it has to be."""


def note(what: str, began: float, seconds: float, **more: object) -> None:
    print(json.dumps({"what": what, "began": began, "seconds": round(seconds, 3), **more}), flush=True)


async def user(what: str, operation: Operation, stop: asyncio.Event) -> None:
    """Repeats an operation until told to stop; the operation gives what it had to mend, empty for nothing."""
    while not stop.is_set():
        began, watch = time.time(), time.monotonic()
        try:
            mended = await operation()
        except (FathomError, Wrong, aiohttp.ClientError, TimeoutError) as error:
            note(what, began, time.monotonic() - watch, error=f"{type(error).__name__}: {error}")
        else:
            note(what, began, time.monotonic() - watch, mended=mended)
        await asyncio.sleep(PAUSE_S)


async def ask(clients: Clients) -> str:
    """A question to its answer; its events come without gap or repeat."""
    conversation, numbers = new_id("conv"), []
    async for event in run(clients, planner.RunRequest(question=QUESTION, conversation_id=conversation)):
        # A run that waits tells its place first, which is no event of its log.
        if event.sequence or not event.HasField("waiting"):
            numbers.append(event.sequence)
    if numbers != list(range(1, len(numbers) + 1)):
        raise Wrong(f"events {numbers}")
    if not event.finished.HasField("answer") or not event.finished.answer.cited:
        raise Wrong(f"{event.finished.stop_reason} {event.finished.culprit} {event.finished.error}")
    turns = await clients.memory.list_turns(memory.ListTurnsRequest(conversation_id=conversation))
    if len(turns.turns) != 1:
        raise Wrong(f"{len(turns.turns)} turns are remembered")
    return ""


async def browse(base: str, question: str = QUESTION, silence_s: float = SILENCE_S) -> str:
    """A question over HTTP, as the page asks it: the event stream is taken up where it breaks or falls silent."""
    timeout = aiohttp.ClientTimeout(total=TIMEOUT_S, sock_read=silence_s)
    headers = {"host": "localhost", "authorization": f"Bearer {os.environ['FATHOM_GATEWAY_TOKEN']}"}
    async with aiohttp.ClientSession(headers=headers, timeout=timeout) as session:
        reader = Reader(session, base, new_id("run"), question)
        try:
            async with asyncio.timeout(TIMEOUT_S):
                while not (reader.begun and reader.finished):
                    await reader.go_on()
        except TimeoutError:
            raise Wrong(f"not finished after {TIMEOUT_S:g} s: {reader}") from None
        if not reader.finished.get("answer", {}).get("cited"):
            raise Wrong(str(reader.finished)[:400])
        return f"{reader.broken} broken connections" if reader.broken else ""


@dataclass
class Reader:
    """A page that follows a run."""

    session: aiohttp.ClientSession = field(repr=False)
    base: str
    run_id: str
    question: str = QUESTION
    begun: bool = False
    last: int = 0
    pings: int = 0
    broken: int = 0
    finished: dict[str, Any] = field(default_factory=dict)

    async def go_on(self) -> None:
        """Begin or follow the run until its end or a broken connection; a page then tries again, as long as it is open.

        A silent connection is a broken one.
        """
        try:
            await (self.read() if self.begun else self.begin())
        except (aiohttp.ClientConnectionError, aiohttp.ClientPayloadError):
            self.broken += 1
            await asyncio.sleep(RECONNECT_S)

    async def begin(self) -> None:
        body = {"question": self.question, "request_id": self.run_id}
        async with self.session.post(f"{self.base}/v1/runs", json=body) as response:
            if response.status >= 300:
                raise Wrong(f"POST: {response.status} {await response.text()}")
            self.begun = True

    async def read(self) -> None:
        """Reads to the end of the stream; one that ends before the run is broken."""
        headers = {"Last-Event-ID": str(self.last)} if self.last else {}
        async with self.session.get(f"{self.base}/v1/runs/{self.run_id}/events", headers=headers) as response:
            async for line in response.content:
                self.pings += line.startswith(b"event: ping")
                event = json.loads(line[5:]) if line.startswith(b"data:") else {}
                if not event:
                    continue
                # A run that waits tells its place first, which is no event of its log.
                if "waiting" in event and not int(event["sequence"]):
                    continue
                if int(event["sequence"]) != self.last + 1:
                    raise Wrong(f"event {event['sequence']} after {self.last}")
                self.last += 1
                self.finished = event.get("finished", {})
                if self.finished:
                    return
        raise aiohttp.ClientPayloadError("the stream ended before the run")


async def compute(clients: Clients) -> str:
    """A session whose cells build on each other; one that is lost is opened again and its cells are repeated."""
    cells = ["x = 0", *(["x += 1"] * (SESSION_CELLS - 2)), "print(x)"]
    lost: list[str] = []
    while True:
        try:
            created = await clients.sandbox.create_session(sandbox.CreateSessionRequest(request_id=new_id("req")))
            for code in cells:
                said = await cell(clients, created.session_id, code)
                await asyncio.sleep(CELL_PAUSE_S)
            await clients.sandbox.close_session(sandbox.CloseSessionRequest(session_id=created.session_id))
        except (SessionLost, NotFound, DependencyFailed) as error:
            lost.append(error.message)
            if len(lost) > 2:
                raise
            continue
        if said.strip() != str(SESSION_CELLS - 2):
            raise Wrong(f"the session gave {said!r}")
        return "; ".join(lost)


async def cell(clients: Clients, session: str, code: str) -> str:
    said, outcome = "", sandbox.Outcome()
    request = sandbox.ExecuteRequest(request_id=new_id("cell"), session_id=session, code=code)
    async for event in clients.sandbox.execute(request):
        said += event.output.text
        outcome = event.outcome if event.HasField("outcome") else outcome
    if outcome.session_lost or outcome.status == sandbox.EXECUTE_STATUS_UNSPECIFIED:
        raise SessionLost(session, outcome.cause or "the stream ended early")
    if outcome.status != sandbox.EXECUTE_STATUS_OK:
        raise Wrong(f"{outcome.error_name} {outcome.error_value} {outcome.cause}")
    return said


async def search(clients: Clients) -> str:
    found = await clients.retrieval.search(retrieval.SearchRequest(queries=["maximum drawdown"], top_k=3))
    if not found.results or not found.results[0].hits:
        raise Wrong("nothing was found")
    return ""


async def fetch(clients: Clients) -> str:
    request = datafetch.QueryRequest(question="Apple adjusted close 2020", request_id=new_id("req"))
    if not (await clients.datafetch.query(request)).sheets:
        raise Wrong("no sheet")
    return ""


async def remember(clients: Clients) -> str:
    conversation = new_id("conv")
    turn = memory.Turn(question="q", answer="a", run_id=new_id("run"))
    request = memory.AppendTurnRequest(request_id=new_id("req"), conversation_id=conversation, turn=turn)
    await clients.memory.append_turn(request)
    if len((await clients.memory.get_window(memory.GetWindowRequest(conversation_id=conversation))).turns) != 1:
        raise Wrong("the turn is not there")
    return ""


async def models(clients: Clients) -> str:
    if not (await clients.policy.list_models(policy.ListModelsRequest())).models:
        raise Wrong("no model")
    return ""


async def tools(clients: Clients) -> str:
    if not (await clients.planner.list_tools(planner.ListToolsRequest())).tools:
        raise Wrong("no tool")
    return ""


async def graders(clients: Clients) -> str:
    if not (await clients.reward.list_graders(reward.ListGradersRequest())).graders:
        raise Wrong("no grader")
    return ""


def connect_services(prefix: str, sandboxes: int) -> Clients:
    """Return clients of a release's services, by the names that its pods have for each other."""
    endpoints = {name: f"grpc://{prefix}-{name}:50051" for name in SERVICES}
    pods = [f"{prefix}-sandbox-{ordinal}.{prefix}-sandbox:50051" for ordinal in range(sandboxes)]
    return connect({**endpoints, "sandbox": f"grpc://{','.join(pods)}"}, policy=RetryPolicy(attempts=20))


def operations(prefix: str, sandboxes: int) -> dict[str, Operation]:
    """By name: ``service`` alone is a call to it, the others are journeys through several."""
    clients = connect_services(prefix, sandboxes)
    calls = {
        "planner": tools, "policy": models, "retrieval": search, "datafetch": fetch, "memory": remember,
        "reward": graders, "sandbox": compute, "question": ask,
    }  # fmt: skip
    return {
        **{name: partial(call, clients) for name, call in calls.items()},
        "gateway": partial(browse, f"http://{prefix}-gateway"),
    }


async def main(prefix: str, sandboxes: str) -> None:
    """Until SIGTERM; operations that have begun are brought to their end."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    users = [user(what, operation, stop) for what, operation in operations(prefix, int(sandboxes)).items()]
    await asyncio.gather(*users)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
