"""What the model is shown of an episode in one round."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from fathom.protocol.messages import Message, ToolSpec
from services.planner.model import Episode
from services.planner.window.record import Compaction


@dataclass(frozen=True)
class View:
    """``messages`` of which the first ``covered`` are the ``token_ids`` already, verbatim."""

    messages: tuple[Message, ...]
    token_ids: Sequence[int] = ()
    covered: int = 0
    compaction: Compaction | None = None
    """What was done to earlier messages for this view."""
    tokens: int = 0
    """Tokens of the request; 0 when nobody measured."""


class Window(Protocol):
    """Chooses the view of a round; raises ``FathomError``."""

    async def view(self, episode: Episode, new: Sequence[Message], tools: Sequence[ToolSpec]) -> View: ...

    async def room(self) -> int:
        """Tokens that a request may have; 0 when nobody says."""
        ...


@dataclass(frozen=True)
class Everything:
    """All that was said, or what an earlier compaction left of it."""

    tokens: int = 0

    async def room(self) -> int:
        return self.tokens

    async def view(self, episode: Episode, new: Sequence[Message], tools: Sequence[ToolSpec]) -> View:
        return View((*episode.visible, *new), episode.token_ids, episode.covered)
