"""BaoStock's protocol, served here; the library itself is the witness that the server speaks it."""

from __future__ import annotations

import asyncio
import json
import threading
import time
import zlib
from collections.abc import AsyncIterator, Callable
from datetime import date
from typing import Any

import pytest

from fathom.core.errors import DeadlineExceeded, DependencyFailed, InvalidField, Overloaded
from fathom.services.datafetch.sources.base import ChangedSchema, DataRequest, EmptySchema, Kind, NoData
from fathom.services.datafetch.sources.config import ConnectorsConfig
from fathom.services.datafetch.sources.connectors.baostock import BaoStock, list_quarters
from fathom.transport.http import MalformedAnswer, UpstreamRefused

FIELDS = "date,open,high,low,close,volume,tradestatus"
ROWS = [
    ["2024-01-02", "1715.0000", "1718.1900", "1678.1000", "1685.0100", "3215644", "1"],
    ["2024-01-03", "", "", "", "1685.0100", "0", "0"],
    ["2024-01-04", "1693.0000", "1693.0000", "1662.9300", "1669.0000", "2155107", "1"],
]
PROFIT = "code,pubDate,statDate,roeAvg,npMargin,gpMargin,netProfit,epsTTM,MBRevenue,totalShare,liqaShare"
REPORTS = {
    ("2023", "4"): [
        "sh.600519",
        "2024-04-03",
        "2023-12-31",
        "0.361",
        "0.524",
        "0.919",
        "77521476289.0",
        "59.49",
        "147694000000.0",
        "1256197800",
        "1256197800",
    ],
    ("2024", "1"): [
        "sh.600519",
        "2024-04-27",
        "2024-03-31",
        "0.105",
        "0.542",
        "0.926",
        "25200000000.0",
        "62.1",
        "",
        "1256197800",
        "1256197800",
    ],
}


class Server:
    """Answers login and queries; ``rows`` come in pages, ``spoil`` may change an answer's bytes."""

    def __init__(self, rows: list[list[str]] | None = None, fields: str = FIELDS, error: str = "0") -> None:
        self.rows, self.fields, self.error = ROWS if rows is None else rows, fields, error
        self.asked: list[list[str]] = []
        self.spoil: Callable[[bytes], bytes] = bytes
        self.silent = False
        self.left = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                head, body = line[:21].decode(), line[21:].decode().rstrip("\n")
                message, _, checksum = (head + body).rpartition("\1")
                assert int(checksum) == zlib.crc32(message.encode())
                parts = message[21:].split("\1")
                self.asked.append(parts)
                if parts[0] == "logout":
                    self.left.set()
                    break
                if self.silent and parts[0] != "login":
                    await reader.read()
                writer.write(self.spoil(self.answer(head.split("\1")[1], parts)))
                await writer.drain()
        finally:
            writer.close()

    def answer(self, kind: str, parts: list[str]) -> bytes:
        if kind == "00":
            return frame_reply("01", ["0", "success", "login", "anonymous"])
        if self.error != "0":
            return frame_reply("04", [self.error, "网络错误"])
        if kind == "95":
            page, size = int(parts[2]), int(parts[3])
            record = json.dumps({"record": self.rows[(page - 1) * size : page * size]})
            body = [
                "0",
                "success",
                parts[0],
                "anonymous",
                parts[2],
                parts[3],
                record,
                parts[4],
                self.fields,
                *parts[6:10],
            ]
            return frame_reply("96", body, packed=True)
        report = REPORTS.get((parts[5], parts[6]))
        record = json.dumps({"record": [report]}) if report else ""
        return frame_reply(
            "18", ["0", "success", parts[0], "anonymous", "1", parts[3], record, parts[4], parts[5], parts[6], PROFIT]
        )


def frame_reply(kind: str, parts: list[str], packed: bool = False) -> bytes:
    body = "\1".join(parts).encode()
    # As the library reads them: what is not packed carries a checksum before the end mark.
    content = zlib.compress(body) if packed else body + b"\x01" + str(zlib.crc32(body)).encode()
    return f"00.9.40\1{kind}\1{len(content):010d}".encode() + content + b"<![CDATA[]]>\n"


@pytest.fixture
async def start() -> AsyncIterator[Any]:
    servers: list[asyncio.Server] = []

    async def begin(server: Server) -> BaoStock:
        listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
        servers.append(listening)
        return BaoStock(
            ConnectorsConfig(baostock_host="127.0.0.1", baostock_port=listening.sockets[0].getsockname()[1])
        )

    yield begin
    for listening in servers:
        listening.close()


async def test_bars_of_days_with_trade(start: Any) -> None:
    server = Server()
    source = await start(server)
    found = await source.fetch(DataRequest(Kind.PRICES, "600519.SH", start=date(2024, 1, 1)), as_of=date(2024, 1, 4))
    assert found.table.column("date").to_pylist() == [date(2024, 1, 2), date(2024, 1, 4)]
    assert found.table.column("close").to_pylist() == [1685.01, 1669.0]
    assert found.table.column("volume").to_pylist() == [3215644.0, 2155107.0]
    await asyncio.wait_for(server.left.wait(), 5)
    query = server.asked[1]
    assert (query[0], query[4], query[6:10]) == (
        "query_history_k_data_plus",
        "sh.600519",
        ["2024-01-01", "2024-01-04", "d", "3"],
    )
    assert [asked[0] for asked in server.asked] == ["login", "query_history_k_data_plus", "logout"]


async def test_all_pages_are_read(start: Any) -> None:
    day = date(2015, 1, 1).toordinal()
    rows = [[str(date.fromordinal(day + number)), "1", "1", "1", str(number), "1", "1"] for number in range(4_500)]
    source = await start(Server(rows))
    found = await source.fetch(DataRequest(Kind.PRICES, "sz.000001"))
    assert found.table.num_rows == sum(date.fromordinal(day + number) <= date.today() for number in range(4_500))


async def test_statements_keep_the_day_of_publication(start: Any) -> None:
    source = await start(Server())
    request = DataRequest(
        Kind.STATEMENTS, "600519", ("netProfit", "MBRevenue"), start=date(2023, 10, 1), end=date(2024, 6, 30)
    )
    whole = (await source.fetch(request)).table
    assert whole.select(["concept", "unit", "end", "value", "filed"]).to_pylist()[:2] == [
        {
            "concept": "MBRevenue",
            "unit": "CNY",
            "end": date(2023, 12, 31),
            "value": 147694000000.0,
            "filed": date(2024, 4, 3),
        },
        {
            "concept": "netProfit",
            "unit": "CNY",
            "end": date(2023, 12, 31),
            "value": 77521476289.0,
            "filed": date(2024, 4, 3),
        },
    ]
    early = (await source.fetch(request, as_of=date(2024, 4, 26))).table
    assert set(early.column("end").to_pylist()) == {date(2023, 12, 31)}
    with pytest.raises(NoData):
        await source.fetch(request, as_of=date(2024, 4, 2))
    assert list_quarters(date(2023, 12, 31), date(2024, 4, 1)) == [(2023, 4), (2024, 1), (2024, 2)]


@pytest.mark.parametrize(
    ("server", "error", "says"),
    [
        (Server(error="10004011"), UpstreamRefused, "10004011"), (Server(error="10005001"), DependencyFailed, "10005001"),
        (Server(error="10001005"), Overloaded, "sessions"), (Server([]), NoData, "600519"),
        (Server(fields="date,open,high,low,volume,tradestatus"), ChangedSchema, "lacks close"), (Server(fields=""), EmptySchema, "date, open"),
    ],
)  # fmt: skip
async def test_refusals_and_changed_schemas_are_typed(
    start: Any, server: Server, error: type[Exception], says: str
) -> None:
    source = await start(server)
    with pytest.raises(error, match=says):
        await source.fetch(DataRequest(Kind.PRICES, "600519"), deadline=time.monotonic() + 3)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda _: b"",
        lambda data: data[:30],
        lambda _: b"x" * 40 + b"<![CDATA[]]>\n",
        lambda data: data.replace(b"login", b"x\xff"),
    ],
)
async def test_spoilt_answers_are_typed_and_end(start: Any, spoil: Callable[[bytes], bytes]) -> None:
    server = Server()
    server.spoil = spoil
    source = await start(server)
    if spoil(b"login") == b"x\xff":
        assert (await source.fetch(DataRequest(Kind.PRICES, "600519"))).table.num_rows == 2
        return
    with pytest.raises((DependencyFailed, MalformedAnswer, DeadlineExceeded)):
        await source.fetch(DataRequest(Kind.PRICES, "600519"), deadline=time.monotonic() + 1)


async def test_silence_costs_no_more_than_the_deadline_and_other_markets_are_refused(start: Any) -> None:
    server = Server()
    server.silent = True
    source = await start(server)
    with pytest.raises(DeadlineExceeded):
        await source.fetch(DataRequest(Kind.PRICES, "600519"), deadline=time.monotonic() + 0.3)
    with pytest.raises(InvalidField, match="Shanghai"):
        await source.fetch(DataRequest(Kind.PRICES, "00700.HK"))
    with pytest.raises(DependencyFailed, match="cannot be reached"):
        await BaoStock(ConnectorsConfig(baostock_host="127.0.0.1", baostock_port=1)).fetch(
            DataRequest(Kind.PRICES, "600519"), deadline=time.monotonic() + 10
        )


async def test_the_library_reads_the_same_server_alike(start: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    library = pytest.importorskip("baostock", reason="the library baostock is not installed")
    constants = pytest.importorskip("baostock.common.contants")
    source = await start(Server())
    monkeypatch.setattr(constants, "BAOSTOCK_SERVER_IP", "127.0.0.1")
    monkeypatch.setattr(constants, "BAOSTOCK_SERVER_PORT", source._port)
    seen: dict[str, Any] = {}

    def ask() -> None:
        seen["login"] = library.login().error_code
        bars = library.query_history_k_data_plus("sh.600519", FIELDS, "2024-01-01", "2024-01-04", "d", "3")
        seen["fields"], seen["rows"] = bars.fields, bars.data
        profit = library.query_profit_data("sh.600519", 2023, 4)
        seen["profit"] = profit.data, profit.fields
        pytest.importorskip("baostock.common.context").default_socket.close()  # the library itself never does

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    await asyncio.to_thread(thread.join, 20)
    assert seen["login"] == "0"
    assert (seen["fields"], seen["rows"]) == (FIELDS.split(","), ROWS)
    assert seen["profit"] == ([REPORTS["2023", "4"]], PROFIT.split(","))
