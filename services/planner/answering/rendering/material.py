"""Numbered list of material for a prompt, with stable ids, within a token budget.

Every item keeps one line with its number, whatever the budget; its details are dropped in this order until the list
fits, oldest items first:
1. tracebacks and source of cells that failed, 2. source of cells that worked, 3. the middle of passages (head and
tail stay), 4. rows of sheets (columns with units stay), 5. output of cells beyond its head, 6. text of passages,
7. columns of sheets. Missing-data records are one line and never dropped.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from fathom.domain.chat.quoting import shorten
from fathom.domain.text.scripts import HAN_AND_RARE
from fathom.services.planner.model.episode import Material, MaterialKind
from fathom.services.planner.proto.episode import missing_to_proto
from fathom.services.planner.tools.data.sheets import describe_missing
from fathom.services.planner.tools.documents import format_day

IDEOGRAPH = re.compile(rf"[\u3040-\u30ff{HAN_AND_RARE}\uff00-\uffef]")
ORDER = ("failed", "source", "middle", "rows", "printed", "passage", "columns")
# Characters that still show what a passage or an output is about.
SHORT_PASSAGE, SHORT_PRINT = 600, 400


@dataclass(frozen=True)
class MaterialList:
    """List of material.

    ``dropped`` names omitted parts, as "source of [3]"; ``tokens`` is the estimate for ``text``.
    """

    text: str
    tokens: int
    dropped: tuple[str, ...] = ()


@dataclass
class Entry:
    """One item: its line and its named parts in display order."""

    number: int
    line: str
    parts: dict[str, str] = field(default_factory=dict)
    shorter: dict[str, str] = field(default_factory=dict)
    """Replacement of a part when it is dropped; a part without one is removed."""

    @property
    def text(self) -> str:
        return "\n".join([self.line, *(part for part in self.parts.values() if part)])


def estimate_tokens(text: str) -> int:
    """Return an upper estimate without a tokenizer: one token per ideograph, one per 3 other characters."""
    ideographs = len(IDEOGRAPH.findall(text))
    # Too high on purpose: the list must fit, and no tokenizer is at hand.
    return ideographs + -(-(len(text) - ideographs) // 3)


def list_material(
    material: Sequence[Material], budget: int, count: Callable[[str], int] = estimate_tokens
) -> MaterialList:
    """Return the list within ``budget`` tokens, as far as its mandatory lines allow."""
    entries = [ENTRIES[item.kind](item) for item in material]
    tokens, dropped = sum(count(entry.text) + 1 for entry in entries), []
    # Part by part over all items, so that no item loses everything while another keeps what matters less.
    for part in ORDER:
        for entry in entries:
            if tokens <= budget:
                break
            if part in entry.parts:
                before = count(entry.text)
                shorter = entry.shorter.get(part, "")
                entry.parts.pop(part) if not shorter else entry.parts.update({part: shorter})
                if part == "middle":
                    entry.parts = {"passage": entry.parts.pop(part)}
                tokens += count(entry.text) - before
                dropped.append(f"{part} of [{entry.number}]")
    return MaterialList("\n\n".join(entry.text for entry in entries), tokens, tuple(dropped))


def make_sheet_entry(material: Material) -> Entry:
    sheet = material.item
    columns = ", ".join(f"{column.name} ({column.unit})" if column.unit else column.name for column in sheet.columns)
    line = f"[{material.number}] table {material.variable}: {sheet.title} ({sheet.rows:,} rows)"
    digest = sheet.digest.replace(sheet.id, material.variable) if sheet.id else sheet.digest
    return Entry(material.number, line, {"columns": f"columns: {columns}", "rows": digest})


def make_passage_entry(material: Material) -> Entry:
    document = material.item
    published = format_day(document.publish_time)
    line = f"[{material.number}] document: {document.title}" + (f" ({published})" if published else "")
    if len(document.text) <= SHORT_PASSAGE:
        return Entry(material.number, line, {"passage": document.text})
    return Entry(material.number, line, {"middle": document.text}, {"middle": shorten(document.text, SHORT_PASSAGE)})


def make_code_entry(material: Material) -> Entry:
    record = material.item
    figures = ", ".join(figure.id for figure in record.figures)
    line = f"[{material.number}] code {'that ran' if record.ok else 'that FAILED'}" + (
        f": {figures}" if figures else ""
    )
    if not record.ok:
        last = record.traceback.strip().splitlines()[-1:] or [""]
        return Entry(material.number, f"{line}: {last[0]}", {"failed": f"{record.code}\n{record.traceback}"})
    printed = "\n".join(part for part in (record.stdout.rstrip(), record.result) if part)
    return Entry(
        material.number, line, {"source": record.code, "printed": printed}, {"printed": shorten(printed, SHORT_PRINT)}
    )


def make_missing_entry(material: Material) -> Entry:
    item = material.item
    said = describe_missing(missing_to_proto(item) if isinstance(item, dict) else item)
    what = " ".join(str(said[name]) for name in ("subject", "aspect", "period") if said[name])
    nearest = f"; nearest: {', '.join(said['nearest'])}" if said["nearest"] else ""
    reason = str(said["reason"]).lower().replace("_", " ")
    return Entry(material.number, f"[{material.number}] MISSING {what}: {reason}{nearest}")


ENTRIES: dict[MaterialKind, Callable[[Material], Entry]] = {
    MaterialKind.SHEET: make_sheet_entry,
    MaterialKind.PASSAGE: make_passage_entry,
    MaterialKind.CODE: make_code_entry,
    MaterialKind.MISSING: make_missing_entry,
}
