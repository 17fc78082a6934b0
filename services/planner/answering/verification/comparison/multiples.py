"""Multiples in words: "more than twice", "about five times", "doubled", 不到一半, 翻了一番."""

from __future__ import annotations

import re
from dataclasses import dataclass

from fathom.domain.text.numerals import NUMBER_WORDS, ONE_TO_TEN, parse_number
from fathom.services.planner.answering.verification.comparison.measuring import Values
from fathom.services.planner.answering.verification.comparison.parts import Clause, is_stated
from fathom.services.planner.answering.verification.comparison.relations import load_lexicon

# "five times", "2.5-fold", 三倍; "three times a year" counts and compares nothing.
TIMES = re.compile(
    rf"(?P<en>\d+(?:\.\d+)?|{'|'.join(NUMBER_WORDS)})(?:\s+times|[- ]?fold)\b(?!\s+(?:a|per|in|during|since)\b)|"
    rf"(?P<zh>\d+(?:\.\d+)?|[两{ONE_TO_TEN}])倍(?P<half>半)?",
    re.IGNORECASE,
)
# 涨了一倍: what has grown by its own size is twice as large.
GROWN = re.compile(r"(?:[涨增升多高]|扩大|提高)(?:了|出|长了?|加了?)?(?:将近|接近|近|超过|逾|约|大约|不止|不到|不足)?$")
# Words right before a multiple that make it a bound, in this order; any other multiple is meant roughly.
NEAR = re.compile(r"(?:nearly|almost|close to|just under|将近|接近|近)\s*$", re.IGNORECASE)
# Of more than so much.
OVER = re.compile(r"(?:more than|over|at least|exceed\w*|above|超过|逾|不止|高于)\s*(?:the\s+)?$", re.IGNORECASE)
# Of at most as much, and less.
UNDER = re.compile(r"(?:less than|under|below|short of|not even|fewer than|不到|不足|未及|低于)\s*$", re.IGNORECASE)
CHINESE_BOUND = re.compile(r"(?:将近|接近|超过|逾|不止|高于|不到|不足|未及|低于)(?=[^，,；;]*$)")
# What separates both sides of a Chinese multiple: 苹果的涨幅约为微软的两倍.
COPULA = re.compile(r"为|是|相当于|达到?")
# Where what follows a multiple speaks of something else.
END = re.compile(r"[,;，；]")
# "About five times" is also 5.4 times; "nearly double" is also 1.75 times, and "more than twice" may be rounded down.
ROUGHLY, NEARLY, ROUNDING = 0.18, 0.2, 0.02


# "more than two thirds", 不到三分之一, 过半.
FRACTION = re.compile(
    rf"\b(?:(?P<count>a|an|one|two|three|four)[\s-]+)?(?P<part>half|third|quarter|fifth|tenth)s?\b|"
    rf"(?P<zhpart>[{ONE_TO_TEN}])分之(?P<zhcount>[{ONE_TO_TEN}])|(?P<zhhalf>一半|半数)",
    re.IGNORECASE,
)
PARTS = {"half": 2, "third": 3, "quarter": 4, "fifth": 5, "tenth": 10}


@dataclass(frozen=True)
class Multiple:
    """A multiple at offsets ``start`` to ``end`` of a clause, and the ratios that it allows."""

    start: int
    end: int
    least: float
    most: float
    is_verb: bool

    def allows(self, ratio: float) -> bool:
        """Return whether a ratio can be told by this multiple."""
        return self.least <= ratio <= self.most


def find_multiple(text: str) -> Multiple | None:
    """Return the only multiple of a text; None without one or with several."""
    found = [(*match.span(), *parse_times(match, text)) for match in TIMES.finditer(text)]
    for pattern, factor, is_verb in load_lexicon().multiples:
        found += [(*match.span(), factor, is_verb) for match in pattern.finditer(text)]
    if len(found) != 1 or not found[0][2]:
        return None
    start, end, factor, is_verb = found[0]
    before = text[:start]
    # A Chinese bound stands before what is multiplied: 不到10月的一半.
    if not text[start:end].isascii() and (bound := list(CHINESE_BOUND.finditer(before))):
        before = before[: bound[-1].end()]
    # "More than halved" leaves less than a half.
    shrinks = is_verb and factor < 1
    if shrinks and OVER.search(before):
        bounds = 0.0, factor * (1 + ROUNDING)
    elif shrinks and (NEAR.search(before) or UNDER.search(before)):
        bounds = factor * (1 - ROUNDING), factor * (1 + NEARLY)
    elif NEAR.search(before):
        bounds = factor * (1 - NEARLY), factor * (1 + ROUNDING)
    elif OVER.search(before):
        bounds = factor * (1 - ROUNDING), float("inf")
    elif UNDER.search(before):
        bounds = 0.0, factor * (1 + ROUNDING)
    else:
        bounds = factor * (1 - ROUGHLY), factor * (1 + ROUGHLY)
    return Multiple(start, end, *bounds, is_verb)


def find_false_share(clause: Clause) -> tuple[int, int] | None:
    """Return the span of a fraction that the only share in percent of a clause is above or below; None without one."""
    shares = [
        one
        for one in clause.numbers
        if one.kind == "%"
        and (
            re.match(r"\s*of\b", clause.text[one.end - clause.start :])
            or clause.text[: one.start - clause.start].endswith("占")
        )
    ]
    for match in FRACTION.finditer(clause.text) if len(shares) == 1 else ():
        # "68.8% of spending, more than two thirds of it"; but "20% of jobs, half of which" is of something else.
        if re.match(r"\s*of (?:which|them|these|those)\b", clause.text[match.end() :]):
            continue
        said, before = shares[0], clause.text[: match.start()]
        bound = 100 * parse_fraction(match)
        way = 1 if OVER.search(before) else -1 if UNDER.search(before) else 0
        if bound and way * (said.value - bound) < -said.tolerance:
            return match.start(), match.end()
    return None


def parse_fraction(match: re.Match[str]) -> float:
    """Return the value of "two thirds" or 三分之二; 0 for what is no fraction."""
    if match["zhhalf"]:
        return 0.5
    if match["zhpart"]:
        return float(parse_number(match["zhcount"]) or 0) / float(parse_number(match["zhpart"]) or 1)
    count = (match["count"] or "a").lower()
    return (1.0 if count in ("a", "an") else float(parse_number(count) or 0)) / PARTS[match["part"].lower()]


def parse_times(match: re.Match[str], text: str) -> tuple[float, bool]:
    """Return the factor of "five times" or 2.5倍, 0 for what is no number, and whether it is a change: 涨了两倍."""
    word = match["en"] or match["zh"]
    half = 0.5 if match["half"] else 0.0
    factor = half + (float(word) if word[0].isdigit() else float(parse_number(word) or 0))
    is_grown = match["zh"] is not None and factor > 0 and GROWN.search(text[: match.start()]) is not None
    return (factor + 1, True) if is_grown else (factor, False)


def split_sides(clause: Clause, multiple: Multiple) -> tuple[Clause, Clause] | None:
    """Return what is a multiple, and of what; None when one of them is not in the clause."""
    border = END.search(clause.text, multiple.end)
    before = clause.inside((0, multiple.start))
    after = clause.inside((multiple.end, border.start() if border else len(clause.text)))
    if any(char.isalnum() and char.isascii() for char in clause.text[multiple.end :].split(",")[0]):
        return before, after
    joints = list(COPULA.finditer(before.text))
    if not joints:
        return None
    joint = joints[-1]
    return clause.inside((0, joint.start())), clause.inside((joint.end(), multiple.start))


def compare_stated(clause: Clause, multiple: Multiple) -> bool | None:
    """Return whether the only two numbers of a clause have the ratio; None unless there are two of one kind."""
    stated = [one for one in clause.numbers if is_stated(one) and not one.is_difference and one.value > 0]
    if len(stated) != 2 or stated[0].kind != stated[1].kind or stated[0].scaled != stated[1].scaled:
        return None
    first, second = (one.value for one in stated)
    # "doubled from 5 % to 10 %", but "10 % is twice the 5 %".
    return multiple.allows(second / first if multiple.is_verb else first / second)


def has_common_ratio(one: Values, other: Values, multiple: Multiple) -> bool | None:
    """Return whether some common reading of two sides has the ratio; None without a common reading."""
    names = [name for name in one.keys() & other.keys() if other[name] and one[name] / other[name] > 0]
    return any(multiple.allows(one[name] / other[name]) for name in names) if names else None
