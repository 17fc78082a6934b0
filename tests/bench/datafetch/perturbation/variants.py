"""Variants of questions, one per kind of change or several at once; the same seed gives the same ones."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tests.bench.datafetch.perturbation import dates, words
from tests.bench.datafetch.perturbation.model import Asked, Kind, Thing, Variant
from tests.golden.datafetch.schema import Measure, NameFile, Question

RENAMED_KINDS = frozenset({"stock", "fund", "index"})
SUFFIX = re.compile(r"(?:集团)?股份有限公司$|有限公司$")


def perturb(asked: Asked, kind: Kind, seed: int, held: bool = True) -> Variant | None:
    """One change of a kind; None where it does not apply or changes nothing.

    ``held`` takes colloquial words from the list that is only for reporting. See the package for what stays valid.
    """
    if not asked.answerable and kind != Kind.PHRASING:
        return None
    rng = random.Random(f"{seed}|{kind}|{asked.text}")
    text, as_of, unit, scale = asked.text, asked.as_of, "", 1.0
    if kind == Kind.DATES:
        text = dates.respelt(text, asked.lang, rng)
    elif kind == Kind.RELATIVE:
        told = None if as_of else dates.relative(text, asked.lang, rng)
        text, as_of = told or (text, as_of)
    elif kind == Kind.UNITS:
        text, unit, scale = words.in_unit(text, asked.money, asked.lang, rng) or (text, unit, scale)
    elif kind == Kind.PHRASING:
        text = words.add_phrases(text, asked.lang, rng)
    elif kind == Kind.COLLOQUIAL:
        text = words.colloquial(text, words.HELD if held else words.FIT, rng)
    else:
        text = rename_thing(asked, kind, rng)
    return Variant(text, (kind,), as_of, unit, scale) if text != asked.text else None


def rename_thing(asked: Asked, kind: Kind, rng: random.Random) -> str:
    """Return the text with one of its things renamed or misspelt."""
    text = asked.text
    for thing in asked.things:
        if kind == Kind.NAMES:
            text = words.replace_name(text, thing.names, asked.lang, rng)
        else:
            text = words.misspelt(text, thing.names, rng)
        if text != asked.text:
            return text
    return text


def variants(asked: Asked, seed: int, kinds: Iterable[Kind] = tuple(Kind), held: bool = True) -> Iterator[Variant]:
    """One variant per kind that applies."""
    for kind in kinds:
        if (variant := perturb(asked, kind, seed, held)) is not None:
            yield variant


def compound(asked: Asked, seed: int, held: bool = True) -> Variant | None:
    """All kinds that go together at once: colloquial words, a date or a today, a unit, a name or a slip, a phrase."""
    rng = random.Random(f"{seed}|compound|{asked.text}")
    order = (
        Kind.COLLOQUIAL,
        rng.choice((Kind.DATES, Kind.RELATIVE)),
        Kind.UNITS,
        rng.choice((Kind.NAMES, Kind.TYPOS)),
        Kind.PHRASING,
    )
    text, as_of, unit, scale = asked.text, asked.as_of, "", 1.0
    done: list[Kind] = []
    for kind in order:
        step = perturb(Asked(text, asked.lang, as_of, asked.things, asked.money, asked.answerable), kind, seed, held)
        if step is None:
            continue
        text, as_of, done = step.text, step.as_of, [*done, kind]
        unit, scale = (step.unit, step.scale) if step.unit else (unit, scale)
    return Variant(text, tuple(done), as_of, unit, scale) if done else None


def of_gold(question: Question, names: NameFile) -> Asked:
    """A gold question. Stocks, funds and indices may be renamed; "oil" or "dollar" mean more than one thing."""
    wanted = {cell.entity for cell in question.cells} | {wanted.of.split(".")[0] for wanted in question.ranges}
    known = {entity.id: entity for entity in names.entities if entity.kind in RENAMED_KINDS}
    things = tuple(Thing(tuple(known[entity].names)) for entity in sorted(wanted) if entity in known)
    money = all(
        cell.measure == Measure.VALUE and "$ (" in cell.unit and "l. of" in cell.unit for cell in question.cells
    )
    dollars = "USD" if question.cells and money and not question.ranges else ""
    return Asked(question.ask, question.lang, question.as_of, things, dollars, not question.missing)


def of_finglm(row: Mapping[str, Any]) -> Asked:
    """A question on annual reports, as ``questions_verified.jsonl`` has it: company, short name, code and year."""
    code = str(row["code"])
    market = {"6": "SH", "9": "SH", "4": "BJ", "8": "BJ"}.get(code[0], "SZ")
    core = SUFFIX.sub("", row["company"] or "")
    names = (row["company"], row["short"], code, f"{code}.{market}", f"{market}{code}", core if len(core) >= 4 else "")
    amount = row["type"] == "1" and "元" in row["question"] and "每股" not in row["question"]
    money = amount and all(re.fullmatch(r"-?[\d.]+元?", str(value)) for value in row["inputs"].values())
    return Asked(
        row["question"], "zh", None, (Thing(tuple(dict.fromkeys(filter(None, names)))),), "CNY" if money else ""
    )
