"""Sections that every report has, in their order, by their headings in English and Chinese."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Section:
    """A section by its headings in both languages."""

    english: str
    chinese: str

    def name(self, chinese: bool) -> str:
        """Return the heading in one language."""
        return self.chinese if chinese else self.english


ANSWER, KEY_TABLE, EVIDENCE = Section("Answer", "结论"), Section("Key table", "关键数据"), Section("Evidence", "证据")
COUNTER, ASSUMPTIONS = Section("Counter-arguments", "反面论据"), Section("Assumptions", "假设")
MISSING, SOURCES = Section("Missing data", "缺失数据"), Section("Sources", "来源")
SECTIONS = (ANSWER, KEY_TABLE, EVIDENCE, COUNTER, ASSUMPTIONS, MISSING, SOURCES)
# What the sources say of a calculation, and where there are none.
CALCULATION, NO_SOURCE = ("calculation", "计算"), ("No material was used.", "没有使用材料。")


def write_sections(bodies: Mapping[Section, str], chinese: bool) -> str:
    """Return a report: the body of each section, in order, under its heading in one language."""
    return "\n\n".join(f"## {section.name(chinese)}\n\n{bodies[section]}" for section in SECTIONS)
