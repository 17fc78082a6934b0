"""Settings of the connectors: section ``datafetch.connectors``; a vendor is used only if ``enabled`` names it."""

from __future__ import annotations

from pydantic import Field

from fathom.config import Settings


class ConnectorsConfig(Settings):
    """Settings of vendors: addresses, rates and cache. Keys are read from environment variables that are named here."""

    enabled: tuple[str, ...] = ()
    """Vendors that may be asked, e.g. ``("akshare", "edgar")``; () asks nobody."""
    eastmoney_url: str = "https://push2his.eastmoney.com"
    baostock_host: str = "public-api.baostock.com"
    baostock_port: int = Field(default=10030, ge=1, le=65535)
    yahoo_url: str = "https://query1.finance.yahoo.com"
    yahoo_agent: str = "Mozilla/5.0 (compatible; fathom/0.1)"
    """Yahoo refuses most other agents."""
    edgar_url: str = "https://data.sec.gov"
    edgar_files_url: str = "https://www.sec.gov"
    edgar_agent: str = ""
    """Who asks, as the SEC demands: a name and an e-mail address; "" turns EDGAR off."""
    fred_url: str = "https://api.stlouisfed.org"
    fred_key_env: str = "FRED_API_KEY"
    worldbank_url: str = "https://api.worldbank.org"
    proxy: str = ""
    """Proxy for the vendors that speak HTTP, as a URL."""
    concurrency: int = Field(default=2, ge=1)
    """Calls to one vendor at a time."""
    per_second: float = Field(default=2.0, gt=0)
    """Calls to one vendor per second."""
    circuit_failures: int = Field(default=4, ge=1)
    """Failures in a row after which a vendor is left alone."""
    circuit_seconds: float = Field(default=30.0, gt=0)
    """For how long."""
    cache_bytes: int = Field(default=256 << 20, ge=0)
    """Answers kept in memory."""
    cache_seconds: float = Field(default=900.0, ge=0)
    """How long an answer is kept."""
    cache_history_seconds: float = Field(default=86_400.0, ge=0)
    """How long an answer as of an earlier day is kept: it does not change."""
    tolerance: float = Field(default=0.005, gt=0)
    """Relative difference of two vendors' closes from which they disagree."""
    check_prices: bool = False
    """Whether prices of a code are asked of two vendors and compared; where they disagree both are shown."""
