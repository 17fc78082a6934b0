"""Words of the planner to the model that ask for nothing: a warning, a changed todo list."""

from __future__ import annotations

from fathom.protocol.messages import Message, Role

NOTE = "Note: "


def is_note(message: Message) -> bool:
    """True for a message of which every line is a note: no question, no correction, no last round."""
    lines = message.content.splitlines()
    return message.role is Role.USER and bool(lines) and all(line.startswith(NOTE) for line in lines)
