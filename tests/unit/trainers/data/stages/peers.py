"""Models behind the real client and dispatcher: scripted ones, and the reference policy."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fathom.api.policy.v1 import policy_pb2 as policy
from fathom.clients import Clients
from fathom.core.telemetry import Telemetry
from fathom.domain.chat.proto import message_from_proto
from fathom.services.policy.backends.rules.authoring import write_reply
from fathom.services.policy.backends.rules.tokenizer import RulesTokenizer, load_vocabulary
from fathom.services.policy.reference.stages import answer_stage
from fathom.trainers.data.queries.asking import Asker
from fathom.trainers.data.stages.conversations import Conversation, Exchange
from fathom.transport.rpc.dispatch import Dispatcher
from fathom.transport.rpc.service import Service
from tests.unit.reward.scripted_policy import Reply, ScriptedPolicy


def make_asker(reply: Reply, model: str = "m") -> Asker:
    """A model that replies by a function."""
    return make_client(ScriptedPolicy(reply), model)


def make_rules() -> Asker:
    """The reference policy."""
    return make_asker(write_by_rules, "rules")


def write_by_rules(request: policy.GenerateRequest) -> str:
    """The reply of the reference policy."""
    messages = [message_from_proto(message) for message in request.messages]
    return write_reply(request.response_schema_json, messages) or answer_stage(messages) or ""


def make_client(peer: Any, model: str) -> Asker:
    """An asker of a servicer."""
    telemetry = Telemetry("test", log_level="critical")
    dispatcher = Dispatcher(Service("policy", peer), telemetry)
    dispatcher.ready = True
    return Asker(Clients({"policy": "inproc://policy"}, telemetry, dispatchers={"policy": dispatcher}), model)


def by_title(replies: Mapping[str, Any | Callable[[policy.GenerateRequest], Any]]) -> Reply:
    """A script that replies by the title of the schema: a value, or a function of the request."""

    def reply(request: policy.GenerateRequest) -> str:
        title = json.loads(request.response_schema_json or "{}").get("title", "").removeprefix("fathom.data.")
        found = replies[title]
        value = found(request) if callable(found) else found
        return value if isinstance(value, str) else json.dumps(value)

    return reply


def make_conversation(count: int = 5) -> Conversation:
    """A conversation whose answers differ by their year and figure."""
    turns = [
        Exchange(
            question=f"What was the return of Apple in {2010 + number}?",
            answer=f"The return of Apple in {2010 + number} was {10 + number}.5% [1].",
        )
        for number in range(count)
    ]
    return Conversation(turns=tuple(turns))


class RulesRenderer:
    """The chat template and the tokenizer of the reference policy."""

    def __init__(self) -> None:
        self.tokenizer = RulesTokenizer(load_vocabulary())

    async def ids(self, messages: Sequence[policy.Message], *, prompt: bool, tools: bool) -> list[int]:
        said = [message_from_proto(message) for message in messages]
        return self.tokenizer.encode(self.tokenizer.render(said, (), prompt))
