"""Coder of figures for tests, without a model."""

from __future__ import annotations

from dataclasses import dataclass, field

from fathom.services.planner.model.episode import Episode


@dataclass
class Coder:
    """Replies with one code, and keeps the tracebacks that it was shown."""

    code: str
    asked: list[str] = field(default_factory=list)

    async def mend(self, request_id: str, episode: Episode, code: str, traceback: str) -> str:
        self.asked.append(traceback)
        return self.code
