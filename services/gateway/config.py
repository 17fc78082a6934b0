"""Settings of the gateway; section ``gateway``, ``FATHOM_GATEWAY_*``."""

from __future__ import annotations

from pydantic import Field

from fathom.config import Settings


class Config(Settings):
    """Limits and access. The address to listen on is the runtime's (loopback by default)."""

    token: str = ""
    """Bearer token that every route but health needs; empty means none, for a machine of one's own."""
    allowed_hosts: tuple[str, ...] = ("localhost", "127.0.0.1", "[::1]")
    """Names under which the gateway may be addressed; ``["*"]`` allows any. Keeps other sites' names from
    being rebound to this machine."""
    frame_ancestors: str = "'none'"
    """Who may embed ``/?embed=1`` (CSP source list), e.g. ``https://terminal.example``; all else is never framed."""
    default_model: str = "planner"
    """Model or role of runs that name none; the page asks policy beforehand which model that is."""
    max_question_chars: int = Field(default=8_000, ge=1)
    """Longest question in characters."""
    max_body_bytes: int = Field(default=1_000_000, ge=1_000)
    """Largest request body."""
    max_table_bytes: int = Field(default=64_000_000, ge=1_000)
    """Largest Arrow stream of a sheet that is paged here; larger ones can be exported only."""
    body_timeout_s: float = Field(default=10.0, gt=0)
    """How long a client may take to send a request's body."""
    start_timeout_s: float = Field(default=15.0, gt=0)
    """How long ``POST /v1/runs`` waits for the run to begin; a run that is still queued then is accepted as well."""
    heartbeat_s: float = Field(default=10.0, gt=0)
    """Pause between comments that keep an idle event stream open."""
    patience_s: float = Field(default=30.0, gt=0)
    """How long a run's events may be out of reach before the stream ends with a failure."""
