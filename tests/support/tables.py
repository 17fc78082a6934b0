"""Tables for tests, as services send them."""

from __future__ import annotations

import pandas as pd
import pyarrow

from fathom.domain import frames


def to_arrow(frame: pd.DataFrame) -> bytes:
    """Convert a frame to an Arrow IPC stream without pandas' metadata; an unnamed index is dropped."""
    table = pyarrow.Table.from_pandas(frame, preserve_index=bool(frame.index.name))
    return frames.write_table(table.replace_schema_metadata(None))
