"""Settings of the memory service; section ``memory``, ``FATHOM_MEMORY_*``."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from fathom.core.config import Settings


class Config(Settings):
    """Location of the conversations, and how much of them a prompt gets."""

    path: Path = Path(".fathom/memory.sqlite3")
    """SQLite database; its folder is created."""
    # A question refers to the last answer or two word by word; to older ones only by what they found.
    full_turns: int = Field(default=2, ge=0)
    """Number of newest turns that a window holds in full."""
    max_turns: int = Field(default=10, ge=1)
    """Maximum number of turns in a window."""
