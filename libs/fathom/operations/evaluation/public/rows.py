"""Rows of a public set's files in JSON Lines, with their places for messages."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from fathom.core.errors import InvalidField, NotFound


def read_objects(path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the objects of a JSON Lines file with their places; raise ``NotFound`` or ``InvalidField``."""
    if not path.is_file():
        raise NotFound("file", str(path))
    with path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            try:
                row = json.loads(line)
            except ValueError as error:
                raise InvalidField(f"{path.name}:{number}", f"is no JSON: {error}") from error
            if not isinstance(row, dict):
                raise InvalidField(f"{path.name}:{number}", "is no object")
            yield f"{path.name}:{number}", row
