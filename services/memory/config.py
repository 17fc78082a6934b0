"""Settings of the memory service; section ``memory``, ``FATHOM_MEMORY_*``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pydantic import Field, SecretStr

from fathom.core.config import ConfigError, Settings


class Config(Settings):
    """Location of the conversations, and how much of them a prompt gets."""

    path: Path = Path(".fathom/memory.sqlite3")
    """SQLite database; its folder is created. Not used with a database server."""
    # Not shown where settings are: it holds a password.
    database_url: SecretStr = SecretStr("")
    """PostgreSQL in place of the file, ``postgresql://USER:PASSWORD@HOST:PORT/DATABASE``; needed for replicas."""
    database_url_file: Path | None = None
    """File whose content is that URL, read at the start, for secrets that are mounted."""
    connections: int = Field(default=8, ge=1, le=100)
    """Most connections of one replica to PostgreSQL, and requests that it serves at once."""
    # A question refers to the last answer or two word by word; to older ones only by what they found.
    full_turns: int = Field(default=2, ge=0)
    """Number of newest turns that a window holds in full."""
    max_turns: int = Field(default=10, ge=1)
    """Maximum number of turns in a window."""

    max_segments: int = Field(default=500, ge=1, le=10_000)
    """Most segments of one user's middle-term memory; the coldest go first, their turns stay in the conversations."""
    segment_mib: int = Field(default=32, ge=1, le=1_024)
    """Most MiB of one user's segments."""
    encode_timeout_s: float = Field(default=5.0, gt=0)
    """Seconds that a search waits for the vector of its question; it then goes by words alone."""
    summary_model: str = ""
    """Model or role of policy that summarises segments in the background; "" chooses sentences from the answers."""
    summary_timeout_s: float = Field(default=60.0, gt=0)
    """Seconds that one summary may take."""

    retention_days: int = Field(default=0, ge=0)
    """Days for which turns and judgements are kept; 0 keeps them until somebody deletes them."""
    retention_days_by_tenant: Mapping[str, int] = Field(default_factory=dict)
    """The same for single tenants."""

    def find_place(self) -> Path | str:
        """Return the URL of the database server, or the path of the SQLite file where none is set.

        Raises ``ConfigError`` when the file of the URL cannot be read, or URL and file are both given.
        """
        url = self.database_url.get_secret_value()
        if self.database_url_file is None:
            return url or self.path
        field = "memory.database_url_file"
        if url:
            raise ConfigError(f"{field}: memory.database_url is given, too", metadata={"field": field})
        try:
            return self.database_url_file.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"{field}: cannot be read: {error}", metadata={"field": field}) from error
