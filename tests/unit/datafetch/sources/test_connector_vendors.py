"""The chain of vendors: who is asked, what is kept, what is flagged, and that nothing later than ``as_of`` passes."""

from __future__ import annotations

import asyncio
import importlib.util
import time
from collections.abc import Awaitable, Callable
from datetime import date, timedelta
from typing import Any

import pytest
from aiohttp import web

from fathom.core.errors import DependencyFailed, FathomError, InvalidField, MissingExtra, NotFound, Overloaded
from fathom.services.datafetch.sources import (
    AllVendorsFailed,
    ChangedSchema,
    Connector,
    ConnectorsConfig,
    DataRequest,
    Fetched,
    Kind,
    NoData,
    Offer,
    VendorOff,
    Vendors,
    Vintage,
    connect,
)
from fathom.services.datafetch.sources.base import make_provenance
from fathom.services.datafetch.sources.cells import make_price_table, make_price_units
from fathom.services.datafetch.sources.connectors.akshare import AkShareStatements
from fathom.services.datafetch.sources.flow import CircuitOpen
from tests.support.waiting import eventually

Serve = Callable[..., Awaitable[str]]
DAY = date(2024, 1, 2)
CONFIG = ConnectorsConfig(per_second=1e6, concurrency=8, circuit_failures=3)
MOUTAI = DataRequest(Kind.PRICES, "600519")


class Fake:
    """A vendor with closes from ``DAY`` on, or a failure; counts its calls."""

    def __init__(
        self, name: str, closes: list[float] | None = None, error: FathomError | None = None, hangs: bool = False
    ) -> None:
        self.name, self.closes, self.error, self.hangs = name, closes or [], error, hangs
        self.calls = 0

    def offers(self) -> tuple[Offer, ...]:
        return ()

    async def fetch(self, request: DataRequest, as_of: date | None = None, deadline: float | None = None) -> Fetched:
        self.calls += 1
        if self.hangs:
            await asyncio.Event().wait()
        await asyncio.sleep(0)
        if self.error is not None:
            raise self.error
        bars = [
            (DAY + timedelta(days=place), None, None, None, close, None, None)
            for place, close in enumerate(self.closes)
        ]
        return Fetched(make_price_table(bars), make_price_units("CNY"), make_provenance(self.name, "test", as_of))

    async def aclose(self) -> None:
        return None


def closes(fetched: Fetched) -> list[float]:
    found: list[float] = fetched.table.column("close").to_pylist()
    return found


async def test_the_next_vendor_answers_when_the_first_fails() -> None:
    first, second = Fake("akshare", error=DependencyFailed("akshare", "down")), Fake("baostock", [1.0])
    vendors = Vendors([first, second], CONFIG)
    answer = await vendors.fetch(MOUTAI)
    assert closes(answer.fetched) == [1.0]
    assert answer.fetched.provenance.vendor == "baostock"
    assert [(attempt.vendor, attempt.error.message) for attempt in answer.failed] == [("akshare", "akshare: down")]


async def test_a_changed_schema_moves_on_too_and_all_failures_are_told() -> None:
    broken = [
        Fake("akshare", error=ChangedSchema("akshare", ["close"], ["date"])),
        Fake("baostock", error=DependencyFailed("baostock", "down")),
    ]
    with pytest.raises(AllVendorsFailed, match=r"lacks close.*down") as failed:
        await Vendors(broken, CONFIG).fetch(MOUTAI)
    assert [attempt.vendor for attempt in failed.value.attempts] == ["akshare", "baostock"]
    nothing = [Fake(name, error=NoData(name, MOUTAI)) for name in ("akshare", "baostock")]
    with pytest.raises(NotFound, match="akshare, baostock"):
        await Vendors(nothing, CONFIG).fetch(MOUTAI)


async def test_markets_and_kinds_have_their_own_order() -> None:
    vendors = Vendors(
        [Fake(name) for name in ("yfinance", "akshare", "baostock", "edgar", "fred", "worldbank")], CONFIG
    )
    assert vendors.choose_vendors(MOUTAI) == ("akshare", "baostock", "yfinance")
    assert vendors.choose_vendors(DataRequest(Kind.PRICES, "HK00700")) == ("akshare", "yfinance")
    assert vendors.choose_vendors(DataRequest(Kind.PRICES, "AAPL")) == ("yfinance",)
    assert vendors.choose_vendors(DataRequest(Kind.STATEMENTS, "AAPL")) == ("edgar",)
    assert vendors.choose_vendors(DataRequest(Kind.STATEMENTS, "CIK0000320193")) == ("edgar",)
    assert vendors.choose_vendors(DataRequest(Kind.SERIES, "GDP")) == ("fred",)
    assert vendors.choose_vendors(DataRequest(Kind.SERIES, "NY.GDP.MKTP.CD", entity="CN")) == ("worldbank",)
    with pytest.raises(VendorOff, match=r"datafetch\.connectors\.enabled"):
        Vendors([], CONFIG).choose_vendors(MOUTAI)
    with pytest.raises(InvalidField):
        vendors.choose_vendors(DataRequest(Kind.PRICES, "no code"))


async def test_a_slow_vendor_leaves_time_to_the_next_and_is_then_left_alone() -> None:
    slow, quick = Fake("akshare", hangs=True), Fake("baostock", [1.0])
    vendors = Vendors([slow, quick], ConnectorsConfig(per_second=1e6, circuit_failures=1, cache_bytes=0))
    answer = await vendors.fetch(MOUTAI, deadline=time.monotonic() + 1.2)
    assert closes(answer.fetched) == [1.0]
    assert [attempt.error.reason for attempt in answer.failed] == ["DEADLINE"]
    again = await vendors.fetch(MOUTAI, deadline=time.monotonic() + 1.2)
    assert isinstance(again.failed[0].error, CircuitOpen), "a timeout is the vendor's trouble, whoever noticed it first"
    assert slow.calls == 1


async def test_a_caller_who_leaves_is_no_trouble_of_the_vendor() -> None:
    slow = Fake("akshare", hangs=True)
    vendors = Vendors([slow], ConnectorsConfig(per_second=1e6, circuit_failures=1))
    asking = asyncio.ensure_future(vendors.fetch(MOUTAI, deadline=time.monotonic() + 60))
    await eventually(lambda: slow.calls)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    await asyncio.sleep(0)
    assert vendors.counts("akshare").failed == 0


async def test_an_open_circuit_costs_no_call() -> None:
    down, up = Fake("akshare", error=DependencyFailed("akshare", "down")), Fake("baostock", [1.0])
    vendors = Vendors([down, up], ConnectorsConfig(per_second=1e6, circuit_failures=3, cache_bytes=0))
    for _ in range(6):
        answer = await vendors.fetch(MOUTAI)
    assert down.calls == 3
    assert isinstance(answer.failed[0].error, CircuitOpen)
    assert vendors.counts("akshare").refused == 3


async def test_a_group_of_eight_like_rollouts_makes_one_call(serve: Serve) -> None:
    """Through the real connector and HTTP: eight spellings of one question, one request upstream; then none."""
    asked: list[str] = []

    async def handler(request: web.Request) -> web.Response:
        asked.append(request.query["secid"])
        if len(asked) == 1:
            await eventually(lambda: vendors.cache_counts.shared == 7)
        line = "2024-01-02,1715.00,1685.01,1718.19,1678.10,32156,5440082548.00,2.33,-2.37,-40.99,0.26"
        return web.json_response({"data": {"name": "贵州茅台", "klines": [line]}})

    url = await serve({"/api/qt/stock/kline/get": handler})
    vendors = connect(ConnectorsConfig(enabled=("akshare",), eastmoney_url=url))
    spellings = (
        "600519",
        "SH600519",
        "600519.SH",
        "sh.600519",
        "贵州茅台(600519)",
        "1.600519",
        "600519.SS",
        "SSE:600519",
    )
    answers = await asyncio.gather(
        *(vendors.fetch(DataRequest(Kind.PRICES, text), as_of=date(2024, 1, 5)) for text in spellings)
    )
    assert [closes(answer.fetched) for answer in answers] == [[1685.01]] * 8
    assert asked == ["1.600519"]
    await vendors.fetch(MOUTAI, as_of=date(2024, 1, 5))
    await vendors.fetch(MOUTAI, as_of=date(2024, 1, 4))
    assert (len(asked), vendors.cache_counts.calls, vendors.cache_counts.shared, vendors.cache_counts.hits) == (
        2,
        2,
        7,
        1,
    )
    await vendors.aclose()


async def test_prices_that_differ_are_flagged_and_both_stay() -> None:
    first, second = Fake("akshare", [100.0, 101.0, 102.0, 103.0]), Fake("baostock", [100.1, 101.0, 112.0])
    vendors = Vendors([first, second], CONFIG)
    checked = await vendors.check(MOUTAI)
    assert checked is not None
    assert not checked.agree
    assert [(item.day, item.first, item.second) for item in checked.disagreements] == [(date(2024, 1, 4), 102.0, 112.0)]
    assert (checked.compared, checked.only_first, checked.only_second) == (3, 1, 0)
    assert (closes(checked.first), closes(checked.second)) == ([100.0, 101.0, 102.0, 103.0], [100.1, 101.0, 112.0])
    split = Vendors([Fake("akshare", [100.0, 104.0]), Fake("baostock", [25.0, 26.0])], CONFIG)
    scaled = await split.check(MOUTAI)
    assert scaled is not None
    assert scaled.scale == pytest.approx(0.25)
    alike = await Vendors([Fake("akshare", [5.0]), Fake("baostock", [5.01])], CONFIG).check(MOUTAI)
    assert alike is not None
    assert alike.agree
    assert await Vendors([first], CONFIG).check(MOUTAI) is None


async def test_the_third_vendor_is_compared_when_the_second_fails() -> None:
    down = Fake("baostock", error=DependencyFailed("baostock", "down"))
    checked = await Vendors([Fake("akshare", [5.0]), down, Fake("yfinance", [5.0])], CONFIG).check(MOUTAI)
    assert checked is not None
    assert checked.second.provenance.vendor == "yfinance"
    assert await Vendors([Fake("akshare", [5.0]), down], CONFIG).check(MOUTAI) is None
    with pytest.raises(DependencyFailed, match="down"):
        await Vendors([down], CONFIG).check(MOUTAI)


async def test_no_row_after_as_of_passes_the_last_gate() -> None:
    vendors = Vendors([Fake("akshare", [1.0, 2.0, 3.0])], CONFIG)
    assert closes((await vendors.fetch(MOUTAI, as_of=DAY + timedelta(days=1))).fetched) == [1.0, 2.0]
    with pytest.raises(NoData):
        await vendors.fetch(MOUTAI, as_of=DAY - timedelta(days=1))


async def test_what_is_enabled(monkeypatch: pytest.MonkeyPatch) -> None:
    assert connect(ConnectorsConfig()).names == ()
    with pytest.raises(NotFound, match="yfinance"):
        connect(ConnectorsConfig(enabled=("yahoo",)))
    monkeypatch.delenv("FRED_API_KEY", raising=False)
    with pytest.raises(VendorOff, match="fred_key_env"):
        connect(ConnectorsConfig(enabled=("fred",)))
    find = importlib.util.find_spec
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "akshare" else find(name))
    with pytest.raises(MissingExtra, match=r"akshare.*fathom\[akshare\]"):
        connect(ConnectorsConfig(enabled=("akshare-statements",)))
    assert all(isinstance(vendor, Connector) for vendor in (Fake("x"), AkShareStatements(library=object())))


REPORTS = [
    {"REPORT_DATE": "2023-12-31 00:00:00", "NOTICE_DATE": "2024-04-03 00:00:00", "UPDATE_DATE": "2024-04-03 00:00:00", "SECURITY_CODE": "600519", "CURRENCY": "CNY", "PARENT_NETPROFIT": 74734071550.75, "PARENT_NETPROFIT_YOY": 19.16},
    {"REPORT_DATE": "2022-12-31 00:00:00", "NOTICE_DATE": "2023-03-31 00:00:00", "UPDATE_DATE": "2024-04-03 00:00:00", "SECURITY_CODE": "600519", "CURRENCY": "CNY", "PARENT_NETPROFIT": 62717467870.12, "PARENT_NETPROFIT_YOY": 19.55},
]  # fmt: skip


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The real library, given Eastmoney's answers where it asks for them."""
    akshare = pytest.importorskip("akshare", reason="the extra akshare is not installed")

    class Answer:
        def __init__(self, data: Any) -> None:
            self.data, self.text = data, '<input id="hidctype" value="4">'

        def json(self) -> Any:
            return self.data

    def get(url: str, **options: Any) -> Answer:
        if "lrb" not in url and "Index" not in url:
            raise ConnectionError("not served here")
        return Answer({"data": REPORTS})

    monkeypatch.setattr("requests.get", get)
    return akshare


async def test_statements_by_the_library(library: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "fathom.services.datafetch.sources.connectors.akshare.SHEETS", ("stock_profit_sheet_by_report_em",)
    )
    source = AkShareStatements()
    request = DataRequest(Kind.STATEMENTS, "600519", ("PARENT_NETPROFIT",))
    found = await source.fetch(request)
    assert found.table.select(["concept", "end", "value", "filed"]).to_pylist() == [
        {"concept": "PARENT_NETPROFIT", "end": date(2022, 12, 31), "value": 62717467870.12, "filed": date(2024, 4, 3)},
        {"concept": "PARENT_NETPROFIT", "end": date(2023, 12, 31), "value": 74734071550.75, "filed": date(2024, 4, 3)},
    ]
    with pytest.raises(NoData):
        await source.fetch(request, as_of=date(2023, 12, 31))
    lenient = DataRequest(Kind.STATEMENTS, "600519", vintage=Vintage.LATEST)
    then = await source.fetch(lenient, as_of=date(2023, 12, 31))
    assert then.provenance.revised
    assert then.table.column("filed").to_pylist() == [date(2023, 3, 31)]
    monkeypatch.setattr(
        "fathom.services.datafetch.sources.connectors.akshare.SHEETS", ("stock_balance_sheet_by_report_em",)
    )
    with pytest.raises(DependencyFailed, match="ConnectionError"):
        await source.fetch(request)


async def test_late_calls_of_the_library_keep_their_places() -> None:
    import threading

    release = threading.Event()

    class Slow:
        def stock_profit_sheet_by_report_em(self, symbol: str) -> None:
            release.wait(20)

    source = AkShareStatements(library=Slow())
    request = DataRequest(Kind.STATEMENTS, "600519")
    for _ in range(2):
        with pytest.raises(FathomError, match="in time"):
            await source.fetch(request, deadline=time.monotonic() + 0.1)
    with pytest.raises(Overloaded):
        await source.fetch(request)
    release.set()
