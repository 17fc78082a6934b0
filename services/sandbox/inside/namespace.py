"""Names that a cell finds without importing them, in a session as in an exported script or notebook."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from fathom.services.sandbox.inside import finance
from fathom.services.sandbox.inside.finance import Table
from fathom.services.sandbox.inside.preload import to_date

__all__ = ["add_facts", "finance", "np", "pd", "show_table", "to_date"]

# Models import what they use; "finance.steps" by the same name as here, or it would be loaded a second time.
sys.modules |= {"finance": finance, "finance.steps": finance.steps}


def add_facts(frame: pd.DataFrame, facts: Mapping[str, Mapping[str, str]]) -> pd.DataFrame:
    """Return a frame whose ``attrs`` have units and indicators by column, where they are known."""
    if not any(facts.values()):
        return frame
    # Not a plain frame: its attrs would outlive the values, as in ``sheet_1 * 100``.
    table = Table(frame)
    table.attrs = {kind: dict(by_column) for kind, by_column in facts.items()}
    return table


def show_table(table: Any, title: str = "", units: Mapping[str, str] | None = None) -> None:
    """Print a DataFrame or Series where no session keeps it as a sheet; raise ``TypeError`` for any other object."""
    if not isinstance(table, (pd.DataFrame, pd.Series)):
        raise TypeError(f"show_table takes a DataFrame or a Series, not {type(table).__name__}")
    said = ", ".join(f"{name}: {unit}" for name, unit in (units or {}).items())
    print("\n".join(filter(None, (title, str(table), said))))
