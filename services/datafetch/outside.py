"""What vendors have and the tables do not: prices of unknown codes here, the rest in ``outside_facts``. Off by default.

What a vendor gives stands in a sheet of its own, with its name as the vendor of each column; what none gives stays
in ``missing``, with their reasons. Only plain daily prices are asked for: no frequency, transform or statistic.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import date

from fathom.errors import FathomError, InvalidField
from services.datafetch.connectors import ConnectorsConfig, DataRequest, Fetched, Kind, VendorOff, Vendors, normalise
from services.datafetch.connectors.sanity import Checked
from services.datafetch.connectors.sheet import missing_of, sheet_of
from services.datafetch.model import Combination, Frequency, Missing, Query, Result, Sheet, Transform
from services.datafetch.outside_facts import OutsideFacts

# Indicators of the library and the columns of a vendor's bars.
COLUMNS = {
    "close": "close", "close_adj": "adj_close", "open": "open", "high": "high", "low": "low", "volume": "volume",
}  # fmt: skip
# A word alone is a code only where the caller named it as an entity: a question's CEO must not become shares.
CODE = re.compile(r".*\d{4,}.*|\S+[.:]\S+")
MOST_CODES = 8


@dataclass(frozen=True)
class Filled:
    """What one code gave: sheets, or items that are missing."""

    subject: str
    sheets: tuple[Sheet, ...] = ()
    missing: tuple[Missing, ...] = ()


class Outside:
    """Fills a result's gaps. ``vendors`` None leaves every result as it is."""

    def __init__(
        self, vendors: Vendors | None, config: ConnectorsConfig, listed: Callable[[str], bool] = lambda _: False
    ) -> None:
        """``listed`` tells whether an entity's id is a company on a US exchange, whose statements EDGAR has."""
        self._vendors, self._config = vendors, config
        self._facts = OutsideFacts(vendors, listed) if vendors is not None else None

    async def fill(self, result: Result, as_of: date | None, deadline: float | None) -> Result:
        """The result with what the vendors have; ``deadline`` is on the monotonic clock, in seconds."""
        result = await self.prices(result, as_of, deadline)
        return result if self._facts is None else await self._facts.fill(result, as_of, deadline)

    async def prices(self, result: Result, as_of: date | None, deadline: float | None) -> Result:
        """The result with the prices of unknown codes."""
        wanted = [name for name in COLUMNS if name in asked(result)]
        unknown = [item.subject for item in result.missing if item.reason == "UNKNOWN_ENTITY"]
        codes = [name for name in unknown if is_code(name, name in result.understood.entities)]
        if self._vendors is None or not wanted or not plain(result.understood) or not codes:
            return result
        some = list(dict.fromkeys(codes))[:MOST_CODES]
        query = result.understood
        found = await asyncio.gather(*(self._one(code, wanted, query, as_of, deadline) for code in some))
        return joined(result, [item for item in found if item is not None], wanted)

    async def close(self) -> None:
        """Closes the vendors."""
        if self._vendors is not None:
            await self._vendors.aclose()

    async def _one(
        self, code: str, wanted: Sequence[str], query: Query, as_of: date | None, deadline: float | None
    ) -> Filled | None:
        """None when no vendor of the code's market is enabled."""
        assert self._vendors is not None
        request = DataRequest(Kind.PRICES, code, start=query.start, end=query.end)
        try:
            checked = await self._vendors.check(request, as_of, deadline) if self._config.check_prices else None
            if checked is not None and not checked.agree:
                return disputed(code, checked, wanted)
            answer = await self._vendors.fetch(request, as_of, deadline)
        except VendorOff:
            return None
        except FathomError as error:
            return Filled(code, missing=(missing_of(request, error, as_of),))
        return told(code, answer.fetched, wanted)


def asked(result: Result) -> set[str]:
    """Indicators as understood, and those that are not known here by their name."""
    unknown = {item.aspect for item in result.missing if item.reason == "UNKNOWN_INDICATOR"}
    return {*result.understood.indicators, *unknown}


def plain(query: Query) -> bool:
    """Whether daily bars are an answer."""
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


def told(code: str, fetched: Fetched, wanted: Sequence[str]) -> Filled:
    """A sheet of the columns asked for; closes as traded in place of adjusted ones that the vendor does not give."""
    names = [COLUMNS[name] for name in wanted]
    missing: tuple[Missing, ...] = ()
    if "adj_close" in names and fetched.table.column("adj_close").null_count == fetched.table.num_rows:
        names = ["close", *(name for name in names if name not in ("adj_close", "close"))]
        detail = f"{fetched.provenance.vendor} gives no adjusted close; the close as traded is shown"
        missing = (Missing(code, "NO_DATA_IN_PERIOD", detail, "close_adj"),)
    cut = replace(fetched, table=fetched.table.select(["date", *names]))
    return Filled(code, (sheet_of(cut),), missing)


def disputed(code: str, checked: Checked, wanted: Sequence[str]) -> Filled:
    """Both vendors' sheets and what they disagree on."""
    first, second = told(code, checked.first, wanted), told(code, checked.second, wanted)
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


def joined(result: Result, filled: Sequence[Filled], wanted: Sequence[str]) -> Result:
    """The result with what was found; items that it answers are missing no more."""
    done = {item.subject for item in filled}
    found = any(item.sheets for item in filled)
    kept = [item for item in result.missing if not (item.reason == "UNKNOWN_ENTITY" and item.subject in done)]
    if found:
        answered = {"UNKNOWN_INDICATOR", "NO_MATCH"}
        kept = [item for item in kept if not (item.reason in answered and item.aspect in wanted)]
    sheets = [sheet for item in filled for sheet in item.sheets]
    more = [missing for item in filled for missing in item.missing]
    return replace(result, sheets=(*result.sheets, *sheets), missing=(*kept, *more))
