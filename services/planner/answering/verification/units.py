"""Kinds of units: a number of one kind is no value of another, whatever its digits are."""

from __future__ import annotations

import re

from fathom.services.planner.answering.verification.numbers import (
    CURRENCIES,
    CURRENCY_IN_UNIT,
    DOLLARS,
    NOUNS,
    YENS,
    Number,
)

PERCENT, MONEY, POINTS = "percent", "money", "points"
IN_PERCENT = re.compile(r"%|％|percent|per cent|(?<![a-z])pct(?![a-z])|百分", re.IGNORECASE)
# What stands before these is what a value is counted in: dollars in "USD per barrel".
PER = re.compile(r"\bper\b(?!\s*cent)|/|每", re.IGNORECASE)
# An index has a base, as in "1982-1984=100".
INDEX = re.compile(r"=\s*100\b|\bindex\b|指数", re.IGNORECASE)


def find_kind(unit: str) -> str:
    """Return the kind of a column's unit or of a printed name such as ``return_pct``; "" when it is not known."""
    words = unit.replace("_", " ")
    if IN_PERCENT.search(words):
        return PERCENT
    counted = PER.split(words)[0] or words
    if CURRENCY_IN_UNIT.search(counted):
        return MONEY
    if INDEX.search(words):
        return POINTS
    return next((kind for kind, pattern in NOUNS.items() if pattern.search(f" {counted}")), "")


def name_kind(number: Number) -> str:
    """Return the kind of unit that is written with a number; "" when none is."""
    if number.kind:
        return PERCENT
    return MONEY if number.currency else number.noun


def has_unit(number: Number, unit: str) -> bool:
    """Return whether a number can be a value in this unit: no percentage is a price, no euro a dollar.

    A number that names no unit can be anything, and a unit that is not known holds anything.
    """
    said, held = name_kind(number), find_kind(unit)
    if said == held == MONEY:
        counted = PER.split(unit)[0] or unit
        currencies = [CURRENCIES[found.group(1).lower()] for found in CURRENCY_IN_UNIT.finditer(counted)]
        return any(may_be_same(number.currency, one) for one in currencies)
    return not said or not held or said == held


def may_be_same(left: str, right: str) -> bool:
    """Return whether two currencies may be one: "$" may be any dollar and "¥" yen or yuan."""
    if "$" in (left, right):
        return {left, right} <= DOLLARS
    return {left, right} <= YENS if "¥" in (left, right) else left == right
