"""Sections of a report: where they stand in a text, which of them an answer lacks, and where notes belong."""

from __future__ import annotations

import json
import re
import unicodedata
from dataclasses import dataclass

from fathom.domain.report_sections import KEY_TABLE, MISSING, SECTIONS, Section
from fathom.domain.text.language import language_of
from fathom.domain.text.numerals import ONE_TO_TEN
from fathom.services.planner.answering.parsing import Code, Reference, parse
from fathom.services.planner.answering.verification.tables import find_tables
from fathom.services.planner.model.episode import Episode, Finding, FindingKind

HEADING = re.compile(r"^ {0,3}#{1,6}[ \t]([^\n]+)$", re.MULTILINE)
# Numbering and emphasis around a heading's words: "1. **Answer**", "一、结论".
DECORATION = re.compile(rf"^(?:\d{{1,2}}[.)、]|[{ONE_TO_TEN}]{{1,2}}[、.])?\s*|[*_：:]+")
# A text in prose has no call that says what it is: so many of the headings make it a report.
RECOGNISED = 3
BY_NAME = {name.casefold(): section for section in SECTIONS for name in (section.english, section.chinese)}


@dataclass(frozen=True)
class FoundSection:
    """A section of a text, at the offsets of its body; ``heading`` is that of its heading."""

    section: Section
    heading: int
    start: int
    end: int


def find_sections(markdown: str) -> list[FoundSection]:
    """Return the skeleton's sections in the order of the text; each ends at the next of them."""
    # Code is blanked out: a comment of Python is no heading.
    plain = "".join(
        re.sub(r"[^\n]", " ", event.source) if isinstance(event, Code) else event.source for event in parse(markdown)
    )
    found = [(section, match) for match in HEADING.finditer(plain) if (section := BY_NAME.get(read_title(match[1])))]
    ends = [*(match.start() for _, match in found[1:]), len(markdown)]
    return [
        FoundSection(section, match.start(), match.end(), end)
        for (section, match), end in zip(found, ends[: len(found)], strict=True)
    ]


def read_title(heading: str) -> str:
    """Return a heading's words without numbering and emphasis, for comparison."""
    return DECORATION.sub("", unicodedata.normalize("NFKC", heading).strip("# \t")).strip().casefold()


def is_report(markdown: str, episode: Episode) -> bool:
    """Return whether the answer is to be a report: as the run's prompt, the ``finish`` call or its headings say."""
    if ".report." in episode.task.prompts.get("answer", ""):
        return True
    for call in episode.steps[-1].completion.tool_calls if episode.steps else ():
        if call.name == "finish":
            return read_form(call.arguments_json) == "report"
    return len({found.section for found in find_sections(markdown)}) >= RECOGNISED


def read_form(arguments_json: str) -> str:
    """Return the argument ``form`` of a ``finish`` call; "" when it is not readable."""
    try:
        return str(json.loads(arguments_json).get("form", ""))
    # Tolerant readers have mended the call elsewhere: its answer counts, and its form is then unknown.
    except (ValueError, AttributeError):
        return ""


def find_missing_sections(markdown: str, question: str) -> list[Finding]:
    """Return a finding for each section that a report lacks or leaves empty, at the end of the text."""
    chinese = language_of(question) == "zh"
    found = {part.section: markdown[part.start : part.end] for part in find_sections(markdown)}
    end, out = len(markdown), []
    for section in SECTIONS:
        name = section.name(chinese)
        body = found.get(section)
        if body is None:
            why = f"the report has no section {name!r}"
        elif not body.strip():
            why = f"the section {name!r} is empty"
        elif section is KEY_TABLE and not has_table(body):
            why = f"the section {name!r} has no table: compute one in Python and place it with {{{{table:…}}}}"
        else:
            continue
        out.append(Finding(end, end, FindingKind.SECTION, f"## {name}", why))
    return out


def has_table(markdown: str) -> bool:
    """Return whether a text places a table or has one in Markdown."""
    placed = any(isinstance(event, Reference) and event.kind == "table" for event in parse(markdown))
    return placed or any(table.rows for table in find_tables(markdown))


def append_note(markdown: str, note: str) -> str:
    """Return the text with a note on what is missing: in a report's section for it, else at the end."""
    part = next((part for part in find_sections(markdown) if part.section is MISSING), None)
    if part is None:
        return f"{markdown.rstrip()}\n\n{note}"
    rest = markdown[part.end :]
    return f"{markdown[: part.end].rstrip()}\n\n{note}" + (f"\n\n{rest}" if rest.strip() else "")
