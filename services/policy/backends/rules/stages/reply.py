"""Dispatch of workflow stages to the reference policy, by stage name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from fathom.domain.chat.messages import Message, Role
from fathom.domain.chat.pipeline import COMPOSE, PLAN, REFLECT, REWRITE, Asked, read_ask
from fathom.services.policy.backends.rules.stages.composing import answer
from fathom.services.policy.backends.rules.stages.planning import plan
from fathom.services.policy.backends.rules.stages.reflecting import supplement

STAGES: Mapping[str, Callable[[Asked], str]] = {
    # The planner makes follow-ups whole before this policy is asked.
    REWRITE: lambda asked: asked["question"].strip(),
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
