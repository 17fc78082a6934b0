"""Connector to AkShare's statements of Chinese companies by its library (extra ``akshare``).

The statements are income, balance and cash flow. The library has no deadlines: a late call goes on in its thread, and
no more than two run at a time. Live access is untested; the tests give the library its answers where it asks for them.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import threading
import time
from collections.abc import Callable
from datetime import date
from typing import Any

from fathom.core.errors import DeadlineExceeded, DependencyFailed, InvalidField, MissingExtra, Overloaded
from fathom.services.datafetch.sources.base import (
    DataRequest,
    Fetched,
    Kind,
    NoData,
    Offer,
    RowIssue,
    Vintage,
    convert_shape_errors,
    make_provenance,
    require_names,
)
from fathom.services.datafetch.sources.cells import make_statement_table, parse_day, parse_number
from fathom.services.datafetch.sources.config import ConnectorsConfig
from fathom.services.datafetch.sources.symbols import Market, normalise
from fathom.transport.http import MalformedAnswer

SHEETS = (
    "stock_profit_sheet_by_report_em",
    "stock_balance_sheet_by_report_em",
    "stock_cash_flow_sheet_by_report_em",
)
NEEDED = ("REPORT_DATE", "NOTICE_DATE", "UPDATE_DATE")
FACTS = frozenset({
    "SECUCODE", "SECURITY_CODE", "SECURITY_NAME_ABBR", "ORG_CODE", "ORG_TYPE", "REPORT_DATE", "REPORT_TYPE",
    "REPORT_DATE_NAME", "SECURITY_TYPE_CODE", "NOTICE_DATE", "UPDATE_DATE", "CURRENCY", "OPINION_TYPE",
    "OSOPINION_TYPE", "LISTING_STATE",
})  # fmt: skip
# A call that hangs keeps its thread for ever; the default pool must not fill up with them.
THREADS = 2


class AkShareStatements:
    """A connector whose ``fields`` are Eastmoney's item names, e.g. ``PARENT_NETPROFIT``; () selects all items."""

    name = "akshare-statements"

    def __init__(self, _: ConnectorsConfig | None = None, library: Any = None) -> None:
        """Raise ``MissingExtra`` without the library; the first call imports it, which takes a second.

        Its settings are the library's own: addresses and proxies of ours do not reach it.
        """
        if library is None and importlib.util.find_spec("akshare") is None:
            raise MissingExtra("akshare", "akshare")
        self._library = library
        self._free = threading.BoundedSemaphore(THREADS)

    def offers(self) -> tuple[Offer, ...]:
        return (Offer(Kind.STATEMENTS, (Market.CN,), {}, "quarterly", True),)

    async def fetch(self, request: DataRequest, as_of: date | None = None, deadline: float | None = None) -> Fetched:
        """Fetch statements, see ``Connector``.

        The source has only the latest figures: one updated after ``as_of`` is skipped, or with ``Vintage.LATEST`` taken
        and marked.
        """
        symbol = normalise(request.symbol)
        if symbol.market is not Market.CN:
            raise InvalidField("symbol", f"{symbol.canonical}: AkShare's statements are of Chinese companies")
        code, rows, issues = f"{symbol.exchange}{symbol.code}", list[dict[str, Any]](), list[RowIssue]()
        revised = False
        for sheet in SHEETS:
            frame = await self._fetch_sheet(sheet, code, deadline)
            with convert_shape_errors(self.name):
                revised |= melt(frame, request, as_of, rows, issues, self.name)
        if not rows:
            raise NoData(self.name, request)
        where = make_provenance(self.name, "akshare." + ", ".join(SHEETS), as_of, revised=revised)
        facts = {"symbol": symbol.canonical, "currency": "CNY"}
        return Fetched(make_statement_table(rows), {"value": "see column unit"}, where, tuple(issues), facts)

    async def aclose(self) -> None:
        """Do nothing: no connection stays open."""

    async def _fetch_sheet(self, sheet: str, code: str, deadline: float | None) -> Any:
        """Return the library's frame, or raise ``DeadlineExceeded`` or ``Overloaded``."""
        # The thread releases its slot when it ends, not when its caller stops waiting.
        if not self._free.acquire(blocking=False):
            raise Overloaded(f"{self.name}: {THREADS} calls are running", 2.0)
        left = None if deadline is None else max(0.0, deadline - time.monotonic())
        try:
            async with asyncio.timeout(left):
                # Shielded: a thread cannot be cancelled, and the slot is released when it ends.
                return await asyncio.shield(
                    asyncio.get_running_loop().run_in_executor(None, self._call_library, sheet, code)
                )
        except TimeoutError as error:
            late = f"{self.name} did not answer in time"
            raise DeadlineExceeded(late, metadata={"culprit": self.name}) from error

    def _call_library(self, sheet: str, code: str) -> Any:
        try:
            if self._library is None:
                self._library = importlib.import_module("akshare")
            ask: Callable[..., Any] = getattr(self._library, sheet)
            return ask(symbol=code)
        except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
            raise MalformedAnswer(self.name, f"{sheet} stumbled: {type(error).__name__} {error}"[:200]) from error
        except Exception as error:  # whatever its HTTP library raises
            raise DependencyFailed(self.name, f"{sheet}: {type(error).__name__}") from error
        finally:
            self._free.release()


def melt(
    frame: Any,
    request: DataRequest,
    as_of: date | None,
    rows: list[dict[str, Any]],
    issues: list[RowIssue],
    vendor: str,
) -> bool:
    """Append one row per item and report; return True when a figure updated after ``as_of`` was taken.

    Raises ``EmptySchema`` and ``ChangedSchema``.
    """
    if frame is None or not len(frame):
        return False
    require_names(vendor, list(frame.columns), NEEDED)
    # Growth rates stand beside each item and are no items of a statement.
    items = [name for name in frame.columns if name not in FACTS and not name.endswith(("_YOY", "_QOQ"))]
    items = [name for name in items if not request.fields or name in request.fields]
    revised = False
    for index, record in enumerate(frame.to_dict("records"), start=1):
        try:
            # Days come with a time of midnight.
            end, filed, updated = (parse_day(str(record[name])[:10]) for name in NEEDED)
        except ValueError as error:
            issues.append(RowIssue(index, str(error)))
            continue
        if end is None or filed is None or is_outside(end, request) or (as_of is not None and filed > as_of):
            continue
        later = as_of is not None and updated is not None and updated > as_of
        if later and request.vintage is Vintage.STRICT:
            continue
        revised |= later
        # A figure is known from its last update on, unless the caller accepts a later revision.
        known = filed if later else max(filed, updated or filed)
        for name in items:
            try:
                value = parse_number(record[name])
            except ValueError as error:
                issues.append(RowIssue(index, str(error), name))
                continue
            if value is not None:
                rows.append({"concept": name, "unit": "CNY", "end": end, "value": value, "filed": known, "form": ""})
    return revised


def is_outside(end: date, request: DataRequest) -> bool:
    return bool((request.start and end < request.start) or (request.end and end > request.end))
