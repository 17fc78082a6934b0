"""Rows of JSON Lines that a job appends as it makes them, so that a killed one goes on without loss or repetition."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from fathom.core.errors import CorruptData


class Journal:
    """A file to which one process appends; a last line that was cut off is no row, and its work is done again."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> list[dict[str, Any]]:
        """Return the rows, and cut off what is no whole line; raise ``CorruptData`` for a whole line that is none."""
        if not self.path.exists():
            return []
        data = self.path.read_bytes()
        whole = data[: data.rfind(b"\n") + 1]
        if len(whole) < len(data):
            # The process was killed within its last line.
            with self.path.open("r+b") as file:
                file.truncate(len(whole))
        rows = []
        # Not splitlines(), which also cuts at separators that stand unescaped within texts.
        for number, line in enumerate(whole.split(b"\n")[:-1], 1):
            try:
                row = json.loads(line)
            except ValueError as error:
                raise CorruptData(f"{self.path}:{number}", str(error)) from error
            if not isinstance(row, dict):
                raise CorruptData(f"{self.path}:{number}", "is no object")
            rows.append(row)
        return rows

    def append(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Write rows through to the disk."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("ab") as file:
            file.write("".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows).encode())
            file.flush()
            os.fsync(file.fileno())
