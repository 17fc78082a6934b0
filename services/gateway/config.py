"""Settings of the gateway; section ``gateway``, ``FATHOM_GATEWAY_*``."""

from __future__ import annotations

from pydantic import Field

from fathom.config import Settings


class Config(Settings):
    """Limits and access."""

    token: str = ""
    """Bearer token that every route but health needs; empty means none, for a machine of one's own."""
    max_question_chars: int = Field(8_000, ge=1)
    """Longest question in characters."""
    max_body_bytes: int = Field(1_000_000, ge=1_000)
    """Largest request body."""
    heartbeat_s: float = Field(10.0, gt=0)
    """Pause between comments that keep an idle event stream open."""
    patience_s: float = Field(30.0, gt=0)
    """How long a run's events may be out of reach before the stream ends with an error."""
    frame_ancestors: str = "'none'"
    """Who may embed the page (CSP source list), e.g. ``https://terminal.example``."""
