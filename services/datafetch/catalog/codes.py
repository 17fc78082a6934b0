"""Security codes: the canonical form per market and all usual spellings."""

from __future__ import annotations

import re

# An exchange before or after six digits, with or without a separator: sh600519, SZ.000001, 600519.XSHG.
CN_CODE = re.compile(r"(?P<prefix>sh|sz|bj)?[.\s]?(?P<code>\d{6})[.\s]?(?P<suffix>sh|sz|bj|ss|xshg|xshe|xbse)?", re.I)
SUFFIXES = {"ss": "SH", "sh": "SH", "xshg": "SH", "sz": "SZ", "xshe": "SZ", "bj": "BJ", "xbse": "BJ"}
LONG = {"SH": "XSHG", "SZ": "XSHE", "BJ": "XBSE"}
# The same rule as ``find_exchange``, in SQL, for tables of millions of rows; codes over six characters have an exchange
# already.
CN_SQL = """case when length({0}) > 6 then {0} when {0}[1] in ('6', '9', '5') then {0} || '.SH'
 when {0}[1] in ('4', '8') then {0} || '.BJ' else {0} || '.SZ' end"""


def canonicalise(code: str, market: str) -> str:
    """Return the canonical code: "600519", "SH600519", "sh.600519" and "600519.SS" → "600519.SH".

    Codes of other markets than CN are returned unchanged.
    """
    if market != "CN":
        return code
    match = CN_CODE.fullmatch(code.strip())
    if match is None:
        return code
    exchange = SUFFIXES.get((match["suffix"] or match["prefix"] or "").lower())
    return f"{match['code']}.{exchange or find_exchange(match['code'])}"


def find_exchange(code: str) -> str:
    """Return the mainland exchange of a bare six-digit code."""
    # First digits as the exchanges assign them: 6 and 9 Shanghai's shares, 5 its funds, 4 and 8 Beijing, the rest
    # Shenzhen.
    return "SH" if code[0] in "695" else "BJ" if code[0] in "48" else "SZ"


def list_spellings(ident: str, market: str) -> list[str]:
    """Return every usual spelling of a canonical code, including itself."""
    if market == "CN" and re.fullmatch(r"\d{6}\.[A-Z]{2}", ident):
        code, exchange = ident.split(".")
        yahoo = [f"{code}.SS"] if exchange == "SH" else []
        return [ident, code, f"{exchange}{code}", f"{exchange}.{code}", f"{code}.{LONG[exchange]}", *yahoo]
    if market == "HK" and (match := re.fullmatch(r"0*(\d{1,5})\.HK", ident)):
        number = match[1]
        # Hong Kong's codes are written with four digits by Yahoo and with five by the exchange.
        forms = {number.zfill(4), number.zfill(5)}
        written = [pattern.format(form) for form in sorted(forms) for pattern in ("{}.HK", "HK{}", "HK.{}")]
        return [ident, *written, f"{number}.HK", number.zfill(5)]
    if market == "US":
        return [
            ident,
            f"{ident}.US",
            f"US.{ident}",
            f"{ident}.O",
            f"{ident}.N",
            f"NASDAQ:{ident}",
            f"NYSE:{ident}",
            f"${ident}",
        ]
    return [ident]
