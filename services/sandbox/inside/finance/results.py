"""Results that print the convention they were computed by, and the bounds that every result keeps."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd

from fathom.services.sandbox.inside.finance.errors import BrokenInvariant

# What floating-point arithmetic may add to a bound, e.g. to a correlation of 1.
TOLERANCE = 1e-9
# Sentences by measure, in English and Chinese, with the values in braces that a result fills in.
CONVENTIONS = MappingProxyType(json.loads(Path(__file__).with_name("conventions.json").read_text("utf-8")))


# Operations of pandas that leave values as they are, but for rounding; selections pass no name.
KEEPING = frozenset({None, "round", "copy", "sort_values", "sort_index"})


class Table(pd.DataFrame):
    """DataFrame whose text ends with its convention; selected or rounded parts keep it, computed ones do not."""

    @property
    def _constructor(self) -> Any:
        return Table

    @property
    def _constructor_sliced(self) -> Any:
        return Column

    def __repr__(self) -> str:
        return add_convention(super().__repr__(), self.attrs)

    def __finalize__(self, other: Any, method: str | None = None, **rest: Any) -> Any:
        result = super().__finalize__(other, method=method, **rest)  # type: ignore[misc]
        return result if method in KEEPING and not rest else drop_convention(result)

    def _construct_result(self, *args: Any, **rest: Any) -> Any:
        return drop_convention(super()._construct_result(*args, **rest))  # type: ignore[misc]


class Column(pd.Series):
    """Series whose text ends with its convention; selected or rounded parts keep it, computed ones do not."""

    @property
    def _constructor(self) -> Any:
        return Column

    @property
    def _constructor_expanddim(self) -> Any:
        return Table

    def __repr__(self) -> str:
        return add_convention(super().__repr__(), self.attrs)

    def __finalize__(self, other: Any, method: str | None = None, **rest: Any) -> Any:
        result = super().__finalize__(other, method=method, **rest)  # type: ignore[misc]
        return result if method in KEEPING and not rest else drop_convention(result)

    def _construct_result(self, *args: Any, **rest: Any) -> Any:
        return drop_convention(super()._construct_result(*args, **rest))  # type: ignore[misc]


def drop_convention(result: Any) -> Any:
    """Return what was computed of a result without convention and units, which are those of other values."""
    for one in result if isinstance(result, tuple) else (result,):
        one.attrs = {}
    return result


class Number(float):
    """Float whose text ends with its convention; a format such as ``f"{x:.2%}"`` shows the number alone."""

    attrs: dict[str, Any]

    def __repr__(self) -> str:
        return add_convention(f"{float(self):.6g}", self.attrs)


def add_convention(text: str, attrs: Mapping[Any, Any]) -> str:
    """Return the text with the convention on a line of its own."""
    return f"{text}\nConvention: {attrs['convention']}" if "convention" in attrs else text


def convention(result: Any, language: str = "en") -> str:
    """Return the sentence that says how a result was computed, in English ("en") or Chinese ("zh")."""
    return str(getattr(result, "attrs", {}).get("convention_zh" if language == "zh" else "convention", ""))


def state(result: Any, name: str, unit: str | Mapping[str, str] = "", **values: Any) -> Any:
    """Return the result as one of the classes above, with the convention of a measure and the unit of its columns.

    ``unit`` is one for all columns or by column. A value in ``values`` is the same in both languages, or the pair of
    its English and Chinese text.
    """
    if isinstance(result, float):
        stated: Any = Number(result)
        stated.attrs = {}
    else:
        stated = (Table if result.ndim == 2 else Column)(result)
        columns = list(stated.columns) if stated.ndim == 2 else [stated.name]
        units = dict(unit) if isinstance(unit, Mapping) else dict.fromkeys(columns, unit)
        stated.attrs = {"units": units} if unit else {}
    for side, key in enumerate(("convention", "convention_zh")):
        texts = {field: value[side] if isinstance(value, (tuple, list)) else value for field, value in values.items()}
        stated.attrs[key] = CONVENTIONS[name][side].format(**texts)
    return stated


def state_by_series(found: Mapping[str, float], name: str, unit: str = "", **values: Any) -> Any:
    """Return a ``Number`` for a single series, else a ``Column`` by series."""
    single = float(next(iter(found.values()))) if len(found) == 1 else None
    return state(pd.Series(found, name=name, dtype=float) if single is None else single, name, unit, **values)


def ensure_bounds(values: Any, low: float, high: float, name: str) -> Any:
    """Return the values clipped to [low, high]; raise ``BrokenInvariant`` if rounding cannot explain one beyond it."""
    array = np.asarray(values, dtype=float)
    found = array[np.isfinite(array)]
    if len(found) and (found.min() < low - TOLERANCE or found.max() > high + TOLERANCE):
        raise BrokenInvariant(
            f"a {name} lies in [{low:g}, {high:g}], and this one in [{found.min():g}, {found.max():g}]"
        )
    return values.clip(low, high) if hasattr(values, "clip") else min(max(values, low), high)
