"""Completion of a report: its sections in their order, those that the model left out from the record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from fathom.domain.chat.language import language_of
from fathom.services.planner.answering.parsing import Reference, parse
from fathom.services.planner.answering.rendering.citations import resolve_citations
from fathom.services.planner.answering.rendering.missing import MAX_ITEMS, describe, escape_markdown
from fathom.services.planner.answering.rendering.report import (
    ANSWER,
    EVIDENCE,
    KEY_TABLE,
    MISSING,
    SECTIONS,
    SOURCES,
    Section,
    find_sections,
    has_table,
)
from fathom.services.planner.model.episode import Finding, FindingKind, Material, MaterialKind

NOT_WRITTEN = ("Not written by the model.", "模型没有写这一节。")
NO_TABLE = ("No table was fetched or computed.", "没有取得或计算出表格。")
NOTHING_MISSING = ("No source reported missing data.", "没有数据源报告缺失。")
NO_SOURCE = ("No material was used.", "没有使用材料。")
CALCULATION = ("calculation", "计算")


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
        moved = [f"{{{{figure:{name}}}}}" for name in list_figures(bodies.get(SOURCES, ""))]
        for figure in moved:
            bodies[SOURCES] = bodies[SOURCES].replace(figure, "").strip()
        bodies[EVIDENCE] = join([bodies.get(EVIDENCE, ""), *moved])
        parts = [f"## {section.name(self._chinese)}\n\n{self._fill(section, bodies)}" for section in SECTIONS]
        return "\n\n".join(parts)

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
            before, _, rest = before.partition("\n\n")
            bodies[EVIDENCE] = rest.strip()
        bodies[ANSWER] = join([before, bodies.get(ANSWER, "")])
        return bodies

    def _fill(self, section: Section, bodies: dict[Section, str]) -> str:
        """Return the body of a section; one that the model left out says so, or has what the record has."""
        body = bodies.get(section, "")
        if section is KEY_TABLE and not has_table(body):
            return join([body, self._place_table()])
        if body:
            return body
        if section is MISSING:
            return self._list_missing() or NOTHING_MISSING[self._chinese]
        if section is SOURCES:
            return self._list_sources() or NO_SOURCE[self._chinese]
        return NOT_WRITTEN[self._chinese]

    def _place_table(self) -> str:
        """Return a reference to the last table that the text cites or a cell has computed, else the last one."""
        sheets = [item for item in self._of(MaterialKind.SHEET) if item.variable]
        cited = set(resolve_citations(self.markdown, [item.number for item in sheets]).cited)
        chosen = [item for item in sheets if item.computed_by] or [item for item in sheets if item.number in cited]
        found = (chosen or sheets)[-1:]
        return f"{{{{table:{found[0].variable}}}}} [{found[0].number}]" if found else NO_TABLE[self._chinese]

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


def list_figures(markdown: str) -> list[str]:
    """Return the names of the figures that a text places."""
    return [event.name for event in parse(markdown) if isinstance(event, Reference) and event.kind == "figure"]


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
