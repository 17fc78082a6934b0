"""One key of a conversation, for clients, Ray Serve's router and the choice of a version."""

from __future__ import annotations

from fathom.api.policy.v1 import policy_pb2 as pb
from fathom.clients.sticky import affinity
from fathom.domain.chat.affinity import conversation_key, generation_key, rendezvous_weight
from fathom.domain.chat.messages import Message, Role
from fathom.domain.chat.proto import message_to_proto

OPENING = (Message(Role.SYSTEM, "Be brief."), Message(Role.USER, "What is beta?"))
ANSWER, QUESTION = Message(Role.ASSISTANT, "A slope."), Message(Role.USER, "Of what?")


def make_request(*messages: Message, model: str = "") -> pb.GenerateRequest:
    return pb.GenerateRequest(messages=[message_to_proto(message) for message in messages], model=model)


def test_all_turns_of_a_conversation_have_one_key() -> None:
    assert generation_key(make_request(*OPENING)) == generation_key(make_request(*OPENING, ANSWER, QUESTION))


def test_client_and_service_compute_the_same_key() -> None:
    request = make_request(*OPENING, ANSWER, QUESTION, model="writer")
    # Later turns have the same opening, so both sides see the same key without speaking of it.
    assert affinity(request) == conversation_key((message.role, message.content) for message in (*OPENING, ANSWER))


def test_models_and_tools_leave_the_key_as_it_is() -> None:
    request = make_request(*OPENING, model="small")
    request.tools.add(name="search", parameters_json="{}")
    assert generation_key(request) == generation_key(make_request(*OPENING))


def test_other_openings_and_other_roles_have_other_keys() -> None:
    # Joined without a separator, some of these openings would be the same text.
    keys = [[("user", "a"), ("user", "b")], [("user", "ab")], [("system", "a"), ("user", "b")], [("user", "a")]]
    assert len({conversation_key(messages) for messages in keys}) == len(keys)


def test_when_a_replica_leaves_only_its_conversations_move() -> None:
    replicas = ["a", "b", "c"]
    for key in map(str, range(50)):
        best = min(replicas, key=lambda name: rendezvous_weight(key, name))
        rest = [name for name in replicas if name != "c"]
        if best != "c":
            assert min(rest, key=lambda name: rendezvous_weight(key, name)) == best
