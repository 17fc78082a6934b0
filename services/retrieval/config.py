"""Settings of retrieval; section ``retrieval``, ``FATHOM_RETRIEVAL_*``."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from fathom.config import Settings


class Config(Settings):
    """Where the corpus is, and how results look."""

    corpus_dir: Path = Path(".fathom/data/corpus")
    """Folder that ``python -m services.retrieval.bundle`` builds."""
    corpus_name: str = "bundled"
    """Name under which the corpus is served."""
    top_k: int = Field(5, ge=1, le=100)
    """Results of a search that does not say how many."""
    summary_chars: int = Field(240, ge=40)
    """Length of a summary in characters."""
    title_weight: int = Field(2, ge=1, le=10)
    """How many times a title counts."""
