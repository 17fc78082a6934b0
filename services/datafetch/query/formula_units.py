"""Unit of a formula's value, derived from the units of the indicators in it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from fathom.services.datafetch.query.formulas import Binary, Call, Leaf, Node, Number

UnitOf = Callable[[str], str]
"""Returns the unit of an indicator."""
GROWTH, SHARE, POINTS = "fraction", "share", "percentage points"
GROWTH_FUNCTIONS = frozenset({"yoy", "qoq", "mom"})
# What a fraction, multiplied by so much, is measured in.
MULTIPLES = {100.0: "%", 10_000.0: "bp"}


@dataclass(frozen=True)
class Scaled:
    """A unit times a constant factor; ``unit`` is None for a pure number and "" for one that is not known."""

    unit: str | None
    factor: float = 1.0


def infer_unit(node: Node, unit_of: UnitOf) -> str:
    """Return the unit of a formula's value; "" for a plain number and where it is not known."""
    found = scale_node(node, unit_of)
    if found.unit in (GROWTH, SHARE) and found.factor in MULTIPLES:
        return MULTIPLES[found.factor]
    # "bp" is one hundredth of a percentage point.
    if found.unit == POINTS and found.factor == 100.0:
        return "bp"
    return "" if found.factor != 1.0 or found.unit in (None, SHARE) else str(found.unit)


def scale_node(node: Node, unit_of: UnitOf) -> Scaled:
    """Return the unit of a node with the constant that multiplies it."""
    match node:
        case Leaf(id=ident):
            return Scaled(unit_of(ident))
        case Number(value=value):
            return Scaled(None, value)
        case Call(name=name, argument=argument):
            inner = scale_node(argument, unit_of)
            if name in GROWTH_FUNCTIONS:
                return Scaled(GROWTH)
            return replace(inner, unit=POINTS) if name == "change" and is_percent(inner.unit) else inner
        case Binary(operator="*" | "/" as operator, left=left, right=right):
            one, other = scale_node(left, unit_of), scale_node(right, unit_of)
            return multiply(one, other) if operator == "*" else divide(one, other)
        case Binary(operator=operator, left=left, right=right):
            return add(operator, scale_node(left, unit_of), scale_node(right, unit_of))
    return Scaled("")


def is_percent(unit: str | None) -> bool:
    """Return whether a unit is a percentage, possibly with a note such as "% (SA)"."""
    return unit is not None and unit.split(" (")[0] == "%"


def multiply(one: Scaled, other: Scaled) -> Scaled:
    """Return the unit of a product, known when one side is a number."""
    if one.unit is not None and other.unit is not None:
        return Scaled("")
    return Scaled(other.unit if one.unit is None else one.unit, one.factor * other.factor)


def divide(one: Scaled, other: Scaled) -> Scaled:
    """Return the unit of a quotient: a share of two equal units, or the unit of the left side over a number."""
    if not other.factor:
        return Scaled("")
    factor = one.factor / other.factor
    if other.unit is None:
        return Scaled(one.unit, factor)
    return Scaled(SHARE, factor) if one.unit and one.unit == other.unit else Scaled("")


def add(operator: str, one: Scaled, other: Scaled) -> Scaled:
    """Return the unit of a sum or a difference, which a number beside a unit shares."""
    if one.unit is None or other.unit is None:
        # "yoy(x) + 1" and "0 - x" are in the unit of x, "100 * x - 1" in none that is known.
        held = other if one.unit is None else one
        return held if held.factor == 1.0 or held.unit is None or 0.0 in (one.factor, other.factor) else Scaled("")
    if one.factor != other.factor:
        return Scaled("")
    if operator == "-" and is_percent(one.unit) and is_percent(other.unit):
        return Scaled(POINTS, one.factor)
    # Percentages of different adjustment stay percentages.
    if is_percent(one.unit) and is_percent(other.unit):
        return Scaled(one.unit if one.unit == other.unit else "%", one.factor)
    return one if one.unit == other.unit else Scaled("")
