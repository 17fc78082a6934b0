"""Token ids of a conversation with their loss mask: as sampled, or rendered by the policy service."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from fathom.api.policy.v1 import policy_pb2 as policy
from fathom.clients import Clients
from fathom.core.errors import FathomError, InvalidField, NotReady
from fathom.core.retry import RetryPolicy, retry
from fathom.trainers.data.export.choose import NotTrainable
from fathom.trainers.data.export.conversation import Conversation

STAND_INS = ("a", "b")
# A stack that was started for an export loads its model at the first request: some seconds, minutes where its package
# has to be unpacked first.
LOADING = RetryPolicy(attempts=300, first_delay_s=1.0, max_delay_s=1.0)


@dataclass(frozen=True)
class Tokens:
    """Token ids with a loss mask, 1 on training targets; ``exact`` is True for ids exactly as sampled."""

    ids: tuple[int, ...]
    mask: tuple[int, ...]
    exact: bool

    def __post_init__(self) -> None:
        if len(self.ids) != len(self.mask):
            raise InvalidField("mask", f"has {len(self.mask)} places for {len(self.ids)} ids")


class Renderer(Protocol):
    """Interface to a model's chat template and tokenizer."""

    async def ids(self, messages: Sequence[policy.Message], *, prompt: bool, tools: bool) -> list[int]:
        """Return the ids of the messages.

        ``prompt`` appends the generation prompt, ``tools`` includes the tool specifications.
        """
        ...


@dataclass(frozen=True)
class PolicyRenderer:
    """Renderer backed by the policy service, so that training uses the same template and tokenizer as serving."""

    clients: Clients
    model: str
    tools: Sequence[policy.ToolSpec] = ()

    async def ids(self, messages: Sequence[policy.Message], *, prompt: bool, tools: bool) -> list[int]:
        request = policy.TokenizeRequest(
            model=self.model, messages=messages, tools=self.tools if tools else (), add_generation_prompt=prompt
        )
        tokenized = await retry(lambda: self.clients.policy.tokenize(request), LOADING, is_retryable=is_loading)
        return list(tokenized.token_ids)


def is_loading(error: FathomError) -> bool:
    """Return whether a model is not there yet."""
    return isinstance(error, NotReady)


def read_sampled_ids(conversation: Conversation, model: str = "") -> Tokens | None:
    """Return the ids as sampled; None when they are another model's, or not exact.

    Raises ``NotTrainable`` when the ids of its steps are not those of one segment of the record: a model would learn to
    continue what it had not seen.
    """
    learned = {item.step for item in conversation.said if item.learn}
    ids: list[int] = []
    mask: list[int] = []
    sampled: list[int] = []
    for step in conversation.steps:
        completion = step.completion
        # Another tokenizer's ids name other words: they are rendered anew instead.
        if not completion.exact or not completion.sampled_token_ids or (model and completion.model != model):
            return None
        ids += [*completion.prompt_token_ids, *completion.sampled_token_ids]
        given, own = len(completion.prompt_token_ids), len(completion.sampled_token_ids)
        mask += [0] * given + [int(step.index in learned)] * own
        sampled += [0] * given + [1] * own
    segment = conversation.segment
    if segment is None or list(segment.token_ids) != ids or list(segment.mask) != sampled:
        where = f"steps {conversation.steps[0].index} to {conversation.steps[-1].index}"
        raise NotTrainable(conversation.run_id, "segments", f"the ids of {where} are no segment of its record")
    return Tokens(tuple(ids), tuple(mask), True)


async def render_ids(conversation: Conversation, renderer: Renderer) -> Tokens:
    """Render ids with the chat template; the loss mask is derived from message boundaries, not by searching text.

    A target message carries loss on its own ids and on the first id that ends its turn, which the model must generate.
    Raises ``InvalidField`` when a longer conversation does not begin with the shorter one's ids, because boundaries are
    then unknown.
    """
    ends = await turn_end(renderer)
    ids: list[int] = []
    mask: list[int] = []
    for place, item in enumerate(conversation.said):
        if not item.learn:
            continue
        before = await renderer.ids(conversation.messages[:place], prompt=True, tools=conversation.tools)
        whole = await renderer.ids(conversation.messages[: place + 1], prompt=False, tools=conversation.tools)
        check_prefix(ids[: len(ids) - len(ends) + 1], before, conversation, place)
        check_prefix(before, whole, conversation, place)
        if not ends or whole[len(whole) - len(ends) :] != ends:
            raise InvalidField(f"messages[{place}]", "does not end as turns of this template do")
        stop = len(whole) - len(ends) + 1
        mask = [*mask[: len(before)], *[0] * (len(before) - len(mask)), *[1] * (stop - len(before))]
        mask += [0] * (len(whole) - stop)
        ids = whole
    if not any(mask):
        raise InvalidField("messages", f"{conversation.run_id} has nothing to learn")
    # Ids after the last target would be computed without being trained on.
    stop = len(mask) - mask[::-1].index(1)
    return Tokens(tuple(ids[:stop]), tuple(mask[:stop]), False)


def check_prefix(first: Sequence[int], longer: Sequence[int], conversation: Conversation, place: int) -> None:
    """Raise ``InvalidField`` unless ``longer`` begins with ``first``."""
    if list(longer[: len(first)]) != list(first):
        raise InvalidField(f"messages[{place}]", f"{conversation.run_id}: the template is not append-only here")


async def turn_end(renderer: Renderer) -> list[int]:
    """Return the ids that the template writes after an answer."""
    opening = policy.Message(role=policy.ROLE_USER, content="u")
    one, other = [
        await renderer.ids(
            [opening, policy.Message(role=policy.ROLE_ASSISTANT, content=text)], prompt=False, tools=False
        )
        for text in STAND_INS
    ]
    # Two answers without a common token share only what the template appends.
    count = 0
    while count < min(len(one), len(other)) and one[-1 - count] == other[-1 - count]:
        count += 1
    return one[len(one) - count :]
