"""The view of an episode in one round, and the ``Window`` interface that selects it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from fathom.domain.chat.messages import Message, ToolSpec
from fathom.services.planner.model.compaction import Compaction
from fathom.services.planner.model.episode import Episode


@dataclass(frozen=True)
class View:
    """Messages of a request; the first ``covered`` of them are already tokenized as ``token_ids``, verbatim."""

    messages: tuple[Message, ...]
    token_ids: Sequence[int] = ()
    covered: int = 0
    compaction: Compaction | None = None
    """Record of the compaction that produced this view."""
    tokens: int = 0
    """Tokens of the request; 0 when not measured."""


class Window(Protocol):
    """Strategy that selects the view of a round; raises ``FathomError``."""

    async def view(self, episode: Episode, new: Sequence[Message], tools: Sequence[ToolSpec]) -> View: ...

    async def room(self) -> int:
        """Return the largest size of a request in tokens; 0 when unknown."""
        ...

    async def shrink(self, tokens: int) -> None:
        """Take a window of at most so many tokens from now on; 0 leaves it as it is."""
        ...


@dataclass(frozen=True)
class FullWindow:
    """Window without compaction: all messages, or the result of an earlier compaction."""

    tokens: int = 0

    async def room(self) -> int:
        return self.tokens

    async def view(self, episode: Episode, new: Sequence[Message], tools: Sequence[ToolSpec]) -> View:
        return View((*episode.visible, *new), episode.token_ids, episode.covered)

    async def shrink(self, tokens: int) -> None:
        """Do nothing: all messages are shown."""
