"""Conversations from which follow-ups are made: JSON Lines of earlier turns."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from fathom.trainers.data.stages.record import make_id, read_rows


class Exchange(BaseModel):
    """A question in its self-contained form, and its answer."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    question: str = Field(min_length=1, max_length=4_000)
    answer: str = Field(min_length=1, max_length=40_000)


class Conversation(BaseModel):
    """The turns before the question that is to be written, oldest first."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    turns: tuple[Exchange, ...] = Field(min_length=1, max_length=50)
    id: str = ""

    @property
    def name(self) -> str:
        """Return the id, or one that follows from the turns."""
        # Logs often have no ids; with one made of the turns, a second run finds the rows of the first.
        return self.id or make_id("conversation", *(f"{turn.question}\n{turn.answer}" for turn in self.turns))


def read_conversations(path: Path) -> list[Conversation]:
    """Read conversations; raise ``InvalidField`` naming file and line of a wrong one."""
    return read_rows(path, Conversation)
