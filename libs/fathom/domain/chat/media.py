"""Media types of corpus files by file extension."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath
from types import MappingProxyType

from fathom.core.errors import InvalidField

MEDIA_TYPES: Mapping[str, str] = MappingProxyType(
    {
        ".jsonl": "application/jsonl",
        ".ndjson": "application/jsonl",
        ".parquet": "application/vnd.apache.parquet",
        ".csv": "text/csv",
        ".html": "text/html",
        ".htm": "text/html",
        ".pdf": "application/pdf",
        ".txt": "text/plain",
        ".md": "text/markdown",
        ".docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
        ".pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
        ".eml": "message/rfc822",
    }
)

ROWS_OF_DOCUMENTS = frozenset({"application/jsonl", "application/vnd.apache.parquet", "text/csv"})
"""Media types whose files hold a document per row, for corpora; the others are documents themselves."""


def media_type(name: str) -> str:
    """Return the media type of a file or key; raise ``InvalidField("files")`` for an unknown extension."""
    ending = PurePosixPath(name).suffix.lower()
    if ending not in MEDIA_TYPES:
        raise InvalidField("files", f"{name} ends in none of {', '.join(MEDIA_TYPES)}")
    return MEDIA_TYPES[ending]
