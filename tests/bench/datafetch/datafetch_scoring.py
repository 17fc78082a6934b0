"""Is an answer of datafetch right? Exactly the expected cells, with their units, and the truth about what is missing."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import date

from tests.golden.datafetch.schema import Absent, Cell, Computed, Measure, Question, Range

TOLERANCE = 1e-6
SCALES = (
    (r"百万", 1e6),
    (r"万亿|\btrillions?( of)?\b|\btrn\b", 1e12),
    (r"亿|\bhundred millions?( of)?\b", 1e8),
    (r"万|\bten thousands?( of)?\b", 1e4),
    (r"千", 1e3),
    (r"\bbil(\.|lions?)?( of)?(?=\W|$)|\bbn\b", 1e9),
    (r"\bmil(\.|lions?)?( of)?(?=\W|$)|\bmn\b", 1e6),
    (r"\bthous(\.|ands?)?( of)?(?=\W|$)", 1e3),
)
WORDS = {
    r"u\.s\. \$|us\$|\$|美元|us dollars?|dollars?": "usd",
    r"欧元|euros?": "eur",
    r"日元": "jpy",
    r"港[元币]": "hkd",
    r"人民币|元(?!素)|yuan": "cny",
    r"percent(?!age)|per cent|\bpct(?! pt)": "%",
    r"percentage points?|pct pts?|个?百分点": "pp",
    r"basis points?|bps?|个?基点": "bp",
    r"人|people": "persons",
    r"index points?": "points",
    r"/": " per ",
}
POINTS = {"pp": 1.0, "bp": 0.01}
RATIOS = {"ratio": 1.0, "fraction": 1.0, "": 1.0, "1": 1.0, "x": 1.0, "%": 0.01}


@dataclass(frozen=True)
class Given:
    """One column of an answer; ``points`` are its non-null cells with the day of their row, if it has one."""

    entity: str
    indicator: str
    unit: str
    formula: str
    points: tuple[tuple[date | None, float], ...]
    inputs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Lack:
    """One missing item of an answer."""

    subject: str
    reason: str
    detail: str = ""


@dataclass(frozen=True)
class Answer:
    """Hold what came back."""

    columns: tuple[Given, ...] = ()
    missing: tuple[Lack, ...] = ()


@dataclass
class Verdict:
    """List what is wrong, in words; right when nothing is."""

    question: Question
    faults: list[str] = field(default_factory=list)

    @property
    def right(self) -> bool:
        return not self.faults


def judge(
    question: Question,
    answer: Answer,
    columns: Sequence[Sequence[tuple[date, float]]],
    names: Sequence[Collection[str]],
    computed: Sequence[Sequence[tuple[date | None, float]]] = (),
) -> Verdict:
    """Compares an answer with a gold question.

    ``columns``: the whole expected column of each of the question's ranges, ``computed`` of what it has computed.
    ``names``: sets of names of one thing each,
    case-folded, so that "Apple" is taken for AAPL.
    """
    verdict = Verdict(question)
    verdict.faults += [fault for cell in question.cells if (fault := check_cell(cell, question, answer))]
    for wanted, points in zip(question.ranges, columns, strict=True):
        if fault := check_range(wanted, points, answer):
            verdict.faults.append(fault)
    for made, rows in zip(question.computed, computed, strict=True):
        if fault := check_computed(made, rows, answer):
            verdict.faults.append(fault)
    verdict.faults += [fault for absent in question.missing if (fault := check_absent(absent, answer, names))]
    # Told from a today, the newest figure of a series may truly not be out yet.
    said = [m for m in answer.missing if question.as_of is None or m.reason != "NOT_YET_PUBLISHED"]
    if not question.missing and said:
        verdict.faults.append(f"says that {said[0].subject} is missing ({said[0].reason})")
    allowed = operands(question)
    extra = [f"{column.entity}.{column.indicator}" for column in answer.columns if not allowed & set(series_of(column))]
    if extra:
        verdict.faults.append(f"brings {', '.join(extra[:3])}, which nobody asked for")
    return verdict


def operands(question: Question) -> set[str]:
    """The series that may appear in an answer."""
    found = {wanted.of for wanted in question.ranges} | {made.of for made in question.computed}
    for cell in question.cells:
        found |= {cell.of, cell.against or cell.of}
        if cell.currency:
            found |= {"USD.eur_rate", f"{cell.currency}.eur_rate"}
    return found


def series_of(column: Given) -> list[str]:
    """The series that a column is made of: its own, and those that its name, formula or inputs tell."""
    told = " ".join((column.indicator, column.formula, *column.inputs))
    whole = re.findall(r"\b[A-Z0-9]{2,6}\.[a-z0-9_]+", told)
    own = re.findall(r"(?<![.\w])[a-z][a-z0-9_]*", told)
    return [f"{column.entity}.{column.indicator}", *whole, *(f"{column.entity}.{name}" for name in own)]


def check_cell(cell: Cell, question: Question, answer: Answer) -> str:
    """Return what is wrong with a cell; "" if nothing."""
    derived = cell.measure not in (Measure.VALUE, Measure.MAX, Measure.MIN)
    days = {other.day for other in question.cells if other.of == cell.of and other.measure == cell.measure}
    fault = f"no column for {cell.measure} of {cell.of}"
    for column in answer.columns:
        if cell.of not in series_of(column) or (derived and not column.formula):
            continue
        if not derived and cell.of != f"{column.entity}.{column.indicator}":
            continue
        day = cell.day if len(column.points) > 1 or not derived else None
        values = [value for when, value in column.points if day is None or when in (day, None)]
        if not any(same(cell.value, cell.unit, value, column.unit) for value in values):
            given = f"{values[0]:.6g} {column.unit}" if values else "nothing"
            fault = f"{cell.measure} of {cell.of}: {given} instead of {cell.value:.6g} {cell.unit}"
        elif len(column.points) > max(len(days), 1):
            fault = f"{cell.measure} of {cell.of} is right but stands in {len(column.points)} rows"
        else:
            return ""
    return fault


def check_range(wanted: Range, points: Sequence[tuple[date, float]], answer: Answer) -> str:
    """Return what is wrong with a column; "" if nothing."""
    fault = f"no column for {wanted.of}"
    for column in answer.columns:
        if (f"{column.entity}.{column.indicator}") != wanted.of:
            continue
        if len(column.points) != len(points):
            fault = f"{wanted.of} has {len(column.points)} rows instead of {len(points)}"
        elif not all(
            given[0] == right[0] and same(right[1], wanted.unit, given[1], column.unit)
            for given, right in zip(sorted(column.points, key=lambda p: p[0] or date.min), points, strict=True)
        ):
            fault = f"{wanted.of} has other days, values or units ({column.unit})"
        else:
            return ""
    return fault


def check_computed(wanted: Computed, points: Sequence[tuple[date | None, float]], answer: Answer) -> str:
    """Return what is wrong with a column that is made of a series; "" if nothing."""
    fault = f"no column made of {wanted.of}"
    for column in answer.columns:
        if wanted.of not in series_of(column):
            continue
        if len(column.points) != len(points):
            fault = f"what is made of {wanted.of} has {len(column.points)} rows instead of {len(points)}"
        elif all(
            (right[0] is None or given[0] == right[0]) and same(right[1], wanted.unit, given[1], column.unit)
            for given, right in zip(column.points, points, strict=True)
        ):
            return ""
        else:
            fault = f"what is made of {wanted.of} has other days, values or units ({column.unit})"
    return fault


def check_absent(absent: Absent, answer: Answer, names: Sequence[Collection[str]]) -> str:
    """Return what is wrong with a missing item; "" if nothing."""
    subject = absent.subject.casefold()
    spellings = {subject}.union(*(group for group in names if subject in group))
    for item in answer.missing:
        said = f"{item.subject} {item.detail}".casefold()
        if item.reason in absent.reasons and any(spelling in said for spelling in spellings):
            return ""
    said = ", ".join(f"{item.subject}: {item.reason}" for item in answer.missing) or "nothing"
    return f"{absent.subject or 'something'} should be missing ({' or '.join(absent.reasons)}), said: {said}"


def same(right: float, right_unit: str, given: float, given_unit: str) -> bool:
    """Equal numbers in the same unit, whatever its scale."""
    base, scale = unit(right_unit)
    other, factor = unit(given_unit)
    for table in (POINTS, RATIOS):
        if base in table and other in table:
            base, scale, other, factor = "", table[base], "", table[other]
            break
    # The ECB's rates are per euro whether or not the currency is named; a price may leave out its "per barrel".
    known = base == "per eur" and other.endswith("per eur")
    if base != other and not known and base.split(" per ")[0] != other:
        return False
    return math.isclose(right * scale, given * factor, rel_tol=TOLERANCE, abs_tol=1e-9)


def unit(text: str) -> tuple[str, float]:
    """A unit without its scale, and the scale: "Bil. of $ (SAAR)" is usd, 1e9."""
    base = re.sub(r"\((nsa|sa|saar)\)|chn\. \d{4} ?|chained \d{4} ?", "", text.casefold()).strip()
    scale = 1.0
    for pattern, factor in SCALES:
        base, found = re.subn(pattern, " ", base)
        if found:
            scale *= factor
    for pattern, word in WORDS.items():
        base = re.sub(rf"{pattern}", f" {word} ", base)
    return " ".join(base.split()), scale
