"""Connections to the PostgreSQL that holds corpora."""

from __future__ import annotations

from fathom.core.config import ConfigError
from fathom.services.retrieval.postgres.schema import SCHEMA
from fathom.transport import postgres

NAME = "retrieval's database"


class Connections(postgres.Connections):
    """Connections whose sessions find the tables of corpora."""

    def __init__(self, url: str, places: int, timeout_s: float) -> None:
        """Store the settings without connecting; raise ``MissingExtra``, and ``ConfigError`` without a URL."""
        if not url:
            field = "retrieval.database_url"
            raise ConfigError(f"{field}: a recipe says postgres, and no database is named", metadata={"field": field})
        super().__init__(url, places, timeout_s, name=NAME, options=f"-c search_path={SCHEMA},public")
