"""Spellings of codes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fathom.core.errors import InvalidField
from fathom.services.datafetch.sources.symbols import Market, Security, list_candidates, normalise

SPELLINGS = {
    "600519.SH": (
        "600519", "600519.SH", "SH600519", "sh.600519", "600519.sh", "600519.SS", "SHSE.600519", "SSE:600519", "600519.XSHG", "1.600519", "６００５１９",
        "贵州茅台(600519)", "贵州茅台（600519.SH）", "贵州茅台 600519", "600519 贵州茅台", "sh 600519", "SH-600519", "沪600519", "贵州茅台[SH600519]",
    ),
    # The same six digits are Ping An Bank in Shenzhen and the composite index in Shanghai: bare they are the stock.
    "000001.SZ": ("000001", "sz000001", "000001.SZ", "SZSE:000001", "0.000001", "平安银行(000001)", "XSHE.000001"),
    "000001.SH": ("sh000001", "000001.SH", "1.000001", "上证指数", "上证综指"),
    "300750.SZ": ("300750", "宁德时代 300750.SZ"),
    "688981.SH": ("688981", "sh688981"),
    "510300.SH": ("510300", "SH510300"),
    "159915.SZ": ("159915",),
    "430047.BJ": ("430047", "bj430047", "0.430047"),
    "920118.BJ": ("920118", "920118.BJ"),
    "399001.SZ": ("399001", "sz399001", "深证成指"),
    "000300.SH": ("沪深300", "CSI 300", "sh000300"),
    # Hong Kong's codes are written with four digits or five, and padded to five.
    "00700.HK": ("HK 00700", "0700.HK", "00700", "HK00700", "hk.00700", "700.HK", "00700.HK", "腾讯控股(00700)", "116.00700", "HKEX:700", "港股00700"),
    "09988.HK": ("9988.HK", "09988", "9988"),
    "AAPL.US": ("AAPL", "aapl", "AAPL.US", "US.AAPL", "NASDAQ:AAPL", "AAPL.O", "AAPL.OQ", "苹果(AAPL)", "苹果公司 AAPL"),
    # A class of shares is set off by a point, a hyphen or a slash, depending on the vendor.
    "BRK.B.US": ("BRK.B", "BRK-B", "brk/b", "NYSE:BRK.B"),
    "SPX.US": ("^GSPC", "SPX", ".SPX", "S&P 500", "标普500"),
    "HSI.HK": ("^HSI", "HSI", "恒生指数"),
}  # fmt: skip


@pytest.mark.parametrize(
    ("canonical", "spelling"), [(code, text) for code, texts in SPELLINGS.items() for text in texts]
)
def test_spellings(canonical: str, spelling: str) -> None:
    assert normalise(spelling).canonical == canonical


def test_an_ambiguous_code_has_candidates() -> None:
    assert [(found.canonical, found.security) for found in list_candidates("000001")] == [
        ("000001.SZ", Security.STOCK),
        ("000001.SH", Security.INDEX),
    ]
    assert normalise("510300").security is Security.FUND


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "贵州茅台",
        "12",
        "1234567",
        "700000",
        "TOOLONGNAME",
        "600519.XX",
        "00000",
        "a" * 200,
        "600519;drop table",
        # Two codes: which one is meant is not guessed.
        "茅台600519酒厂600520",
    ],
)
def test_what_is_no_code(text: str) -> None:
    with pytest.raises(InvalidField, match="symbol"):
        normalise(text)


@given(st.text(max_size=80))
def test_any_text_is_a_symbol_or_a_typed_error(text: str) -> None:
    try:
        symbol = normalise(text)
    except InvalidField:
        return
    assert normalise(symbol.canonical) == symbol or symbol.security is Security.INDEX


def test_each_vendors_spelling() -> None:
    moutai, tencent, apple, shanghai = (normalise(code) for code in ("600519", "HK00700", "BRK.B", "上证指数"))
    assert (moutai.yahoo, moutai.eastmoney, moutai.baostock, moutai.currency) == (
        "600519.SS",
        "1.600519",
        "sh.600519",
        "CNY",
    )
    assert (tencent.yahoo, tencent.eastmoney, tencent.market) == ("0700.HK", "116.00700", Market.HK)
    assert (apple.yahoo, apple.market) == ("BRK-B", Market.US)
    assert (shanghai.yahoo, shanghai.eastmoney, shanghai.baostock) == ("000001.SS", "1.000001", "sh.000001")
    assert normalise("标普500").yahoo == "^GSPC"
    with pytest.raises(InvalidField):
        _ = tencent.baostock
    with pytest.raises(InvalidField):
        _ = apple.eastmoney
    with pytest.raises(InvalidField):
        _ = normalise("430047").yahoo
