"""Tables of the worker: they wait in shared memory until a cell names them, and may go back there."""

from __future__ import annotations

import mmap
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import pandas as pd
import pyarrow as pa

from fathom.services.sandbox.inside.namespace import add_facts

# Code that reaches for names in another way than by writing them down gets everything.
INDIRECT = re.compile(r"\b(globals|locals|vars|eval|exec|dir)\s*\(|%who")
WORD = re.compile(r"\w+")


@dataclass
class Sheet:
    """A table in a sealed buffer, and the frame made of it when a cell needed it."""

    buffer: Any
    rows: int
    columns: int
    facts: Mapping[str, Mapping[str, str]]
    frame: pd.DataFrame | None = None

    def load(self) -> pd.DataFrame:
        """Return a new frame, which cells may change; the buffer stays as it is.

        Its ``attrs`` have units and indicators by column, where they are known.
        """
        with pa.ipc.open_stream(self.buffer) as reader:
            frame: pd.DataFrame = reader.read_all().to_pandas(ignore_metadata=True, use_threads=False)
        return add_facts(frame, self.facts)


class Sheets:
    """Sheets by variable name.

    While all loaded frames together are over the bound, those least recently used are dropped from memory, if they are
    unchanged; their next use loads them again.
    """

    def __init__(self, namespace: dict[str, Any]) -> None:
        self._namespace = namespace
        self._sheets: dict[str, Sheet] = {}
        self._loaded_bytes = 0

    def put(
        self,
        name: str,
        descriptor: int,
        lazy: bool,
        loaded_bytes: int,
        facts: Mapping[str, Mapping[str, str]] = MappingProxyType({}),
    ) -> None:
        """Take ownership of a memory file with an Arrow stream; load it now, or when a cell names it if ``lazy``.

        ``loaded_bytes`` bounds the size of all loaded frames together; ``facts`` has units and indicators by column.
        """
        try:
            size = os.fstat(descriptor).st_size
            buffer = pa.py_buffer(mmap.mmap(descriptor, size, prot=mmap.PROT_READ))
        finally:
            os.close(descriptor)
        self._loaded_bytes = loaded_bytes
        with pa.ipc.open_stream(buffer) as reader:
            # The columns stay in shared memory; only the heads of the batches are read.
            rows = sum(batch.num_rows for batch in reader)
            columns = len(reader.schema)
        self._sheets.pop(name, None)
        self._namespace.pop(name, None)
        self._sheets[name] = Sheet(buffer, rows, columns, facts)
        if not lazy:
            self._use(name)

    def load_named(self, code: str) -> None:
        """Load the sheets that the code names, or all of them when it may reach them in another way."""
        waiting = [name for name in self._sheets if name not in self._namespace]
        if not waiting:
            return
        words = set(WORD.findall(code))
        every = INDIRECT.search(code) is not None
        for name in waiting:
            if every or name in words:
                self._use(name)

    def is_unchanged(self, value: Any) -> bool:
        """Return whether the value is the frame of a sheet, as it was given."""
        return any(
            sheet.frame is not None and sheet.frame is value and sheet.load().equals(sheet.frame)
            for sheet in self._sheets.values()
        )

    def _use(self, name: str) -> None:
        sheet = self._sheets.pop(name)
        self._sheets[name] = sheet  # the most recently used stand last
        sheet.frame = sheet.load()
        self._namespace[name] = sheet.frame
        self._evict(keep=name)

    def _evict(self, keep: str) -> None:
        """Drop unchanged frames, least recently used first, while all together are over the bound."""
        loaded: list[tuple[str, pd.DataFrame]] = [
            (name, sheet.frame) for name, sheet in self._sheets.items() if sheet.frame is not None
        ]
        total = sum(measure_frame(frame) for _, frame in loaded)
        for name, frame in loaded:
            if total <= self._loaded_bytes:
                return
            # Compared by value, because a cell may have changed the frame in place.
            if name == keep or self._namespace.get(name) is not frame or not self._sheets[name].load().equals(frame):
                continue
            total -= measure_frame(frame)
            self._sheets[name].frame = None
            del self._namespace[name]

    def list_unloaded(self) -> list[dict[str, str]]:
        """Return the sheets that are not in memory, as variables are listed."""
        return [
            {
                "name": name,
                "type": "Table" if any(sheet.facts.values()) else "DataFrame",
                "shape": f"({sheet.rows}, {sheet.columns})",
            }
            for name, sheet in self._sheets.items()
            if name not in self._namespace and sheet.frame is None
        ]


def measure_frame(frame: pd.DataFrame) -> int:
    """Return the bytes of a frame's columns, without the objects that they point to."""
    return int(frame.memory_usage(deep=False).sum())
