"""A typed claim: what a statement says of columns and documents, in a form that can be computed or looked up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from typing import Any

from fathom.core.errors import InvalidField

# A statement with more claims than this is a list; what follows is not read.
MOST_CLAIMS, MOST_OPERANDS = 200, 50


class Relation(StrEnum):
    """Relation of a claim's left side to the rest."""

    EQUALS = "equals"
    """It is the stated number."""
    MORE = "more"
    LESS = "less"
    SAME = "same"
    LARGEST = "largest"
    SMALLEST = "smallest"
    DIFFERENCE = "difference"
    """It differs from the right side by the stated number."""
    RATIO = "ratio"
    """It is the stated number times the right side."""
    STATED = "stated"
    """A document gives it: a cause, a motive, an event."""


class Statistic(StrEnum):
    """Statistic of a column in a period."""

    LAST = "last"
    FIRST = "first"
    MEAN = "mean"
    SUM = "sum"
    HIGHEST = "highest"
    LOWEST = "lowest"
    CHANGE = "change"
    """From the last value before the period, or its first one where there is none before."""
    PERCENT_CHANGE = "percent_change"
    SIZE_OF_CHANGE = "size_of_change"
    VOLATILITY = "volatility"
    DRAWDOWN = "drawdown"
    DATE_OF_HIGHEST = "date_of_highest"
    DATE_OF_LOWEST = "date_of_lowest"


@dataclass(frozen=True)
class Operand:
    """A statistic of a column of a source in a period, both days included."""

    source: int
    column: str
    statistic: Statistic
    first: date
    last: date


@dataclass(frozen=True)
class TypedClaim:
    """One claim of the statement of a number, counted from 1.

    ``number`` are the statement's words for a stated number with its unit, ``quote`` the words of the document
    ``document`` that give what ``relation`` calls stated.
    """

    statement: int
    relation: Relation
    left: Operand | None = None
    right: Operand | None = None
    among: tuple[Operand, ...] = ()
    number: str = ""
    rank: int = 1
    document: int = 0
    quote: str = ""


def read_claims(data: Mapping[str, Any]) -> list[TypedClaim]:
    """Return the claims of a model's reply; raise ``InvalidField`` for one that is not of the form."""
    listed = data.get("claims")
    if not isinstance(listed, list):
        raise InvalidField("claims", "is no list")
    return [read_claim(one, f"claims[{place}]") for place, one in enumerate(listed[:MOST_CLAIMS])]


def read_claim(data: object, name: str) -> TypedClaim:
    """Return one claim; raise ``InvalidField`` naming the place in the reply."""
    fields = require_mapping(data, name)
    try:
        relation = Relation(fields.get("relation", ""))
    except ValueError as error:
        raise InvalidField(
            f"{name}.relation", f"{fields.get('relation')!r} is none of {', '.join(Relation)}"
        ) from error
    among = fields.get("among") or []
    if not isinstance(among, list):
        raise InvalidField(f"{name}.among", "is no list")
    sides = [read_operand(fields.get(side), f"{name}.{side}") for side in ("left", "right")]
    others = [read_operand(one, f"{name}.among[{place}]") for place, one in enumerate(among[:MOST_OPERANDS])]
    return TypedClaim(
        require_integer(fields.get("statement"), f"{name}.statement"),
        relation,
        sides[0],
        sides[1],
        tuple(one for one in others if one is not None),
        str(fields.get("number") or ""),
        require_integer(fields.get("rank") or 1, f"{name}.rank"),
        require_integer(fields.get("document") or 0, f"{name}.document"),
        str(fields.get("quote") or ""),
    )


def read_operand(data: object, name: str) -> Operand | None:
    """Return one side; None where there is none. Raises ``InvalidField``."""
    if data is None:
        return None
    fields = require_mapping(data, name)
    try:
        statistic = Statistic(fields.get("statistic", ""))
        first, last = (date.fromisoformat(str(fields.get(edge, ""))) for edge in ("from", "to"))
    except ValueError as error:
        raise InvalidField(name, str(error)) from error
    source = require_integer(fields.get("source"), f"{name}.source")
    return Operand(source, str(fields.get("column") or ""), statistic, first, last)


def require_mapping(data: object, name: str) -> Mapping[str, Any]:
    if not isinstance(data, Mapping):
        raise InvalidField(name, "is no object")
    return data


def require_integer(value: object, name: str) -> int:
    # JSON's true is an int in Python.
    if not isinstance(value, int) or isinstance(value, bool):
        raise InvalidField(name, f"{value!r} is no integer")
    return value
