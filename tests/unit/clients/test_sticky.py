"""Replicas behind one URL: who gets which conversation, and what happens when one is ill or crowded."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import aclosing

import pytest
from google.protobuf.message import Message

from fathom.api.policy.v1 import policy_pb2 as pb
from fathom.api.sandbox.v1 import sandbox_pb2 as sandbox
from fathom.clients.sticky import DOWN_S, StickyTransport, affinity
from fathom.core.call import Call
from fathom.core.errors import DependencyFailed, NotFound, SessionLost
from fathom.transport.rpc.contract import Method, contract

GENERATE = contract("policy").methods["Generate"]
CREATE, EXECUTE = (contract("sandbox").methods[name] for name in ("CreateSession", "Execute"))


class Fake:
    """Answers with its name, or fails."""

    def __init__(self, name: str) -> None:
        self.name, self.ill, self.closed = name, False, False

    async def unary(self, method: Method, request: Message, call: Call) -> Message:
        raise AssertionError("streams only")

    async def stream(self, method: Method, request: Message, call: Call) -> AsyncGenerator[Message, None]:
        if self.ill:
            raise DependencyFailed(self.name, "is ill")
        yield pb.GenerateResponse(delta=pb.GenerateDelta(text=self.name))

    async def close(self) -> None:
        self.closed = True


class Replicas:
    """Three of them, and a clock that stands still."""

    def __init__(self, names: str = "abc") -> None:
        self.now = 0.0
        self.fakes = {name: Fake(name) for name in names}
        self.sticky = StickyTransport(list(self.fakes.items()), lambda: self.now)  # type: ignore[arg-type]

    async def ask(self, request: pb.GenerateRequest) -> str:
        [answer] = [item async for item in self.sticky.stream(GENERATE, request, Call.new())]
        assert isinstance(answer, pb.GenerateResponse)
        return answer.delta.text


def turn(conversation: int, turns: int = 1) -> pb.GenerateRequest:
    # A conversation is known by its opening, which later turns repeat.
    messages = [pb.Message(role=pb.ROLE_SYSTEM, content="s"), pb.Message(role=pb.ROLE_USER, content=str(conversation))]
    for index in range(turns - 1):
        messages.append(pb.Message(role=pb.ROLE_ASSISTANT, content=f"answer {index}"))
        messages.append(pb.Message(role=pb.ROLE_TOOL, content=f"result {index}"))
    return pb.GenerateRequest(request_id=f"{conversation}-{turns}", messages=messages)


async def test_all_turns_go_to_one_replica_and_conversations_are_spread() -> None:
    replicas, again = Replicas(), Replicas()
    places = {index: await replicas.ask(turn(index)) for index in range(300)}
    for index, place in places.items():
        assert {await replicas.ask(turn(index, turns)) for turns in (2, 3, 7)} == {place}
        assert await again.ask(turn(index)) == place  # another client agrees
    # 300 over three replicas are 100 each; rendezvous hashing spreads unevenly, but not so.
    assert min(Counter(places.values()).values()) > 60


async def test_only_what_belonged_to_a_lost_replica_moves() -> None:
    before, after = Replicas("abc"), Replicas("ab")
    for index in range(100):
        place = await before.ask(turn(index))
        moved = await after.ask(turn(index))
        # Who was on a or b stays there: only c's conversations move.
        assert moved == place or place == "c"


async def test_an_ill_replica_is_left_alone_for_a_while() -> None:
    replicas = Replicas()
    place = await replicas.ask(turn(1))
    replicas.fakes[place].ill = True
    with pytest.raises(DependencyFailed):
        await replicas.ask(turn(1))
    elsewhere = await replicas.ask(turn(1, 2))  # as the client's next attempt
    assert elsewhere != place
    replicas.fakes[place].ill = False
    # Cured, but still within the time for which it is left alone.
    assert await replicas.ask(turn(1, 3)) == elsewhere
    replicas.now += DOWN_S
    assert await replicas.ask(turn(1, 4)) == place


async def test_when_all_are_ill_one_is_asked_nevertheless() -> None:
    replicas = Replicas()
    for fake in replicas.fakes.values():
        fake.ill = True
    for _ in range(4):
        with pytest.raises(DependencyFailed):
            await replicas.ask(turn(1))


async def test_a_crowded_replica_passes_on() -> None:
    """The same opening thirty times at once, as a group of rollouts: no replica gets all of it."""
    replicas = Replicas()
    taken = []
    for _ in range(30):
        replica = replicas.sticky.pick(affinity(turn(1)))
        replica.in_flight += 1
        taken.append(replica.name)
    # Bounded at 1.25 times the mean: 13 of 30, and one for rounding.
    assert max(Counter(taken).values()) <= 14
    assert len(set(taken)) == 3


async def test_calls_without_a_conversation_go_where_the_least_is_in_flight() -> None:
    replicas = Replicas()
    assert affinity(pb.ListModelsRequest()) == ""
    for _ in range(6):
        replicas.sticky.pick("").in_flight += 1
    # Six calls over three replicas, by the least in flight.
    assert {replica.in_flight for replica in replicas.sticky._replicas} == {2}
    await replicas.sticky.close()
    assert all(fake.closed for fake in replicas.fakes.values())


class Pod:
    """A replica of the sandbox: knows its own sessions, or is out of reach."""

    def __init__(self, name: str) -> None:
        self.name, self.gone, self.sessions, self.asked = name, False, set[str](), 0

    async def unary(self, method: Method, request: Message, call: Call) -> Message:
        async with aclosing(self.stream(method, request, call)) as responses:
            return await anext(responses)

    async def stream(self, method: Method, request: Message, call: Call) -> AsyncGenerator[Message, None]:
        self.asked += 1
        if self.gone:
            raise DependencyFailed("sandbox", "cannot be reached")
        if isinstance(request, sandbox.CreateSessionRequest):
            session = f"{self.name}/{request.request_id}"
            self.sessions.add(session)
            yield sandbox.CreateSessionResponse(session_id=session)
        elif isinstance(request, sandbox.ExecuteRequest):
            # Knows no other pod's sessions, as real ones do not.
            if request.session_id not in self.sessions:
                raise NotFound("session", request.session_id)
            yield sandbox.ExecuteResponse(output=sandbox.OutputChunk(text=self.name))

    async def close(self) -> None:
        pass


class Sandboxes:
    """Three pods and a client of them."""

    def __init__(self, *pods: Pod) -> None:
        self.pods = {pod.name: pod for pod in pods or [Pod(name) for name in "abc"]}
        self.client = StickyTransport(list(self.pods.items()))  # type: ignore[arg-type]

    async def create(self, request_id: str) -> str:
        request = sandbox.CreateSessionRequest(request_id=request_id)
        created = await self.client.unary(CREATE, request, Call.new())
        assert isinstance(created, sandbox.CreateSessionResponse)
        return created.session_id

    async def execute(self, session: str) -> str:
        request = sandbox.ExecuteRequest(session_id=session)
        [event] = [item async for item in self.client.stream(EXECUTE, request, Call.new())]
        assert isinstance(event, sandbox.ExecuteResponse)
        return event.output.text


async def test_calls_about_a_session_go_to_the_pod_that_has_it() -> None:
    found = Sandboxes()
    sessions = [await found.create(f"run-{number}") for number in range(12)]
    assert len({session[0] for session in sessions}) == 3, "sessions are shared out"
    for session in sessions:
        assert await found.execute(session) == session[0]
    # Twelve openings and twelve calls.
    assert sum(pod.asked for pod in found.pods.values()) == 24, "nobody was asked in vain"


async def test_another_client_finds_the_pod_of_a_session_and_repeats_its_opening_there() -> None:
    first = Sandboxes()
    session = await first.create("run-1")
    second = Sandboxes(*first.pods.values())
    assert await second.execute(session) == session[0]
    asked = sum(pod.asked for pod in first.pods.values())
    await second.execute(session)
    # The first call asked around; the second went straight there.
    assert sum(pod.asked for pod in first.pods.values()) == asked + 1, "it is remembered"
    # The same opening from a third client: by its request id it belongs to the same pod.
    assert await Sandboxes(*first.pods.values()).create("run-1") == session


async def test_a_session_is_lost_with_its_pod_and_a_new_one_opens_elsewhere() -> None:
    found = Sandboxes()
    session = await found.create("run-1")
    found.pods[session[0]].gone = True
    with pytest.raises(SessionLost, match="cannot be reached"):
        await found.execute(session)
    again = await found.create("run-1")
    assert again[0] != session[0]
    assert await found.execute(again) == again[0]


async def test_a_closed_session_is_not_found_anywhere() -> None:
    with pytest.raises(NotFound):
        await Sandboxes().execute("nowhere/run-1")
