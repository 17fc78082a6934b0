"""Recognition of numbers in text: signs, separators, scales, percent, basis points, Chinese numerals."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import pairwise

from fathom.domain.text.numerals import DIGIT_VALUES, DIGITS, ONE_TO_NINE

SCALES = {
    "thousand": 1e3, "k": 1e3, "million": 1e6, "millions": 1e6, "mn": 1e6, "mio": 1e6, "m": 1e6, "billion": 1e9,
    "billions": 1e9, "bn": 1e9, "b": 1e9, "trillion": 1e12, "trillions": 1e12, "tn": 1e12, "万亿": 1e12, "千亿": 1e11,
    "百亿": 1e10, "十亿": 1e9, "亿": 1e8, "千万": 1e7, "百万": 1e6, "十万": 1e5, "万": 1e4, "千": 1e3,
    # As statistical offices shorten them in units: "Bil. of $".
    "thous.": 1e3, "mil.": 1e6, "bil.": 1e9, "tril.": 1e12,
}  # fmt: skip
PERCENT = ("%", "％", "percent", "per cent", "pct", "percentage point", "percentage points", "pp", "个百分点", "百分点")
# Signs and words of currencies, as ISO 4217 codes; "$" alone may be any dollar.
CURRENCIES = {
    "us$": "USD", "usd": "USD", "dollar": "$", "dollars": "$", "$": "$", "hk$": "HKD", "hkd": "HKD", "a$": "AUD",
    "aud": "AUD", "c$": "CAD", "cad": "CAD", "€": "EUR", "eur": "EUR", "euro": "EUR", "euros": "EUR", "£": "GBP",
    "gbp": "GBP", "pound": "GBP", "pounds": "GBP", "¥": "¥", "jpy": "JPY", "yen": "JPY", "cny": "CNY", "rmb": "CNY",
    "yuan": "CNY", "chf": "CHF", "swiss francs": "CHF", "sek": "SEK", "kronor": "SEK", "kroner": "kr", "nok": "NOK",
    "dkk": "DKK",
    "inr": "INR", "rupee": "INR", "rupees": "INR", "krw": "KRW", "rub": "RUB", "rouble": "RUB", "roubles": "RUB",
    "ruble": "RUB", "rubles": "RUB", "try": "TRY", "lira": "TRY", "zar": "ZAR", "brl": "BRL", "mxn": "MXN",
    "sgd": "SGD", "twd": "TWD", "nzd": "NZD", "pln": "PLN", "zloty": "PLN", "thb": "THB", "baht": "THB",
    "美元": "USD", "港元": "HKD", "港币": "HKD", "欧元": "EUR", "英镑": "GBP", "日元": "JPY", "人民币": "CNY",
    "元": "CNY", "瑞郎": "CHF", "瑞士法郎": "CHF", "卢布": "RUB", "里拉": "TRY", "卢比": "INR", "韩元": "KRW",
    "澳元": "AUD", "加元": "CAD",
    "新台币": "TWD", "泰铢": "THB", "瑞典克朗": "SEK", "挪威克朗": "NOK", "丹麦克朗": "DKK",
}  # fmt: skip
DOLLARS, YENS = frozenset(("$", "USD", "HKD", "AUD", "CAD", "NZD", "SGD")), frozenset(("¥", "JPY", "CNY"))
# The dollar that the statistics of a country are in.
DOLLARS_BY_COUNTRY = {"US": "USD", "CA": "CAD", "AU": "AUD", "NZ": "NZD", "HK": "HKD", "SG": "SGD"}
CROWNS = frozenset(("kr", "SEK", "NOK", "DKK"))
# As codes, which may stand before a number; in lower case some are words ("try").
CODES = "|".join(sorted({code for code in CURRENCIES.values() if len(code) == 3 and code.isupper()}))
CURRENCY_WORDS = "|".join(re.escape(word) for word in sorted(CURRENCIES, key=len, reverse=True))
# Behind a number: "of Australian dollars", " SEK".
CURRENCY_AFTER = re.compile(
    rf"\s?(?:of\s)?(?-i:(?:[A-Z][A-Za-z.]*\s){{0,2}})((?-i:{CODES})|(?!try\b)(?:{CURRENCY_WORDS}))(?![A-Za-z])",
    re.IGNORECASE,
)
CURRENCY_IN_UNIT = re.compile(rf"(?<![A-Za-z])({CURRENCY_WORDS})(?![A-Za-z])", re.IGNORECASE)
# Multiples of watts: their name, sign and the rest of its name, and the Chinese word.
WATTS = (
    ("kilowatts", "k", "ilo", "千"), ("megawatts", "m", "ega", "兆"), ("gigawatts", "g", "iga", "吉"),
)  # fmt: skip
# Nouns behind a number that say what it counts, by kind of unit.
NOUNS = {
    "points": re.compile(r"\s(?:index\s)?points?\b|(?:指数)?点", re.IGNORECASE),
    "people": re.compile(r"\s(?:people|persons?|workers|employees|jobs)\b|人", re.IGNORECASE),
    "hours": re.compile(r"\shours?\b|个?小时|工时", re.IGNORECASE),
    "barrels": re.compile(r"\sbarrels?\b|\sbbl\b|桶", re.IGNORECASE),
    "ounces": re.compile(r"\sounces?\b|\soz\b|盎司", re.IGNORECASE),
    "kilograms": re.compile(r"\s(?:kilograms?|kilos?|kg)\b|公斤|千克", re.IGNORECASE),
    "gallons": re.compile(r"\sgallons?\b|加仑", re.IGNORECASE),
    "grams": re.compile(r"\sgram(?:me)?s?\b|(?<![公毫])克(?![朗])", re.IGNORECASE),
    "litres": re.compile(r"\slit(?:re|er)s?\b|(?<!公)升(?![至到幅值降高])", re.IGNORECASE),
    **{
        f"{name}-hours": re.compile(rf"\s?{sign}(?:{rest})?w(?:att)?[- ]?h(?:ours?)?\b|{word}瓦时", re.IGNORECASE)
        for name, sign, rest, word in WATTS
    },
    **{
        name: re.compile(rf"\s?{sign}(?:{rest})?w(?:atts?)?\b|{word}瓦(?!时)", re.IGNORECASE)
        for name, sign, rest, word in WATTS
    },
    "tonnes": re.compile(r"\s(?:metric\s)?tonn?e?s?\b|吨", re.IGNORECASE),
}
PER_MILLE = ("‰", "per mille", "per mil")
BASIS = ("bp", "bps", "basis point", "basis points", "个基点", "基点")
UNITS = sorted((*SCALES, *PERCENT, *PER_MILLE, *BASIS), key=len, reverse=True)
# A unit of letters must end there: "5 m" is five million, "5 men" is not.
WORDS = "|".join(
    re.escape(unit) + (r"(?![A-Za-z])" if unit[-1].isascii() and unit[-1].isalpha() else "") for unit in UNITS
)
# Verbose pattern: brackets (accountants' minus), sign, currency, digits with or without separators, exponent, unit.
NUMBER = re.compile(
    rf"""(?P<open>[(（]\s?)?(?P<sign>(?<![\w.)\]])[-−–+±])?
    (?:(?P<currency>(?:US|HK|A|C)?[$¥€£]|(?<![A-Za-z])(?-i:{CODES}))\s?)?(?P<sign2>[-−])?
    (?P<digits>\d{{1,3}}(?:[,，]\d{{3}})+(?!\d)(?:\.\d+)?|\d+(?:\.\d+)?|\.\d+)(?P<exponent>[eE][-+]?\d{{1,3}})?
    (?:[ \u00a0\u202f-]?(?P<unit>{WORDS}))?(?P<close>\s?[)）])?""",
    re.VERBOSE | re.IGNORECASE,
)
# Numerals count only with a power (十, 百, …) and a unit, or where they are as long as 四百一十二万 and 一点三亿:
# 一 alone is mostly an article.
CHINESE = re.compile(
    rf"百分之([{DIGITS}两十百千点]+)|([{ONE_TO_NINE}两][{DIGITS}两十百千万亿点]*[十百千万亿点][{DIGITS}两十百千万亿]*)(个百分点|个基点|倍|元|美元|点|家|人|股|吨|桶)|"
    rf"([{ONE_TO_NINE}两][{DIGITS}两十百千万亿点]{{2,}}[万亿])"
)
NAME_BEFORE = re.compile(r"(?<![A-Za-z])[A-Z][A-Za-z]*$")
POWERS = {"十": 10, "百": 100, "千": 1000}
JOINED = re.compile(r"^\s*(?:to|and|or|–|—|-|至|到|和)\s*(?:(?:US)?[$¥€£])?$")
# Words before a rounded number, which widen its tolerance.
HEDGE = re.compile(
    r"(?:about|around|nearly|almost|roughly|approximately|over|more than|less than|under|above|below|some|~|≈|"
    r"约|大约|近|超过|逾|不到|左右|将近)\s*(?:US)?[$¥€£]?\s*$",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Number:
    """A number in text. ``value`` has its scale applied; a percentage is 12.3, basis points are 25.

    ``tolerance`` is half a unit of the last digit. ``kind`` is "" for a plain number, "%" or "bp". ``signed`` is True
    when the text gives a sign, ``bracketed`` when the number is alone in parentheses, which accountants read as
    negative.
    """

    start: int
    end: int
    text: str
    value: float
    tolerance: float
    kind: str = ""
    signed: bool = False
    bracketed: bool = False
    scaled: bool = False
    decimals: int = 0
    shared: float = 1.0
    """Scale of the number that follows: for 151.0 in "from 151.0 to 130.5 million", 1e6."""
    currency: str = ""
    """ISO code of the currency that is named with the number; "$" or "¥" where the sign may mean several."""
    noun: str = ""
    """Kind of what the number counts, of ``NOUNS``."""
    is_difference: bool = False
    """True in percentage points or basis points, which no level but a difference of levels is stated in."""
    per: str = ""
    """Denominator of the number, as ``denominators`` names it: "ounces" for dollars an ounce."""
    time: str = ""
    """Unit of time that the number counts, of ``units.TIMES``: "month" for a spell of 40.7 months."""

    def candidates(self) -> tuple[tuple[float, float], ...]:
        """Return (value, tolerance) in each unit in which a source may hold the number."""
        pairs = [(self.value, self.tolerance)]
        if self.shared != 1.0:
            pairs.append((self.value * self.shared, self.tolerance * self.shared))
        if self.kind == "%":
            pairs.append((self.value / 100, self.tolerance / 100))
        if self.kind == "bp":
            pairs += [(self.value / 100, self.tolerance / 100), (self.value / 1e4, self.tolerance / 1e4)]
        if self.bracketed and not self.signed:
            pairs += [(-value, tolerance) for value, tolerance in pairs]
        return tuple(pairs)


def find_numbers(text: str) -> list[Number]:
    """Return all numbers of the text in order, including those in dates and names."""
    found = [made for match in NUMBER.finditer(text) if (made := parse_western(match, text)) is not None]
    found += [parse_chinese(match) for match in CHINESE.finditer(text)]
    ordered = sorted(found, key=lambda number: number.start)
    for index, (left, right) in enumerate(pairwise(ordered)):
        # "from 151.0 to 130.5 million": the unit of the second number is meant for both.
        if right.scaled and not left.scaled and not left.kind and JOINED.match(text[left.end : right.start]):
            ordered[index] = replace(left, shared=right.tolerance / (0.5 * 10**-right.decimals))
    return ordered


def parse_western(match: re.Match[str], text: str) -> Number | None:
    """Convert a match to a number; return None inside a word such as ``sheet_1`` or ``Q3``."""
    start = match.start("digits")
    before = text[start - 1 : start]
    if before and (before == "_" or (before.isascii() and before.isalpha()) or before == "."):
        return None
    # "U-6" and "COVID-19" are names.
    if before == "-" and NAME_BEFORE.search(text[: start - 1]):
        return None
    after = text[match.end("digits") : match.end("digits") + 1]
    unit = (match.group("unit") or "").lower()
    is_word = after.isascii() and (after.isalpha() or after == "_")
    # "11.5GW" is no word but a number with its unit.
    if not unit and not match.group("exponent") and is_word and not find_noun(text, match.end("digits")):
        return None
    named = match.group("currency") or find_currency_after(text, match.end("unit") if unit else match.end("digits"))
    digits = re.sub("[,，]", "", match.group("digits"))
    decimals = len(digits.partition(".")[2])
    exponent = float(f"1{match.group('exponent')}") if match.group("exponent") else 1.0
    scale = (0.1 if unit in PER_MILLE else SCALES.get(unit, 1.0)) * exponent
    sign = (match.group("sign") or "") + (match.group("sign2") or "")
    negative = any(mark in "-−–" for mark in sign)
    tolerance = 0.5 * 10**-decimals * scale
    head = text[max(0, match.start() - 14) : match.start()]
    if HEDGE.search(head):
        # "about 1,500" is rounded to hundreds: its trailing zeros are not significant digits.
        zeros = len(digits) - len(digits.rstrip("0")) if decimals == 0 else 0
        # Twice the last digit, two percent, or half of the last stated digit, whichever is widest.
        tolerance = max(tolerance * 2, 0.02 * abs(float(digits)) * scale, 0.5 * 10.0**zeros * scale)
    return Number(
        start=match.start("sign") if match.group("sign") and match.group("sign") != "±" else start,
        end=match.end("unit") if unit else max(match.end("digits"), match.end("exponent")),
        text=text[start : match.end("unit") if unit else match.end("digits")],
        value=(-1 if negative else 1) * float(digits) * scale,
        tolerance=tolerance,
        kind="%" if unit in PERCENT or unit in PER_MILLE else "bp" if unit in BASIS else "",
        signed=bool(sign) and sign != "±",
        bracketed=bool(match.group("open")) and bool(match.group("close")),
        scaled=scale != 1.0 and unit not in PER_MILLE,
        decimals=decimals,
        currency=CURRENCIES.get(named.lower(), ""),
        noun=""
        if unit in (*PERCENT, *PER_MILLE, *BASIS)
        else find_noun(text, match.end("unit") if unit else match.end("digits")),
        is_difference=unit in BASIS or "point" in unit or unit == "pp" or "点" in unit,
    )


def find_currency_after(text: str, place: int) -> str:
    """Return the word of a currency right behind a number; "" if there is none."""
    found = CURRENCY_AFTER.match(text, place)
    return found.group(1) if found else ""


def find_noun(text: str, place: int) -> str:
    """Return the kind of what a number counts, by the noun right behind it; "" when there is none of ``NOUNS``."""
    return next((kind for kind, pattern in NOUNS.items() if pattern.match(text, place)), "")


def parse_chinese(match: re.Match[str]) -> Number:
    """Convert a Chinese numeral such as 百分之十二点三 or 三千五百亿元."""
    words, unit = (match.group(1), "个百分点") if match.group(1) else (match.group(2) or match.group(4), match.group(3))
    value, decimals = parse_chinese_value(words)
    scale = next((1e8 if "亿" in words else 1e4 for power in "亿万" if power in words), 1.0)
    kind = "%" if unit == "个百分点" else "bp" if unit == "个基点" else ""
    tolerance = 0.5 * 10**-decimals * (scale if decimals else 1.0)
    return Number(match.start(), match.end(), match.group(), value, tolerance, kind, scaled=scale > 1)


def parse_chinese_value(words: str) -> tuple[float, int]:
    """Return the value of a Chinese numeral and its number of decimals."""
    whole, _, fraction = words.partition("点")
    decimals = len(fraction.rstrip("万亿"))
    digits = "".join(str(DIGIT_VALUES[char]) for char in fraction if char in DIGIT_VALUES)
    scale = float(1e8 ** fraction.count("亿") * 1e4 ** fraction.count("万"))
    return (parse_section(whole) + (float(f"0.{digits}") if digits else 0.0)) * scale, decimals


def parse_section(words: str) -> float:
    """Parse an integer in Chinese numerals; bare digits are read as decimal digits."""
    if words and all(char in DIGIT_VALUES for char in words):
        return float("".join(str(DIGIT_VALUES[char]) for char in words))
    for mark, power in (("亿", 1e8), ("万", 1e4)):
        if mark in words:
            head, _, tail = words.rpartition(mark)
            return parse_section(head or "一") * power + (parse_section(tail) if tail else 0.0)
    total, digit = 0.0, 0
    for char in words:
        if char in POWERS:
            total += (digit or 1) * POWERS[char]
            digit = 0
        else:
            digit = DIGIT_VALUES.get(char, 0)
    return total + digit


def is_close(value: float, candidates: Iterable[tuple[float, float]]) -> bool:
    """Return whether the value equals one of the candidates within its tolerance."""
    return any(abs(value - wanted) <= tolerance * (1 + 1e-9) + 1e-12 * abs(wanted) for wanted, tolerance in candidates)
