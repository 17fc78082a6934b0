"""Settings of the web; section ``retrieval.web``. Everything is off until an address or a key is given."""

from __future__ import annotations

from pydantic import Field

from fathom.config import Settings


class WebConfig(Settings):
    """Engines, and what may be fetched. Keys stand in the environment, only the variables' names stand here."""

    searxng_url: str = ""
    """Address of a SearXNG instance; "" turns it off."""
    tavily_url: str = "https://api.tavily.com"
    tavily_key_env: str = "TAVILY_API_KEY"
    brave_url: str = "https://api.search.brave.com"
    brave_key_env: str = "BRAVE_API_KEY"
    serper_url: str = "https://google.serper.dev"
    serper_key_env: str = "SERPER_API_KEY"
    engine_concurrency: int = Field(default=4, ge=1)
    """Calls to one engine at a time."""
    proxy: str = ""
    """Proxy for the engines, as a URL; pages are fetched without one, or their addresses could not be checked."""
    fetch_bytes: int = Field(default=8 << 20, ge=1024)
    """Largest page, in bytes after unpacking."""
    fetch_seconds: float = Field(default=20.0, gt=0)
    """Longest fetch, with its redirects and attempts, in seconds."""
    fetch_per_host: int = Field(default=2, ge=1)
    """Fetches from one host at a time."""
    fetch_redirects: int = Field(default=5, ge=0)
    """Most redirects."""
    fetch_attempts: int = Field(default=3, ge=1)
    """Most attempts on 429, 5xx and failing connections."""
    fetch_ports: tuple[int, ...] = (80, 443)
    """Ports that may be fetched from; () allows all."""
    fetch_networks: tuple[str, ...] = ()
    """Private networks that may be fetched from all the same, e.g. ``10.20.0.0/16``."""
    fetch_agent: str = "fathom/0.1 (research assistant)"
    """User-Agent of fetches."""
