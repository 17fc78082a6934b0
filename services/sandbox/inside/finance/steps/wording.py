"""Words for the results of steps, in English and Chinese, as an answer quotes them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

WORDS = MappingProxyType(json.loads(Path(__file__).with_name("words.json").read_text("utf-8")))
LANGUAGES = ("en", "zh")
# More days are a table's matter, and more conventions of members would hide the figures.
MOST_DAYS, MOST_CONVENTIONS = 12, 5


def describe_result(shown: Mapping[str, Any], language: str) -> dict[str, list[str]]:
    """Return what a result that was shown says, how it was computed and which data its window lacks, as lines.

    ``language`` is "en" or "zh".
    """
    is_zh = language == LANGUAGES[1]
    lacking = [*dict.fromkeys(list_gaps(shown, is_zh))][:MOST_CONVENTIONS]
    conventions = list_conventions(shown, is_zh)
    return {"said": [*list_values(shown, is_zh)], "conventions": conventions, "lacking": lacking}


def list_values(shown: Mapping[str, Any], is_zh: bool) -> Iterator[str]:
    """Yield one text for a point or a period, one per member of a group, the marks of a line."""
    kind = shown["kind"]
    if kind == "group":
        for one in shown["members"]:
            text, key = "; ".join(list_values(one, is_zh)), str(one["key"])
            yield text if key in text else f"{translate(key, is_zh)}: {text}"
        if shown.get("more"):
            yield translate("more", is_zh).format(shown["more"])
        if not shown["members"]:
            yield translate("none", is_zh)
    elif kind == "line":
        marks = {"first": "first", "last": "last", "highest": "max", "lowest": "min"}
        points = [(word, {"unit": shown["unit"], **shown[key]}) for word, key in marks.items()]
        yield "; ".join(f"{translate(word, is_zh)} {show_point(point, is_zh)}" for word, point in points)
    elif kind == "period":
        yield " – ".join(str(shown[end]) for end in ("start", "end") if shown[end])
    else:
        yield show_point(shown, is_zh)


def list_conventions(shown: Mapping[str, Any], is_zh: bool) -> list[str]:
    """Return how a result was computed; of a group once where all members say the same, else by member."""
    name = "convention_zh" if is_zh else "convention"
    if shown.get(name):
        return [str(shown[name])]
    members = [one for one in shown.get("members", ()) if one.get(name)]
    texts = list(dict.fromkeys(str(one[name]) for one in members))
    colon = "：" if is_zh else ": "
    return texts if len(texts) < 2 else [f"{one['key']}{colon}{one[name]}" for one in members[:MOST_CONVENTIONS]]


def list_gaps(shown: Mapping[str, Any], is_zh: bool) -> Iterator[str]:
    """Yield which data the window of a result lacks, of a group those of its members."""
    yield from map(str, shown.get("gaps_zh" if is_zh else "gaps", ()))
    for one in shown.get("members", ()):
        yield from list_gaps(one, is_zh)


def show_point(point: Mapping[str, Any], is_zh: bool) -> str:
    """Return value, unit and days of a point, and the days on which a condition holds where they can be read."""
    value, unit = point.get("value"), str(point.get("unit") or "")
    text = translate("none", is_zh) if value is None else f"{show_number(float(value), unit)}{show_unit(unit, is_zh)}"
    ends = [str(point[end]) for end in ("first_day", "day") if point.get(end)]
    text += f" ({' – '.join(dict.fromkeys(ends))})" if ends else ""
    days = [str(day) for day in point.get("days", ())]
    if not 0 < len(days) <= MOST_DAYS or point.get("more"):
        return text
    return text + (f"：{'、'.join(days)}" if is_zh else f": {', '.join(days)}")


def show_number(value: float, unit: str) -> str:
    """Return a number with as many decimals as its size is worth."""
    if value == int(value) and abs(value) < 1e12 and unit in ("", "days", "months"):
        return f"{int(value):,}"
    is_short = abs(value) >= 10 or unit in ("%", "percentage points")
    return f"{value:,.{2 if is_short else 4 if abs(value) >= 0.1 else 6}f}"


def show_unit(unit: str, is_zh: bool) -> str:
    """Return a unit as it stands behind a number: "%" at once, others after a blank; bases of indices are left out."""
    text = translate(unit, is_zh).strip()
    if not text or "=" in text or text in ("index", "points"):
        return ""
    return "%" if text.startswith("%") else f" {text}"


def translate(word: str, is_zh: bool) -> str:
    """Return a word of results in a language; one that has no other form as it is."""
    return str(WORDS.get(word, [word] * 2)[is_zh])
