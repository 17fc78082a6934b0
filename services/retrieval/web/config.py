"""Settings of the web; section ``retrieval.web``. Everything is off until an address or a key is given.

The search engines are a distribution of their own (``engines/``). None has spoken with its vendor: last tried never.
"""

from __future__ import annotations

from pydantic import Field

from fathom.core.config import Settings


class WebConfig(Settings):
    """Search engines, and limits of fetching. Keys are in the environment; the settings name the variables only."""

    searxng_url: str = ""
    """Address of a SearXNG instance; "" turns it off. Wants fathom-web-engines; last tried: never."""
    tavily_url: str = "https://api.tavily.com"
    tavily_key_env: str = "TAVILY_API_KEY"
    """Variable with the key of Tavily, which turns it on. Wants fathom-web-engines; last tried: never."""
    brave_url: str = "https://api.search.brave.com"
    brave_key_env: str = "BRAVE_API_KEY"
    """Variable with the key of Brave, which turns it on. Wants fathom-web-engines; last tried: never."""
    serper_url: str = "https://google.serper.dev"
    serper_key_env: str = "SERPER_API_KEY"
    """Variable with the key of Serper, which turns it on. Wants fathom-web-engines; last tried: never."""
    engine_concurrency: int = Field(default=4, ge=1)
    """Maximum concurrent calls to one engine."""
    proxy: str = ""
    """Proxy URL for the engines; pages are fetched without one, or their addresses could not be checked."""
    fetch_bytes: int = Field(default=8 << 20, ge=1024)
    """Maximum size of a page, in bytes after decompression."""
    fetch_seconds: float = Field(default=20.0, gt=0)
    """Maximum duration of a fetch, with redirects and retries, in seconds."""
    fetch_per_host: int = Field(default=2, ge=1)
    """Maximum concurrent fetches from one host."""
    fetch_redirects: int = Field(default=5, ge=0)
    """Maximum number of redirects."""
    fetch_attempts: int = Field(default=3, ge=1)
    """Maximum attempts on 429, 5xx and connection failures."""
    fetch_ports: tuple[int, ...] = (80, 443)
    """Ports that may be fetched from; () allows all."""
    fetch_networks: tuple[str, ...] = ()
    """Private networks that may be fetched from nevertheless, e.g. ``10.20.0.0/16``."""
    fetch_agent: str = "fathom/0.1 (research assistant)"
    """User-Agent of fetches."""
