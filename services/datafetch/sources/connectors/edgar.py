"""Connector to SEC EDGAR's JSON API: figures of US companies' filings with the day of filing, without a key.

The library edgartools is not used: the API's two addresses suffice, and it has its own cache and rate limit. Every
vintage is kept: a figure that a later filing restates appears twice, each with its ``filed``. Live access is untested;
the tests serve the API's answers from the local machine.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping
from datetime import date
from typing import Any

from fathom.services.datafetch.sources.base import (
    DataRequest,
    Fetched,
    Kind,
    NoData,
    Offer,
    RowIssue,
    VendorOff,
    convert_shape_errors,
    make_provenance,
    require_names,
)
from fathom.services.datafetch.sources.cells import make_statement_table, parse_day, parse_number
from fathom.services.datafetch.sources.config import ConnectorsConfig
from fathom.services.datafetch.sources.symbols import Market, normalise
from fathom.transport.http import HttpClient, HttpPolicy, UpstreamRefused

FACT = ("end", "val", "filed", "form", "accn")
# Up to here single concepts are less to download than all of a company's facts (some megabytes).
ONE_BY_ONE = 4
# The list of tickers is large and changes little from day to day.
TICKERS_S = 86_400.0


class Edgar:
    """A connector whose ``fields`` are concepts such as ``Revenues`` or ``dei:EntityCommonStockSharesOutstanding``."""

    name = "edgar"

    def __init__(self, config: ConnectorsConfig) -> None:
        """Raise ``VendorOff`` without the user agent that the SEC requires."""
        if not config.edgar_agent.strip():
            raise VendorOff(self.name, "datafetch.connectors.edgar_agent to a name and an e-mail address")
        self._data, self._files = config.edgar_url.rstrip("/"), config.edgar_files_url.rstrip("/")
        # All facts of a company come in one answer of several megabytes.
        policy = HttpPolicy(
            concurrency=config.concurrency, proxy=config.proxy, body_bytes=64 << 20, json_bytes=512 << 20
        )
        self._client = HttpClient(self.name, policy, {"user-agent": config.edgar_agent})
        self._tickers: tuple[float, Mapping[str, int]] = (0.0, {})

    def offers(self) -> tuple[Offer, ...]:
        return (Offer(Kind.STATEMENTS, (Market.US,), {}, "quarterly", True),)

    async def fetch(self, request: DataRequest, as_of: date | None = None, deadline: float | None = None) -> Fetched:
        """Fetch statements, see ``Connector``.

        ``symbol`` is a ticker or a CIK, and the period applies to the figures' end dates.
        """
        cik = await self._find_cik(request, deadline)
        if request.fields and len(request.fields) <= ONE_BY_ONE:
            asked = (self._fetch_concept(request, cik, name, deadline) for name in request.fields)
            parts = [part for part in await asyncio.gather(*asked) if part is not None]
            place, name = f"{self._data}/api/xbrl/companyconcept/CIK{cik:010d}", find_entity_name(parts)
        else:
            place = f"{self._data}/api/xbrl/companyfacts/CIK{cik:010d}.json"
            parts, name = await self._fetch_company(request, place, deadline)
        rows: list[dict[str, Any]] = []
        issues: list[RowIssue] = []
        with convert_shape_errors(self.name):
            for part in parts:
                read_concept(part, rows, issues, self.name)
        rows = [row for row in rows if is_visible(row, request, as_of)]
        if not rows:
            raise NoData(self.name, request)
        there = {row["concept"] for row in rows}
        notes = tuple(
            f"{field}: the company reports no such figure"
            for field in request.fields
            if strip_taxonomy(field) not in there
        )
        facts = {"symbol": request.symbol, "name": name, "cik": f"{cik:010d}"}
        where = make_provenance(self.name, place, as_of, notes=notes)
        return Fetched(make_statement_table(rows), {"value": "see column unit"}, where, tuple(issues), facts)

    async def aclose(self) -> None:
        await self._client.aclose()

    async def _find_cik(self, request: DataRequest, deadline: float | None) -> int:
        """Return the company's CIK: as given, or by ticker from the SEC's own list, which is cached for a day."""
        text = request.symbol.strip().upper().removeprefix("CIK")
        # A CIK has up to ten digits.
        if text.isdigit() and 0 < len(text) <= 10:
            return int(text)
        ticker = normalise(request.symbol).code.replace(".", "-")
        until, known = self._tickers
        if time.monotonic() >= until:
            answer = (await self._client.get(f"{self._files}/files/company_tickers.json", deadline=deadline)).json()
            with convert_shape_errors(self.name):
                known = {str(row["ticker"]).upper(): int(row["cik_str"]) for row in answer.values()}
            self._tickers = (time.monotonic() + TICKERS_S, known)
        if ticker not in known:
            raise NoData(self.name, request)
        return known[ticker]

    async def _fetch_concept(self, request: DataRequest, cik: int, field: str, deadline: float | None) -> Any:
        """Return the facts of one concept, or None when the company reports none."""
        # us-gaap is the taxonomy of nearly all figures of US companies; others must be named.
        taxonomy = field.partition(":")[0] if ":" in field else "us-gaap"
        place = f"{self._data}/api/xbrl/companyconcept/CIK{cik:010d}/{taxonomy}/{strip_taxonomy(field)}.json"
        try:
            answer = (await self._client.get(place, deadline=deadline)).json()
        except UpstreamRefused as error:
            if error.status == 404:
                return None
            raise
        require_names(self.name, answer if isinstance(answer, dict) else (), ("tag", "units"))
        return answer

    async def _fetch_company(
        self, request: DataRequest, place: str, deadline: float | None
    ) -> tuple[list[Mapping[str, Any]], str]:
        """Return the company's concepts, limited to ``fields`` if given, and its name.

        Each concept has the shape of a single one's answer.
        """
        try:
            answer = (await self._client.get(place, deadline=deadline)).json()
        except UpstreamRefused as error:
            if error.status == 404:
                raise NoData(self.name, request) from error
            raise
        require_names(self.name, answer if isinstance(answer, dict) else (), ("facts",))
        wanted = {strip_taxonomy(field) for field in request.fields}
        with convert_shape_errors(self.name):
            parts: list[Mapping[str, Any]] = [
                {"tag": tag, "units": facts["units"]}
                for concepts in answer["facts"].values()
                for tag, facts in concepts.items()
                if not wanted or tag in wanted
            ]
        return parts, str(answer.get("entityName") or "")


def strip_taxonomy(field: str) -> str:
    """Return a concept without its taxonomy: "dei:EntityRegistrantName" → "EntityRegistrantName"."""
    return field.rpartition(":")[2]


def find_entity_name(parts: Iterable[Mapping[str, Any]]) -> str:
    return next((str(part["entityName"]) for part in parts if part.get("entityName")), "")


def read_concept(part: Mapping[str, Any], rows: list[dict[str, Any]], issues: list[RowIssue], vendor: str) -> None:
    """Append a concept's facts to ``rows`` and invalid ones to ``issues``.

    Raises ``EmptySchema`` and ``ChangedSchema``.
    """
    for unit, facts in part["units"].items():
        if facts:
            require_names(vendor, facts[0], FACT)
        for number_, fact in enumerate(facts, start=1):
            try:
                row = {
                    "concept": part["tag"],
                    "unit": unit,
                    "start": parse_day(fact.get("start")),
                    "end": parse_day(fact["end"]),
                    "value": parse_number(fact["val"]),
                    "filed": parse_day(fact["filed"]),
                    "form": fact["form"],
                    "accession": fact["accn"],
                }
            except (KeyError, ValueError) as error:
                issues.append(RowIssue(number_, str(error), f"{part['tag']} in {unit}"))
                continue
            rows.append(row)


def is_visible(row: Mapping[str, Any], request: DataRequest, as_of: date | None) -> bool:
    """Return whether a fact was filed by ``as_of`` and its period ends within the requested one."""
    end, filed = row["end"], row["filed"]
    if end is None or filed is None or (as_of is not None and filed > as_of):
        return False
    return (request.start is None or end >= request.start) and (request.end is None or end <= request.end)
