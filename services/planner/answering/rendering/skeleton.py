"""Completion of a report: its sections in their order, those that the model left out from the record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from fathom.domain.report_sections import (
    ANSWER,
    CALCULATION,
    EVIDENCE,
    KEY_TABLE,
    MISSING,
    NO_SOURCE,
    SECTIONS,
    SOURCES,
    Section,
    write_sections,
)
from fathom.domain.text.language import language_of
from fathom.services.planner.answering.parsing import Citation, Reference, parse
from fathom.services.planner.answering.rendering.citations import resolve_citations
from fathom.services.planner.answering.rendering.missing import MAX_ITEMS, describe, escape_markdown
from fathom.services.planner.answering.rendering.report import find_sections, has_table
from fathom.services.planner.model.episode import Finding, FindingKind, Material, MaterialKind

NOT_WRITTEN = ("Not written by the model.", "模型没有写这一节。")
NO_TABLE = ("No table was fetched or computed.", "没有取得或计算出表格。")
NOTHING_MISSING = ("No source reported missing data.", "没有数据源报告缺失。")
# Paragraphs of a text without sections that may stand in front of its evidence: notes, then what was found.
LEAD = 3


@dataclass(frozen=True)
class Skeleton:
    """Builder of the sections of one report from its text and the episode's material."""

    markdown: str
    question: str
    material: Sequence[Material]

    def complete(self) -> str:
        """Return the report with each section once, in order, under its heading in the question's language.

        Text before the first section belongs to the answer; a text without any section is the answer and its evidence;
        figures behind the sources stand with the evidence.
        """
        bodies = self._collect()
        moved = [f"{{{{figure:{name}}}}}" for name in list_references(bodies.get(SOURCES, ""), "figure")]
        for figure in moved:
            bodies[SOURCES] = bodies[SOURCES].replace(figure, "").strip()
        bodies[EVIDENCE] = join([bodies.get(EVIDENCE, ""), *moved])
        if not has_table(bodies.get(KEY_TABLE, "")):
            table = self._choose_table(bodies)
            bodies = {section: drop_paragraph(body, table.partition(" [")[0]) for section, body in bodies.items()}
            bodies[KEY_TABLE] = join([bodies.get(KEY_TABLE, ""), table])
        return write_sections({section: self._fill(section, bodies) for section in SECTIONS}, self._chinese)

    @property
    def _chinese(self) -> bool:
        return language_of(self.question) == "zh"

    def _collect(self) -> dict[Section, str]:
        found = find_sections(self.markdown)
        before = self.markdown[: found[0].heading].strip() if found else self.markdown.strip()
        bodies: dict[Section, str] = {}
        for part in found:
            body = self.markdown[part.start : part.end].strip()
            bodies[part.section] = join([bodies.get(part.section, ""), body])
        if not found:
            before, bodies[EVIDENCE] = split_answer(before)
        bodies[ANSWER] = join([before, bodies.get(ANSWER, "")])
        return bodies

    def _fill(self, section: Section, bodies: dict[Section, str]) -> str:
        """Return the body of a section; one that the model left out says so, or has what the record has."""
        body = bodies.get(section, "")
        if body:
            return body
        if section is MISSING:
            return self._list_missing() or NOTHING_MISSING[self._chinese]
        if section is SOURCES:
            return self._list_sources() or NO_SOURCE[self._chinese]
        return NOT_WRITTEN[self._chinese]

    def _choose_table(self, bodies: Mapping[Section, str]) -> str:
        """Return a reference to the first table that the text places, else to one that it cites or a cell computed."""
        sheets = [item for item in self._of(MaterialKind.SHEET) if item.variable]
        placed = [name for section in SECTIONS for name in list_references(bodies.get(section, ""), "table")]
        cited = set(resolve_citations(self.markdown, [item.number for item in sheets]).cited)
        chosen = [item for name in placed[:1] for item in sheets if item.variable == name]
        chosen = chosen or [item for item in sheets if item.computed_by or item.number in cited] or sheets
        return f"{{{{table:{chosen[-1].variable}}}}} [{chosen[-1].number}]" if chosen else NO_TABLE[self._chinese]

    def _list_sources(self) -> str:
        known = [item for item in self.material if item.kind is not MaterialKind.MISSING]
        cited = set(resolve_citations(self.markdown, [item.number for item in known]).cited)
        return "\n".join(f"- [{item.number}] {self._name(item)}" for item in known if item.number in cited or not cited)

    def _list_missing(self) -> str:
        lines = {describe(item, self._chinese): item.number for item in self._of(MaterialKind.MISSING)}
        return "\n".join(f"- {text} [{number}]" for text, number in list(lines.items())[:MAX_ITEMS])

    def _name(self, item: Material) -> str:
        if item.kind is MaterialKind.CODE:
            return CALCULATION[self._chinese]
        return escape_markdown(str(item.item.title))

    def _of(self, kind: MaterialKind) -> list[Material]:
        return [item for item in self.material if item.kind is kind]


def split_answer(text: str) -> tuple[str, str]:
    """Return the paragraphs up to the first that cites something, at most three, and the others."""
    paragraphs = text.split("\n\n")
    cites = [any(isinstance(event, Citation) for event in parse(part)) for part in paragraphs[:LEAD]]
    end = cites.index(True) + 1 if True in cites else 1
    # Joined as they were: a blank line may stand in code.
    return "\n\n".join(paragraphs[:end]).strip(), "\n\n".join(paragraphs[end:]).strip()


def drop_paragraph(body: str, reference: str) -> str:
    """Return a body without the paragraphs that are that reference alone."""
    return "\n\n".join(part for part in body.split("\n\n") if part.strip() != reference)


def list_references(markdown: str, kind: str) -> list[str]:
    """Return the names of the tables or figures that a text places."""
    return [event.name for event in parse(markdown) if isinstance(event, Reference) and event.kind == kind]


def join(parts: Sequence[str]) -> str:
    """Return the parts as paragraphs, without empty ones."""
    return "\n\n".join(part.strip() for part in parts if part.strip())


def place_omissions(found: Sequence[Finding], markdown: str) -> list[Finding]:
    """Return the findings of sections that the model left out at their headings in the completed report."""
    out = []
    for mark in found:
        start = f"\n{markdown}".find(f"\n{mark.text}\n")
        is_there = mark.kind is FindingKind.SECTION and start >= 0
        out.append(replace(mark, start=start, end=start + len(mark.text)) if is_there else mark)
    return out
