"""A report on a question with several parts: what each gave, a table of all values, and what is missing."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fathom.domain.report_sections import (
    ANSWER,
    ASSUMPTIONS,
    CALCULATION,
    COUNTER,
    EVIDENCE,
    KEY_TABLE,
    MISSING,
    NO_SOURCE,
    SOURCES,
    write_sections,
)
from fathom.domain.writing.calculation import Calculation
from fathom.domain.writing.tables import MOST_TABLES, place_charts, place_tables, write_date
from fathom.domain.writing.wording import cite, join, load_texts, say

# Values that the key table has of one step; the step's own table has all.
MOST_VALUES = 6
# The names and the period that the words of a part have from the question.
SUBJECT = re.compile(r"^.*?(?::\s|：)")
Computed = Sequence[tuple[str, Calculation]]


@dataclass(frozen=True)
class Part:
    """A part with its calculation, or with the text of what was looked up, and what of it stays open."""

    question: str
    calculation: Calculation | None = None
    found: str = ""
    left: Sequence[str] = ()

    @property
    def name(self) -> str:
        """Return the words of the part."""
        return SUBJECT.sub("", self.question, count=1).strip()


def write_report(parts: Sequence[Part], missing: Sequence[str], is_zh: bool) -> str:
    """Return the report in Markdown; ``missing`` is what the parts lack."""
    calculations = [(part.name, part.calculation) for part in parts if part.calculation is not None]
    computed = [(name, one) for name, one in calculations if one.values]
    bodies = {
        ANSWER: "\n\n".join(write_part(part, is_zh) for part in parts),
        KEY_TABLE: write_table(computed, is_zh),
        EVIDENCE: "\n\n".join(text for name, one in computed for text in list_evidence(name, one)),
        COUNTER: say("no_counter", is_zh),
        ASSUMPTIONS: "\n\n".join(write_assumptions(computed, is_zh)) or say("no_assumptions", is_zh),
        MISSING: "\n".join(f"- {text}" for text in missing) or say("none_missing", is_zh),
        SOURCES: "\n".join(list_sources(calculations, is_zh)) or NO_SOURCE[is_zh],
    }
    return write_sections(bodies, is_zh)


def write_part(part: Part, is_zh: bool) -> str:
    """Return what a part gave."""
    one = part.calculation
    said = one.write_paragraphs()[0] if one is not None and one.values else part.found
    return f"**{part.name}**\n\n{said}" if said else say("part_missing", is_zh, part.name)


def write_table(computed: Computed, is_zh: bool) -> str:
    """Return the table of all values in Markdown, "" for none."""
    rows = [
        [name, one.labels[number], text + outcome.citation]
        for name, one in computed
        for number, outcome in one.values.items()
        for text in outcome.texts[:MOST_VALUES]
    ]
    head = load_texts()["columns"][is_zh]
    lines = [head, ["---"] * len(head), *rows] if rows else []
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def list_evidence(name: str, one: Calculation) -> list[str]:
    """Return the heading of a part, its tables and its chart."""
    return [f"### {name}", *place_tables(one.placed_sheets[:MOST_TABLES]), *place_charts(one.conversation)]


def write_assumptions(computed: Computed, is_zh: bool) -> Iterator[str]:
    """Yield how uncertain parts were read, the conventions of the calculations, and as of when the data are."""
    for name, one in computed:
        if one.program.unused or not one.is_certain:
            yield say("taken_for", is_zh, name, join(one.labels.values(), is_zh))
    values = [outcome for _, one in computed for outcome in one.values.values()]
    said = {text: cited for one in values for text, cited in one.conventions.items()}
    if said:
        yield "\n".join(f"- {text}{cited}" for text, cited in said.items())
    yield from write_date([sheet for _, one in computed for sheet in one.used_sheets], is_zh)


def list_missing(parts: Sequence[Part], is_zh: bool) -> list[str]:
    """Return what of the parts was not computed, and why; how they were read is an assumption."""
    found = []
    for part in parts:
        one = part.calculation
        if one is not None:
            read = {say("doubtful", is_zh), *(str(word.get("words", "")) for word in one.program.unused)}
            found += [f"{part.name}{'：' if is_zh else ': '}{text}" for text in part.left if text not in read]
        elif not part.found:
            reasons = join((text for text in part.left if text != part.question), is_zh)
            found.append(f"{part.name} ({reasons})" if reasons else part.name)
    return list(dict.fromkeys(found))


def list_sources(calculations: Computed, is_zh: bool) -> list[str]:
    """Return the tables and calculations of the parts, by number."""
    named: dict[int, str] = {}
    for _, one in calculations:
        named |= {int(sheet["material"]): str(sheet.get("title", "")) for sheet in one.sheets if "material" in sheet}
        cells = [step for step in one.conversation.of("python") if step.is_ok and step.material and not step.is_chart]
        named |= {step.material: CALCULATION[is_zh] for step in cells}
    return [f"-{cite(number)} {title}" for number, title in sorted(named.items())]
