"""Connector to BaoStock: daily bars and quarterly profit figures of Shanghai and Shenzhen, without a key, by TCP.

The library baostock keeps one global socket, has no deadlines and spins when the server hangs up; therefore this module
implements its wire format: a header of 21 characters (version, type, length of the body), the parts of the body, a
checksum, and an end mark; some answers are compressed with zlib. Live access is untested; the tests serve the protocol
from the local machine, to this client and to the library alike.
"""

from __future__ import annotations

import asyncio
import json
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, date, datetime
from typing import Any

from fathom.core.errors import DependencyFailed, FathomError, Overloaded
from fathom.services.datafetch.sources.base import (
    DataRequest,
    Fetched,
    Kind,
    NoData,
    Offer,
    RowIssue,
    convert_shape_errors,
    find_last_day,
    make_provenance,
    require_names,
)
from fathom.services.datafetch.sources.cells import (
    Bar,
    make_price_table,
    make_price_units,
    make_statement_table,
    parse_day,
    parse_number,
)
from fathom.services.datafetch.sources.config import ConnectorsConfig
from fathom.services.datafetch.sources.symbols import Market, normalise
from fathom.transport.http import POLICY, MalformedAnswer, UpstreamRefused, with_retries

# Constants of the protocol: separator, end mark, length of a header, version of the library that speaks it.
SPLIT, END, HEAD, VERSION = "\1", b"<![CDATA[]]>\n", 21, "00.9.40"
# Types of answers whose body is compressed.
PACKED = {"96"}
# Thirty years of daily bars are four pages; fifty are a bound for a server that never ends them.
PER_PAGE, MOST_PAGES, MOST_BYTES = 2_000, 50, 32 << 20
BARS = ("date", "open", "high", "low", "close", "volume", "tradestatus")
PROFIT = {
    "roeAvg": "1",
    "npMargin": "1",
    "gpMargin": "1",
    "netProfit": "CNY",
    "epsTTM": "CNY per share",
    "MBRevenue": "CNY",
    "totalShare": "shares",
    "liqaShare": "shares",
}
# One call per quarter: ten years are as many as a deadline of some seconds allows.
QUARTERS = 40


class BaoStock:
    """A connector that opens one session per fetch: log in, read page by page, log out."""

    name = "baostock"

    def __init__(self, config: ConnectorsConfig) -> None:
        self._host, self._port = config.baostock_host, config.baostock_port

    def offers(self) -> tuple[Offer, ...]:
        fields = dict.fromkeys(("open", "high", "low", "close", "volume"), "")
        return (
            Offer(Kind.PRICES, (Market.CN,), fields, "daily", True),
            Offer(Kind.STATEMENTS, (Market.CN,), PROFIT, "quarterly", True),
        )

    async def fetch(self, request: DataRequest, as_of: date | None = None, deadline: float | None = None) -> Fetched:
        """Fetch bars or statements, see ``Connector``.

        Statements have their day of publication; without ``start`` they cover the last ten years.
        """
        code, last = normalise(request.symbol).baostock, find_last_day(request, as_of)
        if request.start and request.start > last:
            raise NoData(self.name, request)
        work = self._fetch_statements if request.kind is Kind.STATEMENTS else self._fetch_bars
        return await with_retries(lambda: work(request, code, last, as_of), POLICY, deadline, self.name)

    async def aclose(self) -> None:
        """Do nothing: no connection stays open."""

    async def _fetch_bars(self, request: DataRequest, code: str, last: date, as_of: date | None) -> Fetched:
        # The first trading day in Shanghai. "d" asks for daily bars, "3" for unadjusted ones.
        ask = [code, ",".join(BARS), f"{request.start or date(1990, 12, 19)}", f"{last}", "d", "3"]
        async with self._open_session() as session:
            fields, rows = await session.fetch_table("95", "query_history_k_data_plus", ask, places=(6, 8))
        bars, issues = read_bars(rows, fields, self.name) if rows else ([], ())
        bars = [bar for bar in bars if bar[0] <= last and (request.start is None or bar[0] >= request.start)]
        if not bars:
            raise NoData(self.name, request)
        facts = {"symbol": normalise(request.symbol).canonical, "currency": "CNY"}
        return Fetched(make_price_table(bars), make_price_units("CNY"), self._make_provenance(as_of), issues, facts)

    async def _fetch_statements(self, request: DataRequest, code: str, last: date, as_of: date | None) -> Fetched:
        rows: list[dict[str, Any]] = []
        async with self._open_session() as session:
            for year, quarter in list_quarters(request.start, last):
                ask = [code, str(year), str(quarter)]
                fields, found = await session.fetch_table("17", "query_profit_data", ask, places=(6, 10))
                with convert_shape_errors(self.name):
                    rows += read_figures(found, fields, request.fields or tuple(PROFIT), self.name)
        # Figures without a day of publication cannot be shown to a question as of a day, so they are left out.
        rows = [row for row in rows if row["filed"] and row["filed"] <= (as_of or date.max) and row["end"] <= last]
        if not rows:
            raise NoData(self.name, request)
        units = {"value": "see column unit"}
        return Fetched(make_statement_table(rows), units, self._make_provenance(as_of), facts={"currency": "CNY"})

    def _make_provenance(self, as_of: date | None) -> Any:
        return make_provenance(self.name, f"tcp://{self._host}:{self._port}", as_of)

    @asynccontextmanager
    async def _open_session(self) -> AsyncIterator[Session]:
        try:
            reader, writer = await asyncio.open_connection(self._host, self._port, limit=MOST_BYTES)
        except OSError as error:
            raise DependencyFailed(self.name, f"cannot be reached ({type(error).__name__})") from error
        session = Session(self.name, reader, writer)
        try:
            # The public account of the library; there is no other.
            await session.ask("00", ["login", session.user, "123456", "0"])
            yield session
            await session.send("02", ["logout", session.user, f"{datetime.now(UTC):%Y%m%d%H%M%S}"])
        except (OSError, asyncio.IncompleteReadError) as error:
            raise DependencyFailed(self.name, f"hung up ({type(error).__name__})") from error
        except asyncio.LimitOverrunError as error:
            raise MalformedAnswer(self.name, f"has more than {MOST_BYTES:,} bytes without an end") from error
        finally:
            # Not awaited: a server that hung up would let the wait fail after the answer is complete.
            writer.close()


class Session:
    """One connection to the server."""

    user = "anonymous"

    def __init__(self, vendor: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._vendor, self._reader, self._writer = vendor, reader, writer

    async def fetch_table(
        self, kind: str, method: str, ask: list[str], places: tuple[int, int]
    ) -> tuple[list[str], list[list[str]]]:
        """Return the field names and the rows of all pages.

        ``places`` are the positions of rows and names in the answer.
        """
        names: list[str] = []
        rows: list[list[str]] = []
        for page in range(1, MOST_PAGES + 1):
            parts = await self.ask(kind, [method, self.user, str(page), str(PER_PAGE), *ask])
            with convert_shape_errors(self._vendor):
                names = [name.strip() for name in parts[places[1]].split(",") if name.strip()]
                found = json.loads(parts[places[0]] or '{"record": []}')["record"]
            rows += found
            # The protocol does not say how many pages there are; a short one is the last.
            if len(found) < PER_PAGE:
                break
        return names, rows

    async def ask(self, kind: str, parts: list[str]) -> list[str]:
        """Send a request and return the parts of the answer; raises the error of its code, see ``make_refusal``."""
        await self.send(kind, parts)
        head = (await self._reader.readexactly(HEAD)).decode("ascii", "replace").split(SPLIT)
        if len(head) != 3 or not head[2].isdigit():
            raise MalformedAnswer(self._vendor, "has no header")
        if head[1] in PACKED:
            # Before reading: the length comes from the server.
            if int(head[2]) > MOST_BYTES:
                raise MalformedAnswer(self._vendor, f"says to have {int(head[2]):,} bytes")
            packed = await self._reader.readexactly(int(head[2]))
            await self._reader.readuntil(END)
            body = decompress(packed, self._vendor)
        else:
            body = (await self._reader.readuntil(END)).removesuffix(END)
        answer = body.decode("utf-8", "replace").split(SPLIT)
        if len(answer) < 2 or answer[0] != "0":
            raise make_refusal(self._vendor, answer)
        return answer

    async def send(self, kind: str, parts: list[str]) -> None:
        body = SPLIT.join(parts)
        message = f"{VERSION}{SPLIT}{kind}{SPLIT}{len(body):010d}{body}"
        # The checksum is over the whole message, header included.
        self._writer.write(f"{message}{SPLIT}{zlib.crc32(message.encode())}\n".encode())
        await self._writer.drain()


def decompress(packed: bytes, vendor: str) -> bytes:
    """Decompress up to 32 MiB; raises ``MalformedAnswer`` for more or for invalid data."""
    unpack = zlib.decompressobj()
    try:
        # One byte more than allowed tells a full body from one that goes on.
        body = unpack.decompress(packed, MOST_BYTES + 1)
    except zlib.error as error:
        raise MalformedAnswer(vendor, f"cannot be unpacked: {error}") from error
    if len(body) > MOST_BYTES:
        raise MalformedAnswer(vendor, f"unpacks to more than {MOST_BYTES:,} bytes")
    return body


def make_refusal(vendor: str, answer: list[str]) -> FathomError:
    """Return the error for a code: 10002… is the network, 10005… the server, 10001005 too many sessions."""
    code = answer[0] if answer[0].isdigit() else "0"
    said = answer[1][:200] if len(answer) > 1 else "no message"
    if code.startswith(("10002", "10005")):
        return DependencyFailed(vendor, f"error {code}: {said}")
    if code == "10001005":
        return Overloaded(f"{vendor} has too many sessions: {said}", 5.0)
    return UpstreamRefused(vendor, int(code), said)


def read_bars(rows: list[list[str]], fields: list[str], vendor: str) -> tuple[list[Bar], tuple[RowIssue, ...]]:
    """Parse the bars of trading days; raises ``EmptySchema`` and ``ChangedSchema``."""
    require_names(vendor, fields, BARS)
    place = {name: fields.index(name) for name in BARS}
    bars: list[Bar] = []
    issues: list[RowIssue] = []
    for index, row in enumerate(rows, start=1):
        try:
            # A suspended day repeats the last close with no volume; it is no trading day.
            if row[place["tradestatus"]] == "0":
                continue
            when = parse_day(row[place["date"]])
            values = [parse_number(row[place[name]]) for name in BARS[1:6]]
            if when is None:
                raise ValueError("has no day")
        except (ValueError, IndexError, TypeError) as error:
            issues.append(RowIssue(index, str(error)))
            continue
        bars.append((when, values[0], values[1], values[2], values[3], values[4], None))
    return bars, tuple(issues)


def read_figures(
    rows: list[list[str]], fields: list[str], wanted: tuple[str, ...], vendor: str
) -> list[dict[str, Any]]:
    """Return one row per figure; raises ``EmptySchema`` and ``ChangedSchema`` with the columns."""
    if not rows:
        return []
    require_names(vendor, fields, ("pubDate", "statDate", *wanted))
    found = []
    for row in rows:
        cells = dict(zip(fields, row, strict=True))
        end, filed = parse_day(cells["statDate"]), parse_day(cells["pubDate"])
        for name in wanted:
            value = parse_number(cells[name])
            if value is not None and end is not None:
                found.append(
                    {"concept": name, "unit": PROFIT.get(name, ""), "end": end, "value": value, "filed": filed}
                )
    return found


def list_quarters(start: date | None, last: date) -> list[tuple[int, int]]:
    """Return the quarters (year, number) from ``start`` to ``last``, the last 40 at most, ascending."""
    found: list[tuple[int, int]] = []
    year, quarter = last.year, (last.month + 2) // 3
    while len(found) < QUARTERS and (start is None or (year, quarter) >= (start.year, (start.month + 2) // 3)):
        found.append((year, quarter))
        year, quarter = (year, quarter - 1) if quarter > 1 else (year - 1, 4)
    return found[::-1]
