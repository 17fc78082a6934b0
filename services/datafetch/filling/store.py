"""Folder of fetched statements: a file per company, and the tables that datafetch reads, made from all of them.

A company's file is replaced as a whole, so that a command that was interrupted goes on with the companies that it
lacks; fetching the same figures again changes nothing. The tables follow from the files.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import yaml
from pydantic import TypeAdapter, ValidationError

from fathom.core.errors import CorruptData
from fathom.domain.frames import arrow
from fathom.domain.replacing import replace_whole, write_whole
from fathom.services.datafetch.filling.annual import Figure

TABLES, COMPANIES = "tables.yaml", "companies"


@dataclass(frozen=True)
class Company:
    """Company as it was fetched: its figures, and the statements with the years that were asked for.

    ``id`` is the entity of the tables, ``retrieved`` when its figures came last, ``place`` where from.
    """

    id: str
    name: str
    vendor: str
    place: str
    retrieved: datetime
    asked: tuple[tuple[str, int, int], ...]
    figures: tuple[Figure, ...]

    def covers(self, statements: Collection[str], first: int, last: int) -> bool:
        """Return whether all of these statements and years were asked for already."""
        years = {(kind, year) for kind, begin, end in self.asked for year in range(begin, end + 1)}
        return {(kind, year) for kind in statements for year in range(first, last + 1)} <= years

    def is_recent(self, now: datetime, days: float) -> bool:
        """Return whether the figures came within the last ``days``."""
        return now - self.retrieved < timedelta(days=days)

    def add(self, later: Company) -> Company:
        """Return what is known with what came later, whose figures replace those of the same day and publication."""
        known = {(one.indicator, one.day, one.unit, one.published): one for one in (*self.figures, *later.figures)}
        asked = tuple(dict.fromkeys((*self.asked, *later.asked)))
        return replace(later, asked=asked, figures=tuple(known[key] for key in sorted(known)))


READER: TypeAdapter[Company] = TypeAdapter(Company)


class FetchedTables:
    """The folder; one command at a time writes to it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def load(self, ident: str) -> Company | None:
        """Return what was fetched of a company, None for nothing; raise ``CorruptData`` naming the file."""
        path = self._name_file(ident)
        return read_company(path) if path.exists() else None

    def save(self, company: Company) -> Company:
        """Add what was fetched of a company to what is there; return both."""
        known = self.load(company.id)
        whole = known.add(company) if known else company
        text = json.dumps(asdict(whole), ensure_ascii=False, indent=1, default=str)
        write_whole(self._name_file(company.id), text.encode())
        return whole

    def write_tables(self, known_entities: Collection[str]) -> int:
        """Write the tables of all companies and return the number of figures; those in ``known_entities`` have names.

        The description comes last, so that no reader finds one without its tables.
        """
        companies = [read_company(path) for path in sorted((self._folder / COMPANIES).glob("*.json"))]
        by_vendor: dict[str, list[Company]] = {}
        for company in companies:
            if company.figures:
                by_vendor.setdefault(company.vendor, []).append(company)
        if not by_vendor:
            return 0
        pa = arrow()
        for vendor, own in by_vendor.items():
            self._write(f"statements_{vendor}.parquet", list_observations(own))
            series = list(describe_series(own))
            self._write(
                f"series_{vendor}.parquet", {name: pa.array([row[name] for row in series]) for name in series[0]}
            )
        new = [company for company in companies if company.id not in known_entities]
        if new:
            self._write(
                "companies.parquet",
                {"id": pa.array([one.id for one in new]), "name": pa.array([one.name for one in new])},
            )
        described = yaml.safe_dump(
            describe_tables(sorted(by_vendor), has_companies=bool(new)), allow_unicode=True, sort_keys=False
        )
        write_whole(self._folder / TABLES, described.encode())
        return sum(len(company.figures) for company in companies)

    def _name_file(self, ident: str) -> Path:
        return self._folder / COMPANIES / f"{ident}.json"

    def _write(self, name: str, columns: Mapping[str, Any]) -> None:
        import pyarrow.parquet as parquet

        with replace_whole(self._folder / name) as path:
            parquet.write_table(arrow().table(columns), path)


def read_company(path: Path) -> Company:
    """Return a company's file; raise ``CorruptData`` naming it when it is none."""
    try:
        return READER.validate_json(path.read_bytes())
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise CorruptData(str(path), f"{where}: {first['msg']}; delete it and fetch the company again") from error


def list_observations(companies: Sequence[Company]) -> dict[str, Any]:
    """Return the figures of some companies as columns of a table."""
    pa, rows = arrow(), [(company, figure) for company in companies for figure in company.figures]
    return {
        "entity": pa.array([company.id for company, _ in rows]),
        "indicator": pa.array([one.indicator for _, one in rows]),
        "date": pa.array([one.day for _, one in rows], pa.date32()),
        "value": pa.array([one.value for _, one in rows], pa.float64()),
        "published": pa.array([one.published for _, one in rows], pa.date32()),
        "concept": pa.array([one.concept for _, one in rows]),
        "form": pa.array([one.form for _, one in rows]),
        "accession": pa.array([one.accession for _, one in rows]),
    }


def describe_series(companies: Sequence[Company]) -> Iterator[dict[str, Any]]:
    """Yield the facts of each series as the warehouse reads them: unit, source with its day, first and last date."""
    for company in companies:
        by_indicator: dict[str, list[Figure]] = {}
        for figure in company.figures:
            by_indicator.setdefault(figure.indicator, []).append(figure)
        for indicator, figures in by_indicator.items():
            days: list[date] = [one.day for one in figures]
            yield {
                "entity": company.id,
                "indicator": indicator,
                "name": indicator.replace("_", " "),
                "unit": figures[-1].unit,
                "frequency": "annual",
                "source": f"{company.place}, retrieved {company.retrieved.astimezone(UTC).date()}",
                "first_date": min(days),
                "as_of": max(days),
                "basis": "",
            }


def describe_tables(vendors: Sequence[str], *, has_companies: bool) -> dict[str, Any]:
    """Return the semantic file of the tables, of which each vendor has one of its own."""
    companies = {
        "path": "companies.parquet",
        "id": "id",
        "kind": "stock",
        "name": "name",
        "market": "US",
        "currency": "USD",
    }
    tables = [
        {
            "id": f"fetched_statements_{vendor}",
            "path": f"statements_{vendor}.parquet",
            "layout": "long",
            "series": f"series_{vendor}.parquet",
            "frequency": "annual",
            "published": {"column": "published"},
            "vendor": vendor,
            "licence": "facts of public filings",
            "description": "annual statements of companies, written by fathom data fetch",
        }
        for vendor in vendors
    ]
    return {"version": 1, **({"entity_tables": [companies]} if has_companies else {}), "tables": tables}
