"""Dispatch of workflow stages to the reference policy, by stage name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from fathom.protocol.messages import Message, Role
from fathom.protocol.pipeline import COMPOSE, PLAN, REFLECT, REWRITE, Asked, read_ask
from services.policy.backends.rules.stages.composing import answer
from services.policy.backends.rules.stages.planning import plan
from services.policy.backends.rules.stages.reflecting import supplement
from services.policy.backends.rules.stages.rewriting import rewritten

STAGES: Mapping[str, Callable[[Asked], str]] = {
    REWRITE: rewritten,
    PLAN: plan,
    REFLECT: supplement,
    COMPOSE: answer,
}


def stage_text(messages: Sequence[Message]) -> str | None:
    """Return the stage's output; None when the conversation is not a stage. A correction gets the same answer again."""
    for message in messages:
        if message.role is Role.USER:
            asked = read_ask(message.content)
            return STAGES[asked.stage](asked) if asked is not None else None
    return None
