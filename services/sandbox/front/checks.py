"""Checks of code and names from callers, made in the service front before any worker sees them."""

from __future__ import annotations

import builtins
import keyword
import unicodedata
from collections.abc import Sequence

from fathom.api.sandbox.v1 import sandbox_pb2 as pb
from fathom.core.errors import InvalidField

# A frame under one of these names would take away what every cell expects to find.
RESERVED = frozenset(
    {
        "pd",
        "np",
        "to_date",
        "finance",
        "show_table",
        "In",
        "Out",
        "exit",
        "quit",
        "get_ipython",
        "display",
        *dir(builtins),
    }
)
# Far more than a model writes in one cell; the code travels in one frame and is kept with its recording.
MAX_CODE_BYTES = 262_144
# Descriptions are shown to the model in every prompt of the run.
MAX_DESCRIPTION = 1_000
MAX_COLUMNS, MAX_FACT_CHARS = 1_000, 200


def validate_code(code: str) -> str:
    """Return the code; raise ``InvalidField("code")`` unless it has 1 to ``MAX_CODE_BYTES`` bytes."""
    if not 1 <= len(code.encode()) <= MAX_CODE_BYTES:
        raise InvalidField("code", f"must be 1 to {MAX_CODE_BYTES:,} bytes")
    return code


def validate_columns(columns: Sequence[pb.ColumnFacts]) -> None:
    """Raise ``InvalidField("columns")`` for more facts than a table can have, or for a text that is no name or unit."""
    if len(columns) > MAX_COLUMNS:
        raise InvalidField("columns", f"has {len(columns):,} entries; at most {MAX_COLUMNS:,} are allowed")
    for place, column in enumerate(columns):
        for name, value in (("name", column.name), ("unit", column.unit), ("indicator", column.indicator)):
            if len(value) > MAX_FACT_CHARS:
                raise InvalidField(f"columns[{place}].{name}", f"has over {MAX_FACT_CHARS} characters")


def validate_frame_name(name: str) -> str:
    """Return the name of a frame; raise ``InvalidField("name")`` unless it is a free, plain identifier."""
    # Python reads identifiers in their NFKC form: under any other spelling a cell would not find the frame.
    plain = name.isidentifier() and unicodedata.normalize("NFKC", name) == name
    if not plain or keyword.iskeyword(name) or name.startswith("_") or len(name) > 64:
        raise InvalidField("name", f"{name[:80]!r} is not a plain identifier of at most 64 characters")
    if name in RESERVED:
        raise InvalidField("name", f"{name!r} is taken by Python or by the session itself")
    return name
