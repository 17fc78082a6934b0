"""Records how vendors' own clients ask and what they read: python tests/golden/vendors/record.py, in their environment.

    pip install akshare fredapi sec-edgar-api "pyrate-limiter<4" wbgapi yfinance

Each client plays against a server of this process that answers in the vendor's documented form; addresses of the vendor
are led there, and nothing else of the client is changed. What it asked for, what it got and what it made of it are
written beside this file. The tests hold our connectors against that. None of it shows that the vendor itself still
answers so: the day on which a connector met its vendor is in ``services/datafetch/sources/records.yaml``.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import math
import threading
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
# In the connectors' form, days and numbers as JSON.
Rows = list[dict[str, Any]]
# Path of a request to the body of its answer.
Answers = dict[str, str]
KLINES = [
    "2024-01-02,1715.00,1685.01,1718.19,1678.10,32156,5440082548.00,2.33,-2.37,-40.99,0.26",
    "2024-01-03,1681.11,1694.00,1695.22,1676.33,20229,3411400701.00,1.12,0.53,8.99,0.16",
]
REPORTS = [
    {
        "SECURITY_CODE": "600519",
        "CURRENCY": "CNY",
        "REPORT_DATE": f"{year}-12-31 00:00:00",
        "NOTICE_DATE": "2024-04-03 00:00:00",
        "UPDATE_DATE": "2024-04-03 00:00:00",
        "PARENT_NETPROFIT": profit,
        "PARENT_NETPROFIT_YOY": growth,
    }
    for year, profit, growth in ((2023, 74734071550.75, 19.16), (2022, 62717467870.12, 19.55))
]
OBSERVATIONS = [("2024-01-01", "3.7"), ("2024-02-01", "3.9"), ("2024-03-01", ".")]
ASSETS = [
    {"end": "2022-09-24", "val": 352755000000, "accn": "0000320193-22-000108", "fy": 2022, "fp": "FY", "form": "10-K", "filed": "2022-10-28"},
    {"end": "2023-09-30", "val": 352583000000, "accn": "0000320193-23-000106", "fy": 2023, "fp": "FY", "form": "10-K", "filed": "2023-11-03"},
]  # fmt: skip
# A figure as companies report it: two years, the earlier one repeated a year later, and a quarter between them.
YEAR_2022 = {
    "start": "2021-09-26",
    "end": "2022-09-24",
    "accn": "0000320193-22-000108",
    "fy": 2022,
    "fp": "FY",
    "form": "10-K",
    "filed": "2022-10-28",
}
AGAIN_2022 = {**YEAR_2022, "accn": "0000320193-23-000106", "fy": 2023, "filed": "2023-11-03"}
QUARTER = {
    "start": "2022-09-25",
    "end": "2022-12-31",
    "accn": "0000320193-23-000006",
    "fy": 2023,
    "fp": "Q1",
    "form": "10-Q",
    "filed": "2023-02-03",
}
YEAR_2023 = {
    "start": "2022-09-25",
    "end": "2023-09-30",
    "accn": "0000320193-23-000106",
    "fy": 2023,
    "fp": "FY",
    "form": "10-K",
    "filed": "2023-11-03",
}
REPORTED = {
    "RevenueFromContractWithCustomerExcludingAssessedTax": ("USD", 394328000000, 117154000000, 383285000000),
    "NetIncomeLoss": ("USD", 99803000000, 29998000000, 96995000000),
    "EarningsPerShareDiluted": ("USD/shares", 6.11, 1.88, 6.13),
}  # fmt: skip
GDP = {2021: 17820459508852.2, 2022: 17881783387000.9, 2023: None}
SESSIONS = [date(2024, 1, 2), date(2024, 1, 3), date(2024, 1, 4)]


@contextmanager
def serving(answers: Answers) -> Iterator[tuple[str, list[str]]]:
    """Serve answers by path; yield the address and the requests as they come."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            body = answers.get(path, "").encode()
            asked.append(self.path)
            self.send_response(200 if body else 404)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()


def redirect_requests(address: str) -> None:
    """Lead all that the library requests sends to a server of ours."""
    sessions = importlib.import_module("requests.sessions").Session
    send = sessions.send

    def led(self: Any, request: Any, **options: Any) -> Any:
        parts = urllib.parse.urlsplit(request.url)
        request.url = address + parts.path + (f"?{parts.query}" if parts.query else "")
        return send(self, request, **options)

    sessions.send = led


def play_eastmoney(address: str) -> Rows:
    redirect_requests(address)
    frame = importlib.import_module("akshare").stock_zh_a_hist("600519", "daily", "20240101", "20240131", "")
    # The library keeps the vendor's lots of a hundred shares.
    return [
        {"date": str(row["日期"]), "open": row["开盘"], "close": row["收盘"], "high": row["最高"], "low": row["最低"], "volume": row["成交量"] * 100.0}
        for row in frame.to_dict("records")
    ]  # fmt: skip


def play_statements(address: str) -> Rows:
    redirect_requests(address)
    frame = importlib.import_module("akshare").stock_profit_sheet_by_report_em("SH600519")
    return [
        {"concept": "PARENT_NETPROFIT", "end": row["REPORT_DATE"][:10], "value": row["PARENT_NETPROFIT"]}
        for row in frame.to_dict("records")
    ]


def play_yahoo(address: str) -> Rows:
    data = importlib.import_module("yfinance.data").YfData

    class Answer:
        status_code = 200

        def __init__(self, url: str, params: dict[str, Any]) -> None:
            path = urllib.parse.urlsplit(url).path
            with urllib.request.urlopen(f"{address}{path}?{urllib.parse.urlencode(params)}") as answer:
                self.text = answer.read().decode()

        def json(self) -> Any:
            return json.loads(self.text)

    def get(self: Any, url: str, params: dict[str, Any] | None = None, **_: Any) -> Answer:
        return Answer(url, params or {})

    # Its own session asks for cookies of pages that are no part of the exchange.
    data.get = data.cache_get = get
    ticker = importlib.import_module("yfinance").Ticker("AAPL")
    frame = ticker.history(start="2024-01-02", end="2024-01-05", auto_adjust=False, actions=False)
    return [
        {"date": str(day.date()), "open": row["Open"], "close": row["Close"], "high": row["High"], "low": row["Low"], "volume": float(row["Volume"])}
        for day, row in frame.iterrows()
    ]  # fmt: skip


def play_fred(address: str) -> Rows:
    fred = importlib.import_module("fredapi").Fred(api_key="k" * 32)
    fred.root_url = f"{address}/fred"
    fred.get_series_info("UNRATE")
    series = fred.get_series("UNRATE", observation_start="2024-01-01", observation_end="2024-03-31")
    return [
        {"date": str(day.date()), "value": None if math.isnan(value) else float(value)} for day, value in series.items()
    ]


def play_worldbank(address: str) -> Rows:
    client: Any = importlib.import_module("wbgapi")
    client.endpoint = f"{address}/v2"
    # Its tables come from an interface of the vendor that is still called beta; this is the published one.
    rows = client.fetch("country/CHN/indicator/NY.GDP.MKTP.CD", {"date": "2021:2023"})
    return [{"date": f"{row['date']}-12-31", "value": row["value"]} for row in rows]


def play_edgar(address: str) -> Rows:
    redirect_requests(address)
    client = importlib.import_module("sec_edgar_api").EdgarClient(user_agent="Fathom test@example.com")
    found = client.get_company_concept(cik="320193", taxonomy="us-gaap", tag="Assets")
    return [
        {"concept": found["tag"], "end": fact["end"], "value": float(fact["val"]), "filed": fact["filed"]}
        for fact in found["units"]["USD"]
    ]


def play_edgar_facts(address: str) -> Rows:
    redirect_requests(address)
    client = importlib.import_module("sec_edgar_api").EdgarClient(user_agent="Fathom test@example.com")
    return [
        {"concept": tag, "unit": unit, "end": fact["end"], "value": float(fact["val"]), "filed": fact["filed"]}
        for concepts in client.get_company_facts(cik="320193")["facts"].values()
        for tag, found in concepts.items()
        for unit, facts in found["units"].items()
        for fact in facts
    ]


def answer_eastmoney() -> Answers:
    data = {"code": "600519", "market": 1, "name": "贵州茅台", "decimal": 2, "klines": KLINES}
    return {"/api/qt/stock/kline/get": json.dumps({"rc": 0, "rt": 17, "data": data}, ensure_ascii=False)}


def answer_statements() -> Answers:
    place, body = "/PC_HSF10/NewFinanceAnalysis", json.dumps({"pages": 1, "data": REPORTS, "count": 2})
    return {f"{place}/Index": '<input id="hidctype" value="4">', f"{place}/lrbDateAjaxNew": body, f"{place}/lrbAjaxNew": body}  # fmt: skip


def answer_yahoo() -> Answers:
    # 14:30 UTC is the opening in New York.
    stamps = [int(datetime(day.year, day.month, day.day, 14, 30, tzinfo=UTC).timestamp()) for day in SESSIONS]
    quote = {
        "open": [187.15, 184.22, 182.15],
        "high": [188.44, 185.88, 183.09],
        "low": [183.89, 183.43, 180.88],
        "close": [185.64, 184.25, 181.91],
        "volume": [82488700, 58414500, 71983600],
    }
    meta = {
        "currency": "USD", "symbol": "AAPL", "exchangeName": "NMS", "instrumentType": "EQUITY", "dataGranularity": "1d", "range": "",
        "regularMarketTime": stamps[-1] + 23400, "gmtoffset": -18000, "timezone": "EST", "exchangeTimezoneName": "America/New_York",
        "regularMarketPrice": 181.91, "priceHint": 2, "validRanges": ["1d", "max"], "longName": "Apple Inc.",
        "currentTradingPeriod": {"regular": {"timezone": "EST", "start": stamps[-1], "end": stamps[-1] + 23400, "gmtoffset": -18000}},
    }  # fmt: skip
    result = {
        "meta": meta,
        "timestamp": stamps,
        "indicators": {"quote": [quote], "adjclose": [{"adjclose": quote["close"]}]},
    }
    return {"/v8/finance/chart/AAPL": json.dumps({"chart": {"result": [result], "error": None}})}


def answer_fred() -> Answers:
    """Return the API's XML, which this client asks for; its JSON has the same fields."""
    head = '<?xml version="1.0" encoding="utf-8" ?>'
    info = '<series id="UNRATE" title="Unemployment Rate" units="Percent" frequency="Monthly" seasonal_adjustment="Seasonally Adjusted"/>'
    rows = "".join(
        f'<observation realtime_start="2024-04-05" realtime_end="2024-04-05" date="{day}" value="{value}"/>'
        for day, value in OBSERVATIONS
    )
    return {
        "/fred/series": f"{head}<seriess>{info}</seriess>",
        "/fred/series/observations": f"{head}<observations>{rows}</observations>",
    }


def answer_worldbank() -> Answers:
    indicator = {"id": "NY.GDP.MKTP.CD", "value": "GDP (current US$)"}
    rows = [
        {"indicator": indicator, "country": {"id": "CN", "value": "China"}, "countryiso3code": "CHN", "date": str(year), "value": value, "unit": "", "obs_status": "", "decimal": 0}
        for year, value in GDP.items()
    ]  # fmt: skip
    head = {"page": 1, "pages": 1, "per_page": 1000, "total": len(rows), "sourceid": "2", "lastupdated": "2024-06-28"}
    return {"/v2/en/country/CHN/indicator/NY.GDP.MKTP.CD": json.dumps([head, rows])}


def answer_edgar() -> Answers:
    found = {
        "cik": 320193,
        "taxonomy": "us-gaap",
        "tag": "Assets",
        "label": "Assets",
        "entityName": "Apple Inc.",
        "units": {"USD": ASSETS},
    }
    concepts = {"Assets": {"label": "Assets", "description": "", "units": {"USD": ASSETS}}}
    for tag, (unit, first, quarter, second) in REPORTED.items():
        values = ((YEAR_2022, first), (AGAIN_2022, first), (QUARTER, quarter), (YEAR_2023, second))
        concepts[tag] = {
            "label": tag,
            "description": "",
            "units": {unit: [{**at, "val": value} for at, value in values]},
        }
    company = {"cik": 320193, "entityName": "Apple Inc.", "facts": {"us-gaap": concepts}}
    return {
        "/api/xbrl/companyconcept/CIK0000320193/us-gaap/Assets.json": json.dumps(found),
        "/api/xbrl/companyfacts/CIK0000320193.json": json.dumps(company),
    }


CLIENTS: dict[str, tuple[str, Callable[[], Answers], Callable[[str], Rows]]] = {
    "akshare": ("akshare", answer_eastmoney, play_eastmoney),
    "akshare-statements": ("akshare", answer_statements, play_statements),
    "yfinance": ("yfinance", answer_yahoo, play_yahoo),
    "fred": ("fredapi", answer_fred, play_fred),
    "worldbank": ("wbgapi", answer_worldbank, play_worldbank),
    "edgar": ("sec-edgar-api", answer_edgar, play_edgar),
}


# What a vendor's client reads besides, recorded as "read_facts".
FACTS: dict[str, Callable[[str], Rows]] = {"edgar": play_edgar_facts}


def record(vendor: str) -> None:
    """Play one client against its vendor's answers and write the exchange."""
    client, answer, play = CLIENTS[vendor]
    answers = answer()
    with serving(answers) as (address, asked):
        rows = play(address)
        facts = FACTS[vendor](address) if vendor in FACTS else []
    content = {
        "vendor": vendor,
        "client": f"{client} {importlib.metadata.version(client)}",
        "recorded": str(datetime.now(UTC).date()),
        "asked": list(dict.fromkeys(asked)),
        "answers": answers,
        "read": rows,
        **({"read_facts": facts} if facts else {}),
    }
    text = json.dumps(content, ensure_ascii=False, indent=1, default=float) + "\n"
    (HERE / f"{vendor}.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    import subprocess
    import sys

    if len(sys.argv) > 1:
        record(sys.argv[1])
    else:
        # A process for each: what leads a client to this machine would lead the next one there, too.
        for name in CLIENTS:
            subprocess.run([sys.executable, __file__, name], check=True)
