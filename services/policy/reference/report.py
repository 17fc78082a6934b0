"""A report of several parts: what each gave, a table of all values, tables and charts by part, and what is missing."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from fathom.domain.report_sections import (
    ANSWER,
    ASSUMPTIONS,
    CALCULATION,
    COUNTER,
    EVIDENCE,
    KEY_TABLE,
    MISSING,
    NO_SOURCE,
    SECTIONS,
    SOURCES,
)
from fathom.services.policy.reference.answer import MOST_TABLES, place_charts, place_tables, write_date
from fathom.services.policy.reference.calculation import Calculation
from fathom.services.policy.reference.wording import cite, join, load_texts, say

# The words of a part behind the names and the period that it has from the question.
WORDS = re.compile(r"^.*?(?::\s|：)")
# Values that the key table has of one step; the step's own table has all.
MOST_VALUES = 6


@dataclass(frozen=True)
class Part:
    """A part with its calculation, or with the text of what was looked up, and what of it stays open."""

    question: str
    calculation: Calculation | None = None
    found: str = ""
    left: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Return the words of the part."""
        return WORDS.sub("", self.question, count=1).strip()

    @property
    def is_computed(self) -> bool:
        """Return whether a step gave a value."""
        return self.calculation is not None and bool(self.calculation.values)

    @property
    def is_guess(self) -> bool:
        """Return whether the reading is not certain, or leaves a word out."""
        one = self.calculation
        return one is not None and not (one.is_certain and not one.program.unused)


def write_report(parts: Sequence[Part], is_zh: bool) -> dict[str, Any]:
    """Return the arguments of the ``finish`` call with the report."""
    missing = list(dict.fromkeys(text for part in parts for text in list_missing(part, is_zh)))
    bodies = {
        ANSWER: [*write_lines(parts, is_zh)] or [say("nothing", is_zh)],
        KEY_TABLE: [write_table(parts, is_zh)],
        EVIDENCE: [text for part in parts for text in write_evidence(part)],
        COUNTER: [say("no_counter", is_zh)],
        ASSUMPTIONS: [*write_assumptions(parts, is_zh)] or [say("no_assumptions", is_zh)],
        MISSING: ["\n".join(f"- {text}" for text in missing) or say("none_missing", is_zh)],
        SOURCES: ["\n".join(list_sources(parts, is_zh)) or NO_SOURCE[is_zh]],
    }
    sections = [f"## {one.name(is_zh)}\n\n" + "\n\n".join(filter(None, bodies[one])) for one in SECTIONS]
    return {"answer": "\n\n".join(sections), "form": "report", **({"reading": {"open": missing}} if missing else {})}


def write_lines(parts: Sequence[Part], is_zh: bool) -> Iterator[str]:
    """Yield what the parts gave, a paragraph each."""
    for part in parts:
        if part.calculation is not None and part.is_computed:
            yield f"**{part.name}**\n\n{part.calculation.write_paragraphs()[0]}"
        elif part.found:
            yield f"**{part.name}**\n\n{part.found}"
        else:
            yield say("part_missing", is_zh, part.name)


def write_table(parts: Sequence[Part], is_zh: bool) -> str:
    """Return the table of all values in Markdown, "" for none."""
    rows = []
    for part in parts:
        one = part.calculation
        for number, outcome in one.values.items() if one is not None else ():
            label = one.labels[number] if one is not None else ""
            rows += [[part.name, label, text + outcome.cited] for text in outcome.texts[:MOST_VALUES]]
    head = load_texts()["columns"][is_zh]
    lines = [head, ["---"] * len(head), *rows] if rows else []
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def write_evidence(part: Part) -> Iterator[str]:
    """Yield the heading of a part, its tables and its chart."""
    one = part.calculation
    if one is None or not part.is_computed:
        return
    yield f"### {part.name}"
    yield from place_tables(one.placed_sheets[:MOST_TABLES])
    yield from place_charts(one.conversation)


def write_assumptions(parts: Sequence[Part], is_zh: bool) -> Iterator[str]:
    """Yield how uncertain parts were read, the conventions of the calculations, and as of when the data are."""
    computed = [one for one in parts if one.is_computed]
    for part in computed:
        if part.calculation is not None and part.is_guess:
            yield say("taken_for", is_zh, part.name, join(part.calculation.labels.values(), is_zh))
    values = [one for part in computed if part.calculation for one in part.calculation.values.values()]
    said = {text: cited for one in values for text, cited in one.conventions.items()}
    if said:
        yield "\n".join(f"- {text}{cited}" for text, cited in said.items())
    sheets = [sheet for part in computed if part.calculation for sheet in part.calculation.used_sheets]
    yield from write_date(sheets, is_zh)


def list_missing(part: Part, is_zh: bool) -> Iterator[str]:
    """Yield what of a part was not computed, and why; how it was read is an assumption."""
    one = part.calculation
    if one is None and not part.found:
        reasons = [text for text in part.left if text != part.question]
        yield f"{part.name}{f' ({join(reasons, is_zh)})' if reasons else ''}"
    elif one is not None:
        read = {say("doubtful", is_zh), *(str(word.get("words", "")) for word in one.program.unused)}
        yield from (f"{part.name}{'：' if is_zh else ': '}{text}" for text in part.left if text not in read)


def list_sources(parts: Sequence[Part], is_zh: bool) -> list[str]:
    """Return the tables and calculations of the parts, by number."""
    named: dict[int, str] = {}
    for one in filter(None, (part.calculation for part in parts)):
        named |= {int(sheet["material"]): str(sheet.get("title", "")) for sheet in one.sheets if "material" in sheet}
        cells = [step for step in one.conversation.of("python") if step.is_ok and step.material]
        named |= {step.material: CALCULATION[is_zh] for step in cells if not step.is_chart}
    return [f"-{cite(number)} {title}" for number, title in sorted(named.items())]
