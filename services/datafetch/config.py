"""Settings of datafetch; section ``datafetch``, ``FATHOM_DATAFETCH_*``."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from fathom.config import Settings


class Config(Settings):
    """Where the tables are, and the limits of free SQL."""

    data_dir: Path = Path(".fathom/data/tables")
    """Folder that ``python -m services.datafetch.bundle`` builds."""
    frameworks_dir: Path | None = None
    """Folder with further analysis frameworks (``*.yaml``), on top of the ten of the package."""
    sql_rows: int = Field(10_000, ge=1)
    """Most rows of a SQL result."""
    sql_seconds: float = Field(10.0, gt=0)
    """Longest SQL statement in seconds."""
    max_columns: int = Field(64, ge=2)
    """Most columns of one sheet."""
