"""Settings of the connectors: section ``datafetch.connectors``; a vendor is used only if ``enabled`` names it."""

from __future__ import annotations

from pydantic import Field

from fathom.core.config import Settings


class ConnectorsConfig(Settings):
    """Settings of vendors: addresses, rates and cache. Keys are read from environment variables that are named here."""

    enabled: tuple[str, ...] = ()
    """Enabled vendors, e.g. ``("akshare", "edgar")``; () disables all."""
    # Addresses are settings, so that a mirror or a test's own server can take a vendor's place.
    eastmoney_url: str = "https://push2his.eastmoney.com"
    baostock_host: str = "public-api.baostock.com"
    baostock_port: int = Field(default=10030, ge=1, le=65535)
    yahoo_url: str = "https://query1.finance.yahoo.com"
    yahoo_agent: str = "Mozilla/5.0 (compatible; fathom/0.1)"
    """User agent; Yahoo refuses most others."""
    edgar_url: str = "https://data.sec.gov"
    edgar_files_url: str = "https://www.sec.gov"
    edgar_agent: str = ""
    """User agent as the SEC requires it: a name and an e-mail address; "" disables EDGAR."""
    fred_url: str = "https://api.stlouisfed.org"
    fred_key_env: str = "FRED_API_KEY"
    worldbank_url: str = "https://api.worldbank.org"
    proxy: str = ""
    """URL of a proxy for vendors with an HTTP API."""
    # Low on purpose: public endpoints block callers that ask too often.
    concurrency: int = Field(default=2, ge=1)
    """Concurrent calls to one vendor."""
    per_second: float = Field(default=2.0, gt=0)
    """Calls to one vendor per second."""
    circuit_failures: int = Field(default=4, ge=1)
    """Failures in a row that open a vendor's circuit breaker."""
    circuit_seconds: float = Field(default=30.0, gt=0)
    """Seconds for which the circuit breaker stays open."""
    cache_bytes: int = Field(default=256 << 20, ge=0)
    """Size limit of the cache in memory, in bytes."""
    cache_seconds: float = Field(default=900.0, ge=0)
    """Lifetime of a cached answer in seconds."""
    cache_history_seconds: float = Field(default=86_400.0, ge=0)
    """Lifetime in seconds of a cached answer as of an earlier day, which does not change."""
    tolerance: float = Field(default=0.005, gt=0)
    """Relative difference above which two vendors' closes disagree."""
    check_prices: bool = False
    """True fetches prices from two vendors and compares them; on disagreement both are shown."""
