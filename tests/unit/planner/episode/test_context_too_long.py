"""A conversation that a model finds too long is compacted once, and then ends with what was found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest

from fathom.core.errors import ContextTooLong
from fathom.domain.chat.messages import Completion, Message, ToolSpec
from fathom.services.planner.episode.agent import AgentLoop
from fathom.services.planner.episode.resources import EpisodeResources
from fathom.services.planner.model.episode import Episode, Outcome, Shortfall, StopReason
from fathom.services.planner.model.view import View
from fathom.services.planner.tools.registry import Registry
from fathom.services.planner.tools.think import Finish
from tests.support.observer import RecordingObserver
from tests.unit.planner.episode.test_loop import Echo, Script, echo, finish, research, task


# A window that only counts: it takes off one token of what it was asked for, down to its least.
@dataclass
class Shrinkable:
    """A window whose requests have the tokens that it may take."""

    tokens: int = 10_000
    least: int = 1_000
    limits: list[int] = field(default_factory=list)

    async def room(self) -> int:
        return self.tokens

    async def shrink(self, tokens: int) -> None:
        self.limits.append(tokens)
        self.tokens = max(self.least, min(self.tokens, tokens or self.tokens) - 1)

    async def view(self, episode: Episode, new: Sequence[Message], tools: Sequence[ToolSpec]) -> View:
        return View((*episode.visible, *new), tokens=self.tokens)


# Endpoints count differently than we do, and some say their limit with the refusal.
class Narrow(Script):
    """A model whose window is smaller than it was counted."""

    def __init__(self, window: int, known: int, *lines: str, since: int = 0) -> None:
        super().__init__(*lines)
        self.window, self.known, self.since = window, known, since
        self.request_ids: list[str] = []

    async def generate(self, request_id: str, *rest: object) -> Completion:
        self.request_ids.append(request_id)
        view = rest[1]
        assert isinstance(view, View)
        if view.tokens > self.window and len(self.requests) >= self.since:
            raise ContextTooLong("m", self.known, "too many tokens")
        return await super().generate(request_id, *rest)  # type: ignore[arg-type]


async def play(policy: Narrow, window: Shrinkable, is_rollout: bool = False) -> Outcome:
    about = replace(task(), is_rollout=is_rollout)
    episode = Episode(about, research().opening(about))
    resources = replace(EpisodeResources(Registry([Echo(), Finish()])), window=window)
    return await AgentLoop(episode, research(), policy, resources, RecordingObserver()).run()


# The endpoint names its limit, or it does not, and then our own estimate is the bound.
@pytest.mark.parametrize(("known", "limit"), [(8_000, 8_000), (0, 10_000)])
async def test_a_request_that_is_too_long_is_made_shorter_and_sent_once_more(known: int, limit: int) -> None:
    policy, window = Narrow(9_999, known, echo("a"), finish("Done.")), Shrinkable()
    outcome = await play(policy, window)
    assert outcome.answer is not None
    assert (outcome.stop, window.limits) == (StopReason.FINISHED, [limit])
    first, second, *_ = policy.request_ids
    # An endpoint that keeps answers by key would return the refusal.
    assert second == f"{first}-compacted", "another request has another key"


async def test_what_stays_too_long_ends_with_what_was_found() -> None:
    policy = Narrow(500, 0, echo("a"), finish("Never."), since=1)
    outcome = await play(policy, Shrinkable())
    assert (outcome.stop, outcome.shortfall, outcome.culprit) == (StopReason.UNFINISHED, Shortfall.CONTEXT, "m")
    assert outcome.answer is not None
    assert "did not fit into the model's window" in outcome.answer.markdown
    # The first round, the one that was too long, and its shorter repetition.
    assert len(policy.request_ids) == 3


async def test_a_window_that_cannot_shrink_is_not_asked_again() -> None:
    policy = Narrow(500, 0, echo("a"), finish("Never."), since=1)
    outcome = await play(policy, Shrinkable(tokens=1_000))
    # At its least already: the same request again would only cost.
    assert (outcome.stop, len(policy.request_ids)) == (StopReason.UNFINISHED, 2)


async def test_a_first_request_that_never_fits_fails_and_so_does_a_rollout() -> None:
    # Nothing was found before the first round, so there is nothing to give.
    assert (await play(Narrow(500, 0, finish("x")), Shrinkable())).stop is StopReason.FAILED
    outcome = await play(Narrow(500, 0, echo("a"), finish("x"), since=1), Shrinkable(), is_rollout=True)
    assert (outcome.stop, outcome.error_code) == (StopReason.FAILED, "INVALID_ARGUMENT")
