"""Parser of security codes in all usual spellings, and their spelling for each vendor.

Codes only: a name without a code (贵州茅台) is resolved by the semantic layer; a name beside a code is ignored.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from enum import StrEnum

from fathom.core.errors import InvalidField
from fathom.domain.text.scripts import HAN_AND_RARE


class Market(StrEnum):
    """The market of a security; ``WORLD`` is for series that are not traded."""

    CN = "cn"
    HK = "hk"
    US = "us"
    WORLD = "world"


class Security(StrEnum):
    """The type of a security."""

    STOCK = "stock"
    FUND = "fund"
    INDEX = "index"


@dataclass(frozen=True)
class Symbol:
    """A security; ``code`` is six digits in China, five in Hong Kong, letters in the US.

    ``exchange`` is SH, SZ, BJ, HK or US.
    """

    code: str
    exchange: str
    security: Security = Security.STOCK

    @property
    def market(self) -> Market:
        return {"HK": Market.HK, "US": Market.US}.get(self.exchange, Market.CN)

    @property
    def canonical(self) -> str:
        """Return the canonical code: ``600519.SH``, ``00700.HK``, ``AAPL.US``."""
        return f"{self.code}.{self.exchange}"

    @property
    def currency(self) -> str:
        return {Market.CN: "CNY", Market.HK: "HKD", Market.US: "USD"}[self.market]

    @property
    def yahoo(self) -> str:
        """Return Yahoo's code: ``600519.SS``, ``0700.HK``, ``BRK-B``, ``^GSPC``.

        Raises ``InvalidField`` for Beijing.
        """
        if self.security is Security.INDEX and self.code in YAHOO_INDEXES:
            return YAHOO_INDEXES[self.code]
        if self.exchange == "US":
            # Yahoo writes classes of shares with a dash: BRK-B.
            return self.code.replace(".", "-")
        if self.exchange == "HK":
            return f"{int(self.code):04d}.HK"
        if self.exchange == "BJ":
            raise InvalidField("symbol", f"{self.canonical}: Yahoo has no Beijing exchange")
        return f"{self.code}.{'SS' if self.exchange == 'SH' else 'SZ'}"

    @property
    def eastmoney(self) -> str:
        """Return Eastmoney's code: ``1.600519``, ``0.000001``, ``116.00700``.

        Raises ``InvalidField`` for other markets.
        """
        if self.exchange in EASTMONEY and (self.exchange != "HK" or self.security is Security.STOCK):
            return f"{EASTMONEY[self.exchange]}.{self.code}"
        raise InvalidField("symbol", f"{self.canonical}: Eastmoney's number of this market is not known")

    @property
    def baostock(self) -> str:
        """Return BaoStock's code: ``sh.600519``; raises ``InvalidField`` outside Shanghai and Shenzhen."""
        if self.exchange not in {"SH", "SZ"}:
            raise InvalidField("symbol", f"{self.canonical}: BaoStock has Shanghai and Shenzhen only")
        return f"{self.exchange.lower()}.{self.code}"


EASTMONEY = {"SH": "1", "SZ": "0", "BJ": "0", "HK": "116"}
YAHOO_INDEXES = {
    "SPX": "^GSPC",
    "IXIC": "^IXIC",
    "NDX": "^NDX",
    "DJI": "^DJI",
    "VIX": "^VIX",
    "RUT": "^RUT",
    "HSI": "^HSI",
}
_US, _HK = "US", "HK"
INDEXES = {
    **dict.fromkeys(("^GSPC", "SPX", ".SPX", ".INX", "S&P500", "S&P 500", "标普500", "标准普尔500"), ("SPX", _US)),
    **dict.fromkeys(("^IXIC", "IXIC", ".IXIC", "NASDAQ COMPOSITE", "纳斯达克综合指数", "纳指"), ("IXIC", _US)),
    **dict.fromkeys(("^NDX", "NDX", ".NDX", "NASDAQ 100", "纳斯达克100"), ("NDX", _US)),
    **dict.fromkeys(("^DJI", "DJI", ".DJI", "DOW JONES", "道琼斯", "道琼斯工业指数"), ("DJI", _US)),
    **dict.fromkeys(("^VIX", "VIX", ".VIX"), ("VIX", _US)),
    **dict.fromkeys(("^RUT", "RUT", ".RUT", "RUSSELL 2000", "罗素2000"), ("RUT", _US)),
    **dict.fromkeys(("^HSI", "HSI", ".HSI", "HANG SENG", "恒生指数"), ("HSI", _HK)),
    **dict.fromkeys(("上证指数", "上证综指", "SSE COMPOSITE"), ("000001", "SH")),
    **dict.fromkeys(("沪深300", "CSI300", "CSI 300"), ("000300", "SH")),
    **dict.fromkeys(("上证50", "SSE50"), ("000016", "SH")),
    **dict.fromkeys(("中证500", "CSI500", "CSI 500"), ("000905", "SH")),
    **dict.fromkeys(("科创50", "STAR50"), ("000688", "SH")),
    **dict.fromkeys(("深证成指", "SZSE COMPONENT"), ("399001", "SZ")),
    **dict.fromkeys(("创业板指", "CHINEXT"), ("399006", "SZ")),
}
CHINA = {
    **dict.fromkeys(("SH", "SS", "XSHG", "SSE", "SHSE", "沪", "上交所"), "SH"),
    **dict.fromkeys(("SZ", "XSHE", "SZSE", "深", "深交所"), "SZ"),
    **dict.fromkeys(("BJ", "XBSE", "BSE", "北", "北交所"), "BJ"),
}
# The longest first: SHSE before SH.
_NAMES = "|".join(sorted(CHINA, key=len, reverse=True))
BEFORE = re.compile(rf"({_NAMES})[.:_\- ]?(\d{{6}})")
AFTER = re.compile(rf"(\d{{6}})[.:_\- ]?({_NAMES})")
# Eastmoney's market numbers: 1 is Shanghai, 0 Shenzhen.
SECID = re.compile(r"([01])\.(\d{6})")
SIX = re.compile(r"\d{6}")
# HK before or after one to five digits, four or five digits alone, or Eastmoney's market number 116.
HONG_KONG = re.compile(
    r"(?:(?:HK|HKEX|XHKG|港股)[.:_\- ]?(\d{1,5})|(\d{1,5})[.:_\- ]?(?:HK|HKEX|XHKG)|(\d{4,5})|116\.(\d{5}))"
)
# A class of shares is a letter A to D (BRK.B); O, OQ, N, K and P after a point are exchanges by Reuters' codes.
AMERICA = re.compile(
    r"(?:(?:US|NASDAQ|NYSE|AMEX|NYSEARCA|XNAS|XNYS)[.:])?([A-Z]{1,5}(?:[.\-/][A-D])?)(?:\.(?:US|OQ|O|N|K|P))?"
)
BESIDE = re.compile(r"[(\[（【]([^)\]）】]+)[)\]）】]")
# A Chinese name before or after a code, with the marks that exchanges put to it (*ST, full-width A and B).
NAME = re.compile(rf"^[{HAN_AND_RARE}*·ＡＢA-B]*[{HAN_AND_RARE}]+[A-B]?\s*|\s*[{HAN_AND_RARE}]+$")


def normalise(text: str) -> Symbol:
    """Return the likeliest symbol; raises ``InvalidField("symbol")`` for a text that is no code in any spelling."""
    return list_candidates(text)[0]


def list_candidates(text: str) -> tuple[Symbol, ...]:
    """Return all symbols that a text may mean, likeliest first: bare 000001 is a bank, or Shanghai's index.

    Raises ``InvalidField("symbol")`` when there is none.
    """
    plain = " ".join(unicodedata.normalize("NFKC", text).upper().split())
    # No code is longer, and the patterns are not run over texts.
    if len(plain) <= 64:
        for spelling in list_spellings(plain):
            if found := read_code(spelling):
                return found
    raise InvalidField("symbol", f"{text[:64]!r} is no code of a security in a known spelling")


def list_spellings(plain: str) -> list[str]:
    """Return the text as given, then the part in brackets, then the text without a Chinese name before or after."""
    bracketed = BESIDE.search(plain)
    return [plain, *([bracketed.group(1).strip()] if bracketed else []), NAME.sub("", plain).strip()]


def read_code(code: str) -> tuple[Symbol, ...]:
    # Names of indices before the patterns: HSI and VIX look like US tickers.
    if code in INDEXES:
        name, exchange = INDEXES[code]
        return (Symbol(name, exchange, Security.INDEX),)
    if found := BEFORE.fullmatch(code):
        return (make_china_symbol(found[2], CHINA[found[1]]),)
    if found := AFTER.fullmatch(code):
        return (make_china_symbol(found[1], CHINA[found[2]]),)
    if found := SECID.fullmatch(code):
        return (make_china_symbol(found[2], "SH" if found[1] == "1" else "SZ"),)
    if SIX.fullmatch(code):
        return read_bare_code(code)
    if found := HONG_KONG.fullmatch(code):
        digits = next(group for group in found.groups() if group)
        # 00000 is no security.
        return (Symbol(f"{int(digits):05d}", "HK"),) if int(digits) else ()
    if found := AMERICA.fullmatch(code):
        return (Symbol(found[1].replace("-", ".").replace("/", "."), "US"),)
    return ()


def make_china_symbol(code: str, exchange: str) -> Symbol:
    """Return the symbol of a mainland code, whose first digits determine the type of security."""
    if (exchange == "SH" and code.startswith("000")) or (exchange == "SZ" and code.startswith("399")):
        return Symbol(code, exchange, Security.INDEX)
    # Beijing's codes are often written with Shenzhen's number at Eastmoney.
    if exchange == "SZ" and code.startswith(("43", "83", "87", "920")):
        return Symbol(code, "BJ")
    fund = code.startswith(("5",)) if exchange == "SH" else exchange == "SZ" and code.startswith(("15", "16", "18"))
    return Symbol(code, exchange, Security.FUND if fund else Security.STOCK)


def read_bare_code(code: str) -> tuple[Symbol, ...]:
    """Return the symbols of six bare digits, by the exchange that the first digits imply."""
    if code.startswith(("43", "83", "87", "920")):
        return (make_china_symbol(code, "BJ"),)
    if code.startswith(("6", "5", "9")):
        return (make_china_symbol(code, "SH"),)
    # 000001 is Ping An Bank in Shenzhen and the composite index in Shanghai; the share is meant more often.
    if code.startswith("000"):
        return make_china_symbol(code, "SZ"), make_china_symbol(code, "SH")
    if code.startswith(("0", "1", "2", "3")):
        return (make_china_symbol(code, "SZ"),)
    return ()
