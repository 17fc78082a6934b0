"""Replicas behind one URL: who gets which conversation, and what happens when one is ill or crowded."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator

import pytest
from google.protobuf.message import Message

from fathom.api.policy.v1 import policy_pb2 as pb
from fathom.call import Call
from fathom.clients.sticky import DOWN_S, StickyTransport, affinity, one
from fathom.errors import DependencyFailed
from fathom.rpc.contract import Method, contract

GENERATE = contract("policy").methods["Generate"]


class Fake:
    """Answers with its name, or fails."""

    def __init__(self, name: str) -> None:
        self.name, self.ill, self.closed = name, False, False

    async def unary(self, method: Method, request: Message, call: Call) -> Message:
        raise AssertionError("streams only")

    async def stream(
        self, method: Method, requests: AsyncIterator[Message], call: Call
    ) -> AsyncGenerator[Message, None]:
        async for _ in requests:
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
        self.sticky = StickyTransport(list(self.fakes.items()), lambda: self.now)

    async def ask(self, request: pb.GenerateRequest) -> str:
        [answer] = [item async for item in self.sticky.stream(GENERATE, one(request), Call.new())]
        assert isinstance(answer, pb.GenerateResponse)
        return answer.delta.text


def turn(conversation: int, turns: int = 1) -> pb.GenerateRequest:
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
    assert min(Counter(places.values()).values()) > 60


async def test_only_what_belonged_to_a_lost_replica_moves() -> None:
    before, after = Replicas("abc"), Replicas("ab")
    for index in range(100):
        place = await before.ask(turn(index))
        moved = await after.ask(turn(index))
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
    assert max(Counter(taken).values()) <= 14
    assert len(set(taken)) == 3


async def test_calls_without_a_conversation_go_where_the_least_is_in_flight() -> None:
    replicas = Replicas()
    assert affinity(pb.ListModelsRequest()) == ""
    for _ in range(6):
        replicas.sticky.pick("").in_flight += 1
    assert {replica.in_flight for replica in replicas.sticky._replicas} == {2}
    await replicas.sticky.close()
    assert all(fake.closed for fake in replicas.fakes.values())
