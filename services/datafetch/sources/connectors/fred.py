"""Connector to FRED and its archive ALFRED: US macro series, every vintage with its day of publication.

It needs a free key. Live access is untested; the tests serve the API's answers from the local machine.
"""

from __future__ import annotations

import os
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
    find_last_day,
    make_provenance,
    require_names,
)
from fathom.services.datafetch.sources.cells import make_series_table, parse_day, parse_number
from fathom.services.datafetch.sources.config import ConnectorsConfig
from fathom.services.datafetch.sources.symbols import Market
from fathom.transport.http import HttpClient, HttpPolicy, UpstreamRefused

# The API's largest page, and a bound for a server that never ends its pages: two million rows.
PAGE, MOST_PAGES = 100_000, 20
# The API's own earliest day of vintages.
FIRST = "1776-07-04"


class Fred:
    """A connector whose ``symbol`` is FRED's id of a series, e.g. ``UNRATE``."""

    name = "fred"

    def __init__(self, config: ConnectorsConfig) -> None:
        """Raise ``VendorOff`` without a key in the environment variable that the setting names."""
        self._key = os.environ.get(config.fred_key_env, "").strip() if config.fred_key_env else ""
        if not self._key:
            setting = f"datafetch.connectors.fred_key_env to an environment variable with a key ({config.fred_key_env})"
            raise VendorOff(self.name, setting)
        self._url = config.fred_url.rstrip("/") + "/fred"
        self._client = HttpClient(self.name, HttpPolicy(concurrency=config.concurrency, proxy=config.proxy))

    def offers(self) -> tuple[Offer, ...]:
        return (Offer(Kind.SERIES, (Market.WORLD,), {"value": ""}, "native", True),)

    async def fetch(self, request: DataRequest, as_of: date | None = None, deadline: float | None = None) -> Fetched:
        """Fetch a series, see ``Connector``.

        With ``as_of`` return all vintages published by then, otherwise the latest one only.
        """
        facts = await self._fetch_facts(request, as_of, deadline)
        params: dict[str, Any] = {"series_id": request.symbol, "observation_end": f"{find_last_day(request, as_of)}"}
        if request.start:
            params["observation_start"] = f"{request.start}"
        if as_of:
            # The whole archive up to as_of; without it the API gives today's vintage only.
            params |= {"realtime_start": FIRST, "realtime_end": f"{as_of}"}
        rows: list[dict[str, Any]] = []
        issues: list[RowIssue] = []
        for page in range(MOST_PAGES):
            answer = await self._request(
                "series/observations", {**params, "limit": PAGE, "offset": page * PAGE}, request, deadline
            )
            require_names(self.name, answer if isinstance(answer, dict) else (), ("observations",))
            with convert_shape_errors(self.name):
                read_observations(answer["observations"], as_of, rows, issues, self.name)
            if len(answer["observations"]) < PAGE:
                break
        if not rows:
            raise NoData(self.name, request)
        where = make_provenance(self.name, f"{self._url}/series/observations?series_id={request.symbol}", as_of)
        return Fetched(make_series_table(rows), {"value": facts.get("units", "")}, where, tuple(issues), facts)

    async def aclose(self) -> None:
        await self._client.aclose()

    async def _fetch_facts(self, request: DataRequest, as_of: date | None, deadline: float | None) -> dict[str, str]:
        """Return title, units, frequency and seasonal adjustment as of the day."""
        params = {"series_id": request.symbol}
        if as_of:
            params |= {"realtime_start": f"{as_of}", "realtime_end": f"{as_of}"}
        answer = await self._request("series", params, request, deadline)
        with convert_shape_errors(self.name):
            found = answer["seriess"][0]
            return {name: str(found.get(name) or "") for name in ("title", "units", "frequency", "seasonal_adjustment")}

    async def _request(self, path: str, params: dict[str, Any], request: DataRequest, deadline: float | None) -> Any:
        keyed = {**params, "api_key": self._key, "file_type": "json"}
        try:
            return (await self._client.get(f"{self._url}/{path}", keyed, deadline=deadline)).json()
        except UpstreamRefused as error:
            # FRED answers an unknown series with 400, as it does other mistakes; the text tells them apart.
            if error.status in {400, 404} and "does not exist" in error.message:
                raise NoData(self.name, request) from error
            raise


def read_observations(
    found: list[Any], as_of: date | None, rows: list[dict[str, Any]], issues: list[RowIssue], vendor: str
) -> None:
    """Append observations to ``rows`` and invalid ones to ``issues``; "." means no value.

    Raises ``EmptySchema`` and ``ChangedSchema``.
    """
    if found:
        require_names(vendor, found[0], ("date", "value", "realtime_start"))
    for index, row in enumerate(found, start=len(rows) + len(issues) + 1):
        try:
            when, value = parse_day(row["date"]), parse_number(row["value"])
            # Without as_of the field is today's date for every row and says nothing.
            published = parse_day(row["realtime_start"]) if as_of else None
            if when is None:
                raise ValueError("has no day")
        except ValueError as error:
            issues.append(RowIssue(index, str(error)))
            continue
        # The archive is queried until as_of; any later observations in its answer are dropped.
        if as_of is None or (when <= as_of and published is not None and published <= as_of):
            rows.append({"date": when, "value": value, "published": published})
