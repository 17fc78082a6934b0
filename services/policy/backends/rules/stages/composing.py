"""Answer from numbered material: first and last values, a requested value, quotes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fathom.domain.chat.pipeline import Asked
from fathom.services.policy.backends.rules.passages import quote_of
from fathom.services.policy.backends.rules.prose.missing import missing_items
from fathom.services.policy.backends.rules.prose.wording import cited, grouped, unit_text
from fathom.services.policy.backends.rules.prose.words import CHINESE, ENGLISH, Words
from fathom.services.policy.backends.rules.question import Kind, Question, read_question
from fathom.services.policy.backends.rules.reading import Step
from fathom.services.policy.backends.rules.sheets import labels_of, shown_rows
from fathom.services.policy.backends.rules.stages.focus import focus
from fathom.services.policy.backends.rules.terms import words as words_of

# The items of the material list: ``[3] table sheet_1: …``, ``[4] document: …``, ``[5] MISSING …``.
ENTRY = re.compile(r"^\[(\d+)\] (table|document|code|MISSING)\b(.*)$", re.MULTILINE)
TABLE = re.compile(r" (\w+): (.*) \([\d,]+ rows\)$")
DOCUMENT = re.compile(r": (.*?)(?: \((\d{4}-\d\d-\d\d)\))?$")
LACKING = re.compile(r" (.*?): ([a-z ]+)(?:; nearest: (.*))?$")
YEAR = re.compile(r"(?:19|20)\d\d")
COLUMN = re.compile(r"(\S+?)(?: \(([^()]*(?:\([^()]*\))?[^()]*)\))?(?:, |$)")
MAX_TABLES, MAX_QUOTES, MAX_COLUMNS = 6, 3, 6


@dataclass(frozen=True)
class Entry:
    """One item of the material list."""

    number: int
    kind: str
    line: str
    body: str


def answer(asked: Asked) -> str:
    """Return Markdown with a citation per paragraph, the tables, and missing data."""
    question = read_question(asked["question"])
    words = CHINESE if question.chinese else ENGLISH
    if question.kind is Kind.CHAT:
        return words.chat
    entries = entries_of(asked["material"])
    tables = [part for entry in entries if entry.kind == "table" for part in told(entry, question, words)]
    parts = [*tables[: 2 * MAX_TABLES], *quotes(entries, question, words)]
    if not parts:
        parts.append(words.nothing)
    lacking = [item for entry in entries if entry.kind == "MISSING" and (item := missing_item(entry))]
    if lacking:
        items = ("；" if question.chinese else "; ").join(missing_items(lacking, words))
        parts.append(words.missing.format(items=items))
    aspects = [a for a in question.aspects if a.name != "return"]
    if tables and aspects:
        names = words.comma.join(a.chinese if question.chinese else a.english for a in aspects)
        parts.append(words.uncomputed.format(names=names))
    if tables:
        priced = any("close" in entry.body for entry in entries if entry.kind == "table")
        parts.append(words.caveat_price if priced else words.caveat_level)
    return "\n\n".join(parts)


def entries_of(material: str) -> list[Entry]:
    """Parse the items of the list in order."""
    heads = list(ENTRY.finditer(material))
    ends = [*(head.start() for head in heads[1:]), len(material)][: len(heads)]
    return [
        Entry(int(head.group(1)), head.group(2), head.group(3), material[head.end() : end].strip())
        for head, end in zip(heads, ends, strict=True)
    ]


def told(entry: Entry, question: Question, words: Words) -> list[str]:
    """Return a sentence per series of a table and the table's reference.

    Only the latter when its rows cannot be read.
    """
    head = TABLE.match(entry.line)
    if head is None:
        return []
    variable, title = head.groups()
    rows = shown_rows(Step("data", {}, {}, entry.body), variable)
    columns = columns_of(entry.body)
    # A digest that was cut or laid out otherwise: the table is shown, no value is guessed.
    if not rows or not columns or len(rows[0][1]) != len(columns):
        return [f"{{{{table:{variable}}}}}"]
    labels = labels_of(title, columns)
    cites = cited([entry.number], words)
    asked = [row for row in rows if question.kind is Kind.LOOKUP and moment_fits(row[0], question.moment)]
    sentences = []
    for place, (label, column) in enumerate(zip(labels, columns, strict=True)):
        unit = unit_text(str(column["unit"]))
        values = [(day, cells[place]) for day, cells in asked or rows if cells[place] != "NaN"]
        if not values:
            continue
        (start, first), (end, last) = values[0], values[-1]
        if asked or len(values) == 1:
            text = words.value.format(label=label, value=grouped(last), unit=unit, date=end, cites=cites)
        else:
            text = words.ends.format(
                label=label, first=grouped(first), last=grouped(last), unit=unit, start=start, end=end, cites=cites
            )
        sentences.append(text)
    return [words.stop.join(sentences[:MAX_COLUMNS]), f"{{{{table:{variable}}}}}"] if sentences else []


def moment_fits(day: str, moment: str) -> bool:
    return not moment or day.startswith(moment)


def columns_of(body: str) -> list[Mapping[str, Any]]:
    """Return the value columns as named in the material list: "AAPL.close_adj (USD)"."""
    line = next((line for line in body.splitlines() if line.startswith("columns: ")), "")
    found: list[Mapping[str, Any]] = []
    for name, unit in COLUMN.findall(line.removeprefix("columns: ")):
        entity, _, indicator = name.rpartition(".")
        if name != "date":
            found.append({"name": name, "unit": unit, "entity": entity, "indicator": indicator})
    return found


def quotes(entries: list[Entry], question: Question, words: Words) -> list[str]:
    """Return the best matching sentence of each relevant document."""
    parts: list[str] = []
    for entry in entries:
        head = DOCUMENT.match(entry.line) if entry.kind == "document" else None
        if head is None or len(parts) >= MAX_QUOTES:
            continue
        step = Step("fetch", {}, {"status": "ok", "title": head.group(1), "material": entry.number}, entry.body)
        quote = quote_of(step, question.text) if is_about(step, question) else None
        if quote is not None:
            cites = cited([quote.material], words).strip()
            parts.append(words.quoted.format(title=quote.title, text=quote.text, cites=cites))
    return parts


def is_about(step: Step, question: Question) -> bool:
    """Return whether a document is relevant to the question.

    It must have the question's years, and either a subject of the question in its title or most of its terms. For a
    question about reasons, a document of the same years with one shared term is enough.
    """
    there = set(words_of(f"{step.head['title']}\n{step.body}"))
    wanted = set(words_of(question.text))
    years = {word for word in wanted if YEAR.fullmatch(word)}
    if not years <= there:
        return False
    title = str(step.head["title"]).lower()
    if any(name.lower() in title for name in focus(question.text).entities):
        return True
    shared = len(wanted & there)
    # Reasons are rarely told in the words of the question.
    if years and question.background:
        return shared > len(years)
    return shared >= min(2, len(wanted)) and 3 * shared >= 2 * len(wanted)


def missing_item(entry: Entry) -> dict[str, Any] | None:
    """Return a missing record in the form that the tools use."""
    match = LACKING.match(entry.line)
    if match is None:
        return None
    what, reason, nearest = match.groups()
    names = nearest.split(", ") if nearest else []
    return {
        "subject": what,
        "reason": reason.strip().replace(" ", "_").upper(),
        "nearest": names,
        "material": entry.number,
    }
