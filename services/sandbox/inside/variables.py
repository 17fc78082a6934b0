"""Names, types and shapes of a session's variables, found without running any code of the cells' own.

A property ``shape`` or a method ``__len__`` of a cell's class may never return, and would take every later cell along.
Only values of known classes are therefore asked for their shape.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from fathom.services.sandbox.inside.finance import Column, Table

# Listed for a model, which cannot use longer lists; the supervisor drops what is beyond.
MAX_VARIABLES = 200
MAX_CHARS = 200
TABLES: tuple[Any, ...] = (
    pd.DataFrame, pd.Series, pd.Index, pd.DatetimeIndex, pd.RangeIndex, pd.MultiIndex, Table, Column,
)  # fmt: skip
COLLECTIONS = (
    str, bytes, bytearray, list, tuple, dict, set, frozenset, range, Counter, OrderedDict, defaultdict, deque,
)  # fmt: skip


def make_measure(read_shape: Callable[[Any], tuple[int, ...]]) -> Callable[[Any], str]:
    """Return a function that writes the shape of a value."""
    return lambda value: str(read_shape(value))


# By class and not by ``isinstance``: a cell may derive classes from these.
MEASURES: Mapping[type, Callable[[Any], str]] = {
    # The properties as they are now: a cell may replace them.
    **{kind: make_measure(kind.shape.fget) for kind in TABLES},
    np.ndarray: lambda value: str(value.shape),
    **{kind: lambda value: str(len(value)) for kind in COLLECTIONS},
}
# The descriptor itself: a metaclass may have a ``__name__`` of its own.
READ_NAME: Callable[[type], str] = type.__dict__["__name__"].__get__


def describe_value(value: Any) -> tuple[str, str]:
    """Return type name, and shape or length; "" in its place for a value of any other class than the known ones."""
    kind = type(value)
    measure = MEASURES.get(kind)
    try:
        return READ_NAME(kind), measure(value) if measure is not None else ""
    except Exception:  # a cell may have replaced what the libraries' classes do
        return READ_NAME(kind), ""


def snapshot_variables(namespace: Mapping[str, Any], hidden: frozenset[str]) -> dict[str, tuple[int, str]]:
    """Return identity and shape of each user variable."""
    return {
        name: (id(value), describe_value(value)[1])
        for name, value in list(namespace.items())
        # A class of strings of the cell's own could do anything when it is compared.
        if type(name) is str and not name.startswith("_") and name not in hidden
    }


def describe_variables(namespace: Mapping[str, Any], names: list[str]) -> list[dict[str, str]]:
    """Return name, type and shape, sorted by name, of at most ``MAX_VARIABLES`` variables."""
    found = []
    for name in sorted(names)[:MAX_VARIABLES]:
        kind, shape = describe_value(namespace[name])
        found.append({"name": name[:MAX_CHARS], "type": kind[:MAX_CHARS], "shape": shape[:MAX_CHARS]})
    return found
