"""Settings of the gateway; section ``gateway``, ``FATHOM_GATEWAY_*``."""

from __future__ import annotations

from pydantic import Field

from fathom.core.config import Settings


class Config(Settings):
    """Limits and access control. The address to listen on is the runtime's (loopback by default)."""

    token: str = ""
    """Bearer token of the default tenant, accepted by every route.

    With neither this, ``api_keys_file`` nor a provider, everybody may come in, which only a gateway on loopback allows.
    """
    api_keys_file: str = ""
    """File of API keys, hashed, one JSON object per line, as ``fathom identity api-key`` writes them.

    It is read again when it changes.
    """
    oidc_issuer: str = ""
    """Issuer of identity tokens (OpenID Connect), exactly as their claim ``iss`` says it."""
    oidc_audience: str = ""
    """Audience that identity tokens must be for: this installation's id at the provider."""
    oidc_jwks_url: str = ""
    """URL under which the provider publishes its keys."""
    oidc_tenant_claim: str = "tenant"
    """Claim of identity tokens that names the caller's tenant."""
    oidc_roles_claim: str = "roles"
    """Claim of identity tokens that lists the caller's roles; ``review`` decides on what waits for people."""
    allowed_hosts: tuple[str, ...] = ("localhost", "127.0.0.1", "[::1]")
    """Host names under which the gateway may be addressed; ``["*"]`` allows any.

    Protects against DNS rebinding of other sites' names to this machine.
    """
    path_prefix: str = Field(default="", pattern=r"^(/[A-Za-z0-9._~-]+)*$")
    """Path below which a proxy serves this gateway, e.g. ``/fathom``, whether the proxy strips it or passes it on."""
    frame_ancestors: str = "'none'"
    """Origins that may embed ``/?embed=1``, as a CSP source list, e.g. ``https://terminal.example``.

    Any other framing is forbidden.
    """
    public_links: bool = False
    """Lets users make links that anyone can open who has the address, without being let in.

    Turned off, those that exist open for their own tenant alone.
    """
    default_model: str = "planner"
    """Model or role of runs that name none; the page asks policy beforehand which model that is."""
    max_question_chars: int = Field(default=8_000, ge=1)
    """Maximum length of a question in characters."""
    max_body_bytes: int = Field(default=1_000_000, ge=1_000)
    """Maximum size of a request body in bytes."""
    max_upload_bytes: int = Field(default=20_000_000, ge=1_000)
    """Maximum size in bytes of an uploaded table or document."""
    upload_lifetime_s: int = Field(default=30 * 86_400, ge=60)
    """Seconds after which an uploaded table or document is deleted; answers that show it then lack it."""
    cell_seconds: int = Field(default=30, ge=0, le=600)
    """Seconds that a cell of an answer may take when it is run again from the page; 0 lets none be run again."""
    frames_by_reference: bool = True
    """Lets the sandbox read tables from the object store itself; otherwise they travel with the call."""
    max_schedules: int = Field(default=20, ge=0, le=100)
    """Maximum number of questions of one tenant that are asked again by schedule; 0 allows none."""
    max_table_bytes: int = Field(default=64_000_000, ge=1_000)
    """Maximum size in bytes of a sheet's Arrow stream that is paged here; larger ones can only be exported."""
    body_timeout_s: float = Field(default=10.0, gt=0)
    """Timeout in seconds for receiving a request's body."""
    start_timeout_s: float = Field(default=15.0, gt=0)
    """Seconds that ``POST /v1/runs`` waits for the run to begin; a run still queued then is accepted as well."""
    heartbeat_s: float = Field(default=10.0, gt=0, le=10)
    """Seconds between the pings of event streams; a reader takes a stream that is silent for 30 seconds for lost."""
    patience_s: float = Field(default=30.0, gt=0)
    """Seconds that a run's events may be unreachable before the stream ends with a failure."""
