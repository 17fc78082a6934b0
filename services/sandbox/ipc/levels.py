"""Isolation levels, which settings name, the supervisor achieves and the service front reports."""

from __future__ import annotations

from enum import IntEnum


class Level(IntEnum):
    """Isolation levels from weakest to strongest; the numbers are those of the API's enumeration."""

    NONE = 1
    LANDLOCK = 2
    NAMESPACE = 3
    GUEST_KERNEL = 4
    VM = 5

    @property
    def word(self) -> str:
        """Name of the level in settings."""
        return self.name.lower().replace("_", "-")

    @classmethod
    def of(cls, word: str) -> Level:
        """Return the level of a word in settings, or of walls without a boundary around them."""
        # A filter of system calls alone keeps no file from a cell, so that it counts as no isolation.
        return cls.NONE if word == "seccomp" else cls[word.upper().replace("-", "_")]


def list_health_names(level: Level) -> list[str]:
    """Return the health names of a level: its own and those of all weaker ones."""
    return [f"isolation.{one.word}" for one in Level if one <= level]
