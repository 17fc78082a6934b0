"""Units of values and the conversion between them: scales (万元, million), percentages, basis points, currencies."""

from __future__ import annotations

import re
from dataclasses import dataclass

from fathom.core.errors import InvalidField
from fathom.services.datafetch.catalog.schema import IndicatorSpec
from fathom.services.datafetch.catalog.text import plain

SCALES = {
    "": 1.0,
    "千": 1e3,
    "万": 1e4,
    "十万": 1e5,
    "百万": 1e6,
    "千万": 1e7,
    "亿": 1e8,
    "十亿": 1e9,
    "百亿": 1e10,
    "万亿": 1e12,
    "thousand": 1e3,
    "k": 1e3,
    "million": 1e6,
    "mn": 1e6,
    "m": 1e6,
    "billion": 1e9,
    "bn": 1e9,
    "b": 1e9,
    "trillion": 1e12,
}
# The words for each currency; "" is the indicator's own.
CURRENCY_NAMES = {
    "": ("元", "块", "块钱"),
    "CNY": ("人民币", "元人民币", "rmb", "yuan", "cny", "chinese yuan"),
    "USD": ("美元", "美金", "usd", "dollars", "dollar", "$", "us dollars", "us dollar"),
    "EUR": ("欧元", "eur", "euro", "euros"),
    "HKD": ("港元", "港币", "hkd", "hong kong dollar", "hong kong dollars"),
    "JPY": ("日元", "jpy", "yen", "japanese yen"),
    "GBP": ("英镑", "gbp", "pounds", "pounds sterling"),
    "CHF": ("swiss franc", "swiss francs", "瑞士法郎", "chf"),
}
CURRENCIES = {name: code for code, names in CURRENCY_NAMES.items() for name in names}
MONEY = {"CNY": "元", "USD": "USD"}
# The unit of the reference rates, which are all stored so.
PER_EURO = "per EUR"
FRACTIONS = {
    "%": 100.0,
    "percent": 100.0,
    "百分比": 100.0,
    "百分数": 100.0,
    "bp": 10_000.0,
    "bps": 10_000.0,
    "基点": 10_000.0,
    "fraction": 1.0,
}
# Longest first, since alternatives match in order: 万亿 before 万.
ZH_SCALE = "万亿|百亿|十亿|亿|千万|百万|十万|万|千"
ZH_MONEY = "元人民币|人民币|美元|美金|欧元|港元|港币|日元|英镑|瑞士法郎|块钱|元|块"
EN_SCALE = "thousand|million|billion|trillion|mn|bn"
EN_MONEY = (
    "pounds sterling|japanese yen|hong kong dollars?|chinese yuan|swiss francs?|"
    "us dollars|dollars?|usd|rmb|yuan|cny|euros?|eur|hkd|jpy|yen|gbp|pounds|chf"
)


@dataclass(frozen=True)
class Conversion:
    """A unit conversion: ``value × factor``, and from the currency ``source`` to ``target``.

    Currencies are converted at the ECB rate of the row's date. False in a boolean context when it changes nothing.
    """

    factor: float = 1.0
    unit: str = ""
    source: str = ""
    target: str = ""

    def __bool__(self) -> bool:
        return self.factor != 1.0 or bool(self.target)

    def format_formula(self, text: str) -> str:
        """Return the formula with the conversion appended."""
        if self.target:
            text = f"({text}) × {self.target}/{self.source} (ECB reference rate of the date)"
        return f"({text}) × {self.factor:g}" if self.factor != 1.0 else text


@dataclass(frozen=True)
class Unit:
    """A parsed unit: a scale and a currency ("" for the indicator's own), or a ``fraction``.

    ``fraction`` is the value that stands for one whole: 100 for %, 10,000 for basis points, 0 for other units.
    """

    scale: float = 1.0
    currency: str = ""
    fraction: float = 0.0


def parse_unit(text: str) -> Unit | None:
    """Parse a unit such as "亿元", "万美元", "million USD", "%" or "bp"; return None for anything else."""
    word = plain(text).strip().lower().removesuffix("为单位").strip()
    if word in FRACTIONS:
        return Unit(fraction=FRACTIONS[word])
    if word == "basis points":
        return Unit(fraction=10_000.0)
    # Both parts may be missing, but not both at once: the empty word is refused below.
    match = re.fullmatch(rf"({ZH_SCALE})?({ZH_MONEY})?", word)
    if match is None or not word:
        match = re.fullmatch(rf"(?:({EN_SCALE})s?)?\s*(?:of\s+)?({EN_MONEY}|\$)?", word)
    if match is None or not word:
        return None
    scale, money = match.groups()
    return Unit(SCALES[scale or ""], CURRENCIES[money] if money else "")


def find_currency(unit: str) -> str:
    """Return the currency code of an indicator's unit, or ""."""
    plainly = plain(unit)
    # 美元, 港元, 日元 and 欧元 hold the character of the yuan.
    if re.search(r"元|CNY", plainly) and not re.search(r"[美港日欧]元", plainly):
        return "CNY"
    # FRED's units: "Bil. of $", "Mil. of U.S. $", "USD per barrel".
    found = re.match(r"(?:Bil\. of |Mil\. of |Thous\. of )?(USD|EUR|HKD|JPY|GBP|\$|U\.S\. \$)", plainly)
    return {"$": "USD", "U.S. $": "USD"}.get(found[1], found[1]) if found else ""


def find_scale(unit: str) -> float:
    """Return the scale of an indicator's unit: 1e9 for "Bil. of $", 1e4 for "万元"."""
    for prefix, scale in (
        ("Bil. of", 1e9),
        ("Mil. of", 1e6),
        ("Thous. of", 1e3),
        ("万亿", 1e12),
        ("亿", 1e8),
        ("万", 1e4),
    ):
        # 万亿 before 万, with which it begins.
        if unit.startswith(prefix):
            return scale
    return 1.0


def find_conversion(spec: IndicatorSpec, unit: str, currency: str) -> Conversion:
    """Return the conversion from an indicator's unit to the requested one.

    Raises ``InvalidField("typed.unit")`` when the unit is unknown or the two are not convertible.
    """
    if not unit and not currency:
        return Conversion()
    if currency and not unit and spec.unit == PER_EURO:
        # The rate of another currency for the asked one: its own rate over that one's, of the same day.
        target = currency.upper()
        return Conversion() if target == "EUR" else Conversion(1.0, f"per {target}", target, "EUR")
    wanted = parse_unit(unit) if unit else Unit()
    if wanted is None:
        raise InvalidField(
            "typed.unit",
            f"{unit!r} is no unit that is known here; scales and currencies are, e.g. million USD or 亿元, and %, bp",
        )
    own = find_currency(spec.unit)
    target = (currency or wanted.currency).upper()
    # Rates convert among themselves only: per cent of money would need a base.
    if wanted.fraction:
        return convert_fraction(spec, wanted.fraction, unit)
    if not own:
        if target or (unit and spec.unit in ("", "%")):
            raise InvalidField(
                "typed.unit", f"{spec.name} is {'in ' + spec.unit if spec.unit else 'a plain number'}, not money"
            )
        scale = find_scale(spec.unit)
        plainly = re.sub(r"^(?:Bil|Mil|Thous)\. of ", "", spec.unit) if scale != 1.0 else spec.unit
        return Conversion(scale / wanted.scale, f"{unit}{plainly}") if unit else Conversion()
    if (
        # Prices per barrel or per ounce are amounts of money, index points are not.
        spec.unit not in ("元", "CNY", own)
        and not re.match(rf"(?:{own}|\$) per ", spec.unit)
        and not re.match(r"(Bil|Mil|Thous)\. of|[万亿]", spec.unit)
    ):
        raise InvalidField("typed.unit", f"{spec.name} is in {spec.unit}, which is no plain amount of money")
    factor = find_scale(spec.unit) / wanted.scale
    changes = bool(target) and target != own
    # "USD" names a currency and no scale; the label is made from the code.
    if wanted.scale == 1.0 and wanted.currency:
        unit = ""
    label = unit if unit and (wanted.currency or not target) else f"{unit}{MONEY.get(target, target)}"
    return Conversion(factor, label or spec.unit, own if changes else "", target if changes else "")


def find_growth_conversion(name: str, transform: str, unit: str, currency: str) -> Conversion:
    """Return the conversion of a rate of change, which is a fraction whatever its values are measured in.

    Raises ``InvalidField("typed.unit")`` for a unit that no share has, ``InvalidField("typed.currency")`` for a
    currency.
    """
    if currency:
        raise InvalidField("typed.currency", f"the {transform} change of {name} is a rate, not an amount of money")
    if not unit:
        return Conversion(unit="fraction")
    wanted = parse_unit(unit)
    if wanted is None or not wanted.fraction:
        raise InvalidField(
            "typed.unit", f"the {transform} change of {name} is a rate: give %, bp or fraction, not {unit!r}"
        )
    return Conversion(wanted.fraction, unit)


def convert_fraction(spec: IndicatorSpec, wanted: float, unit: str) -> Conversion:
    """Return the conversion between fractions, percentages and basis points.

    ``wanted`` is the value that stands for one whole, e.g. 100 for per cent. Raises ``InvalidField("typed.unit")`` for
    other units.
    """
    # A unit such as "% (SA)" is a percentage with a note.
    wholes = {"": 1.0, "fraction": 1.0, "%": 100.0, "percentage points": 100.0, "bp": 10_000.0}
    own = wholes.get(spec.unit.split(" (")[0])
    if own is None:
        raise InvalidField("typed.unit", f"{spec.name} is in {spec.unit}, which is no share or rate")
    return Conversion(wanted / own, unit)
