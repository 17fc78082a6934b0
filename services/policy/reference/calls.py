"""A call of a tool, as the reference policy makes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Call:
    """A call of a tool."""

    tool: str
    arguments: Mapping[str, Any]
    beside: tuple[Call, ...] = ()
    """Further calls of the same round."""
