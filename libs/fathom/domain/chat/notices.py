"""Planner messages to the model that need no response: a warning, a changed todo list."""

from __future__ import annotations

from fathom.domain.chat.messages import Message, Role

NOTE = "Note: "


def is_note(message: Message) -> bool:
    """Return True if every line of a user message is a note: no question, no correction, no last-round prompt."""
    lines = message.content.splitlines()
    return message.role is Role.USER and bool(lines) and all(line.startswith(NOTE) for line in lines)
