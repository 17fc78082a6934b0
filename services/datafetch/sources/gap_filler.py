"""Prices from vendors for codes that the tables lack; off by default. Other data are in ``facts_filler``.

Each vendor's data are a separate sheet with the vendor's name on each column; failures stay in ``missing`` with their
reasons. Only plain daily prices are fetched: no other frequency, transform or statistic.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from datetime import date

from fathom.core.errors import FathomError, InvalidField
from fathom.services.datafetch.query.model import Combination, Frequency, Missing, Query, Result, Sheet, Transform
from fathom.services.datafetch.sources import (
    ConnectorsConfig,
    DataRequest,
    Fetched,
    Kind,
    VendorOff,
    Vendors,
    normalise,
)
from fathom.services.datafetch.sources.facts_filler import FactsFiller
from fathom.services.datafetch.sources.sanity import Checked
from fathom.services.datafetch.sources.sheet import to_missing, to_sheet

# Indicators of the catalog and the columns of a vendor's bars.
COLUMNS = {
    "close": "close", "close_adj": "adj_close", "open": "open", "high": "high", "low": "low", "volume": "volume",
}  # fmt: skip
# A plain word is a code only if the caller named it as an entity: "CEO" in a question must not become a ticker.
CODE = re.compile(r".*\d{4,}.*|\S+[.:]\S+")
# A question that names dozens of codes must not use up the vendors' rates.
MOST_CODES = 8


@dataclass(frozen=True)
class Filled:
    """The outcome for one code: sheets or missing items."""

    subject: str
    sheets: tuple[Sheet, ...] = ()
    missing: tuple[Missing, ...] = ()


class GapFiller:
    """The filler of gaps in results; ``vendors`` None leaves every result unchanged."""

    def __init__(
        self, vendors: Vendors | None, config: ConnectorsConfig, listed: Callable[[str], bool] = lambda _: False
    ) -> None:
        """Store the vendors.

        ``listed`` returns whether an entity id is a company on a US exchange (EDGAR has its statements).
        """
        self.vendors, self._config = vendors, config
        self._facts = FactsFiller(listed)

    async def fill(
        self, result: Result, as_of: date | None, deadline: float | None, off: Collection[str] = ()
    ) -> Result:
        """Return the result with the vendors' data added; ``deadline`` is in seconds of the monotonic clock.

        The vendors in ``off`` are not asked.
        """
        if self.vendors is None:
            return result
        vendors = self.vendors.without(off) if off else self.vendors
        # Prices first: a code that they answer is no gap for statements any more.
        result = await self._fill_prices(vendors, result, as_of, deadline)
        return await self._facts.fill(vendors, result, as_of, deadline)

    async def _fill_prices(
        self, vendors: Vendors, result: Result, as_of: date | None, deadline: float | None
    ) -> Result:
        """Return the result with the prices of unknown codes added.

        ``deadline`` is in seconds of the monotonic clock.
        """
        wanted = [name for name in COLUMNS if name in list_wanted_indicators(result)]
        unknown = [item.subject for item in result.missing if item.reason == "UNKNOWN_ENTITY"]
        codes = [name for name in unknown if is_code(name, name in result.understood.entities)]
        if not wanted or not is_plain(result.understood) or not codes:
            return result
        some = list(dict.fromkeys(codes))[:MOST_CODES]
        query = result.understood
        asked = (self._fetch_code(vendors, code, wanted, query, as_of, deadline) for code in some)
        found = await asyncio.gather(*asked)
        return merge_filled(result, [item for item in found if item is not None], wanted)

    async def close(self) -> None:
        """Close the vendors."""
        if self.vendors is not None:
            await self.vendors.aclose()

    async def _fetch_code(
        self,
        vendors: Vendors,
        code: str,
        wanted: Sequence[str],
        query: Query,
        as_of: date | None,
        deadline: float | None,
    ) -> Filled | None:
        """Fetch the prices of one code; None when no vendor of the code's market is enabled."""
        request = DataRequest(Kind.PRICES, code, start=query.start, end=query.end)
        try:
            # The answers of the check are cached, so the fetch below costs no further call.
            checked = await vendors.check(request, as_of, deadline) if self._config.check_prices else None
            if checked is not None and not checked.agree:
                return report_disagreement(code, checked, wanted)
            answer = await vendors.fetch(request, as_of, deadline)
        # The operator, or who asks, chose no vendor for this market: the missing item stays as it is.
        except VendorOff:
            return None
        except FathomError as error:
            return Filled(code, missing=(to_missing(request, error, as_of),))
        return make_filled(code, answer.fetched, wanted)


def list_wanted_indicators(result: Result) -> set[str]:
    """Return the parsed indicators, and the names of unknown ones."""
    unknown = {item.aspect for item in result.missing if item.reason == "UNKNOWN_INDICATOR"}
    return {*result.understood.indicators, *unknown}


def is_plain(query: Query) -> bool:
    """Return whether daily bars answer the query."""
    return (
        query.frequency in (Frequency.NATIVE, Frequency.DAILY)
        and query.transform == Transform.NONE
        and query.combination == Combination.NONE
        and not (query.filters or query.statistics or query.periods or query.unit or query.currency)
    )


def is_code(name: str, named: bool) -> bool:
    if not named and not CODE.fullmatch(name):
        return False
    try:
        normalise(name)
    except InvalidField:
        return False
    return True


def make_filled(code: str, fetched: Fetched, wanted: Sequence[str]) -> Filled:
    """Return a sheet of the requested columns; unadjusted closes replace adjusted ones that the vendor lacks."""
    names = [COLUMNS[name] for name in wanted]
    missing: tuple[Missing, ...] = ()
    if "adj_close" in names and fetched.table.column("adj_close").null_count == fetched.table.num_rows:
        names = ["close", *(name for name in names if name not in ("adj_close", "close"))]
        detail = f"{fetched.provenance.vendor} gives no adjusted close; the close as traded is shown"
        missing = (Missing(code, "NO_DATA_IN_PERIOD", detail, "close_adj"),)
    cut = replace(fetched, table=fetched.table.select(["date", *names]))
    return Filled(code, (to_sheet(cut),), missing)


def report_disagreement(code: str, checked: Checked, wanted: Sequence[str]) -> Filled:
    """Return both vendors' sheets and a missing item that describes their disagreement."""
    first, second = make_filled(code, checked.first, wanted), make_filled(code, checked.second, wanted)
    vendors = f"{checked.first.provenance.vendor} and {checked.second.provenance.vendor}"
    worst = max(checked.disagreements, key=lambda item: item.relative, default=None)
    said = "have no day in common"
    if worst is not None:
        said = (
            f"disagree on {len(checked.disagreements)} of {checked.compared} days, "
            f"most on {worst.day}: {worst.first:g} and {worst.second:g}"
        )
    flag = Missing(code, "SOURCE_FAILED", f"{vendors} {said}; both are shown", "close")
    return Filled(code, (*first.sheets, *second.sheets), (*first.missing, *second.missing, flag))


def merge_filled(result: Result, filled: Sequence[Filled], wanted: Sequence[str]) -> Result:
    """Return the result with the sheets added, without the missing items that they answer."""
    done = {item.subject for item in filled}
    found = any(item.sheets for item in filled)
    kept = [item for item in result.missing if not (item.reason == "UNKNOWN_ENTITY" and item.subject in done)]
    if found:
        answered = {"UNKNOWN_INDICATOR", "NO_MATCH"}
        kept = [item for item in kept if not (item.reason in answered and item.aspect in wanted)]
    sheets = [sheet for item in filled for sheet in item.sheets]
    more = [missing for item in filled for missing in item.missing]
    return replace(result, sheets=(*result.sheets, *sheets), missing=(*kept, *more))
