"""Connector to the World Bank's public API: annual figures of countries, without a key.

The API has only the latest figures and the day of their last update. A request as of an earlier day is refused, unless
it accepts the latest vintage, which is then marked. Live access is untested; the tests serve the API's answers from the
local machine.
"""

from __future__ import annotations

import re
from datetime import date, timedelta
from typing import Any

from fathom.core.errors import InvalidField
from fathom.services.datafetch.sources.base import (
    DataRequest,
    Fetched,
    Kind,
    NoData,
    NoVintage,
    Offer,
    RowIssue,
    Vintage,
    convert_shape_errors,
    find_last_day,
    make_provenance,
    require_names,
)
from fathom.services.datafetch.sources.cells import make_series_table, parse_day, parse_number
from fathom.services.datafetch.sources.config import ConnectorsConfig
from fathom.services.datafetch.sources.symbols import Market
from fathom.transport.http import HttpClient, HttpPolicy, MalformedAnswer

ID = re.compile(r"[A-Za-z0-9.]{1,64}")
COUNTRY = re.compile(r"[A-Za-z]{2,3}")
# "2021", "2021Q3", "2021M07".
PERIOD = re.compile(r"(\d{4})(?:Q([1-4])|M(\d{2}))?")
# A thousand rows a page: no series is longer; a server that never ends its pages is left.
MOST_PAGES = 20
# The API's numbers for an invalid value (120) and an unknown indicator (175), sent with status 200.
UNKNOWN = {"120", "175"}


class WorldBank:
    """A connector whose ``symbol`` is an indicator id (``NY.GDP.MKTP.CD``) and ``entity`` a country's ISO code."""

    name = "worldbank"

    def __init__(self, config: ConnectorsConfig) -> None:
        self._url = config.worldbank_url.rstrip("/") + "/v2/country"
        self._client = HttpClient(self.name, HttpPolicy(concurrency=config.concurrency, proxy=config.proxy))

    def offers(self) -> tuple[Offer, ...]:
        return (Offer(Kind.SERIES, (Market.WORLD,), {"value": ""}, "annual", False),)

    async def fetch(self, request: DataRequest, as_of: date | None = None, deadline: float | None = None) -> Fetched:
        """Fetch a series, see ``Connector``; dates are the last days of the periods."""
        if not ID.fullmatch(request.symbol):
            raise InvalidField("symbol", f"{request.symbol[:64]!r} is no indicator's id")
        if not COUNTRY.fullmatch(request.entity):
            raise InvalidField("entity", f"{request.entity[:64]!r} is no country's ISO code")
        place = f"{self._url}/{request.entity.upper()}/indicator/{request.symbol}"
        last = find_last_day(request, as_of)
        params: dict[str, Any] = {"format": "json", "per_page": 1000}
        # 1960 is the first year of the World Development Indicators.
        params["date"] = f"{request.start.year if request.start else 1960}:{last.year}"
        rows: list[dict[str, Any]] = []
        issues: list[RowIssue] = []
        facts: dict[str, str] = {}
        for page in range(1, MOST_PAGES + 1):
            answer = (await self._client.get(place, {**params, "page": page}, deadline=deadline)).json()
            head, found = split_page(answer, request, self.name)
            with convert_shape_errors(self.name):
                facts |= read_page(found, request, last, rows, issues, self.name)
                updated, pages = parse_day(head.get("lastupdated")), int(head.get("pages") or 1)
            if page >= pages:
                break
        revised = self._is_revised(as_of, updated, request)
        if not rows:
            raise NoData(self.name, request)
        if updated:
            # Revised figures must not carry a day of publication that the caller could rely on.
            rows = [{**row, "published": None if revised else updated} for row in rows]
        where = make_provenance(self.name, place, as_of, revised=revised, notes=(f"last updated {updated}",))
        return Fetched(make_series_table(rows), {"value": facts.get("unit", "")}, where, tuple(issues), facts)

    async def aclose(self) -> None:
        await self._client.aclose()

    def _is_revised(self, as_of: date | None, updated: date | None, request: DataRequest) -> bool:
        """Return whether the figures may be newer than ``as_of``.

        Raises ``NoVintage`` when the request does not accept that.
        """
        if as_of is None or (updated is not None and updated <= as_of):
            return False
        if request.vintage is Vintage.STRICT:
            raise NoVintage(self.name, as_of, f"its figures were last updated on {updated or 'a day it does not say'}")
        return True


def split_page(answer: Any, request: DataRequest, vendor: str) -> tuple[Any, list[Any]]:
    """Return head and rows of a page; raises ``NoData`` for unknown ids, and ``MalformedAnswer``."""
    with convert_shape_errors(vendor):
        if isinstance(answer[0], dict) and "message" in answer[0]:
            message = answer[0]["message"][0]
            if str(message.get("id")) in UNKNOWN:
                raise NoData(vendor, request)
            raise MalformedAnswer(vendor, f"says {message.get('value')!r}")
        # A page without rows is null instead of an empty list.
        return answer[0], answer[1] or []


def read_page(
    found: list[Any], request: DataRequest, last: date, rows: list[dict[str, Any]], issues: list[RowIssue], vendor: str
) -> dict[str, str]:
    """Append the page's observations to ``rows`` and return its title, country and unit.

    Raises ``EmptySchema`` and ``ChangedSchema``.
    """
    if not found:
        return {}
    require_names(vendor, found[0], ("indicator", "country", "date", "value"))
    for index, row in enumerate(found, start=len(rows) + len(issues) + 1):
        try:
            end, value = parse_period_end(str(row["date"])), parse_number(row["value"])
        except ValueError as error:
            issues.append(RowIssue(index, str(error)))
            continue
        if end <= last and (request.start is None or end >= request.start):
            rows.append({"date": end, "value": value})
    name, country = str(found[0]["indicator"]["value"]), str(found[0]["country"]["value"])
    # The unit stands in the title: "GDP (current US$)".
    unit = re.search(r"\(([^()]+)\)\s*$", name)
    return {"title": name, "name": country, "unit": str(found[0].get("unit") or (unit[1] if unit else ""))}


def parse_period_end(text: str) -> date:
    """Parse a year, quarter or month to its last day: "2021Q3" → 2021-09-30; raises ``ValueError``."""
    found = PERIOD.fullmatch(text)
    if not found:
        raise ValueError(f"{text[:40]!r} is no period")
    year = int(found[1])
    month = int(found[3]) if found[3] else 3 * int(found[2]) if found[2] else 12
    return date(year + month // 12, month % 12 + 1, 1) - timedelta(days=1)
