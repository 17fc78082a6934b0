"""Sheets returned by ``data``: their series with readable labels, and the rows shown in their digest."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fathom.services.policy.backends.rules.reading import Reading, Step

# More lines than these make a chart unreadable and an answer a table.
MAX_SERIES = 8
PRICE = re.compile(r"close|price|nav\b|adj", re.IGNORECASE)
# ``return(close_adj)``, ``yoy(cpi)``, ``a / b``: what is made of a price has no return and no drawdown of its own.
DERIVED = re.compile(r"[()/%*+]|\s-\s")
ROW = re.compile(r"^\d+\s+(\d{4}-\d\d-\d\d)\s+(\S.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Series:
    """One column of one sheet. ``price`` is True for prices, which have returns, and False for rates and levels."""

    variable: str
    material: int
    column: str
    label: str
    unit: str
    price: bool
    as_of: str


def is_share(one: Series) -> bool:
    """Return whether the series is a share price; those are adjusted, so their returns are total returns."""
    return one.price and one.unit != "points" and " per " not in one.unit and not one.unit.startswith("per ")


def is_price_index(one: Series) -> bool:
    """Return whether the series is an index level, whose return excludes dividends."""
    return one.price and one.unit == "points"


def sheets_of(reading: Reading) -> list[Mapping[str, Any]]:
    """Return the sheets of all data calls in order."""
    return [sheet for step in reading.of("data") if step.ok for sheet in step.head.get("sheets", ())]


def series_of(sheets: Sequence[Mapping[str, Any]]) -> list[Series]:
    """Return the numeric columns of the sheets, at most ``MAX_SERIES``."""
    found: list[Series] = []
    for sheet in sheets:
        columns = [column for column in sheet.get("columns", ()) if is_value(column)]
        if not any(column.get("name") == "date" for column in sheet.get("columns", ())):
            continue
        labels = labels_of(str(sheet.get("title", "")), columns)
        for column, label in zip(columns, labels, strict=True):
            kind = str(column.get("indicator") or column["name"])
            found.append(
                Series(
                    variable=str(sheet["variable"]),
                    material=int(sheet.get("material", 0)),
                    column=column["name"],
                    label=label,
                    unit=str(column.get("unit", "")),
                    price=is_price(kind, str(column.get("unit", ""))),
                    as_of=str(column.get("as_of", "")),
                )
            )
    return found[:MAX_SERIES]


def is_value(column: Mapping[str, Any]) -> bool:
    """Return whether the column is numeric."""
    return column.get("name") != "date" and bool(re.match(r"u?int|float|double|decimal", str(column.get("type", ""))))


def is_price(indicator: str, unit: str) -> bool:
    """Return whether the indicator is a price or level with returns.

    False for returns, percentages and derived values.
    """
    return bool(PRICE.search(indicator)) and not DERIVED.search(indicator) and not unit.lstrip().startswith("%")


def labels_of(title: str, columns: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return short distinct names of the columns, from a title "<entities>: <indicators>, …" if it fits; else ids."""
    entities = distinct(columns, "entity")
    indicators = distinct(columns, "indicator")
    before, _, after = title.partition(": ")
    entity_names = named(entities, before.split(", "))
    indicator_names = named(indicators, after.split(", ")[: len(indicators)])
    labels = []
    for column in columns:
        entity = entity_names.get(str(column.get("entity", "")), "")
        indicator = indicator_names.get(str(column.get("indicator", "")), "")
        # One name is enough where the other is shared by all; a lone rate needs both, a lone price only whose it is.
        lone_level = len(columns) == 1 and not PRICE.search(str(column.get("indicator", "")))
        both = lone_level or (len(entities) > 1 and len(indicators) > 1)
        parts = [entity, indicator] if both else [entity] if len(indicators) < 2 else [indicator]
        labels.append(" ".join(part for part in parts if part) or str(column["name"]))
    unique = len(set(labels)) == len(labels)
    return labels if unique else [str(column["name"]) for column in columns]


def distinct(columns: Sequence[Mapping[str, Any]], field: str) -> list[str]:
    """Return the distinct values of a field in order."""
    return list(dict.fromkeys(str(column.get(field, "")) for column in columns if column.get(field)))


def named(ids: Sequence[str], names: Sequence[str]) -> dict[str, str]:
    """Return readable names by id if there is one for each, else the ids themselves."""
    fits = len(ids) == len(names) and all(name.strip() for name in names)
    return dict(zip(ids, (name.strip() for name in names) if fits else ids, strict=True))


def subject_of(sheet: Mapping[str, Any]) -> str:
    """Return the sheet's title without frequency and period."""
    title = str(sheet.get("title", ""))
    return re.split(r",\s*(?:daily|weekly|monthly|quarterly|annual|\d{4})", title)[0]


def shown_rows(step: Step, variable: str) -> list[tuple[str, list[str]]]:
    """Return date and cells of the rows in a sheet's digest; [] when the sheet is not shown."""
    start = re.search(rf"^{re.escape(variable)}: .*$", step.body, re.MULTILINE)
    if start is None:
        return []
    rest = step.body[start.end() :]
    end = re.search(r"^sheet_\d+: ", rest, re.MULTILINE)
    rows = ROW.findall(rest[: end.start()] if end else rest)
    return [(date, cells.split()) for date, cells in rows]
