"""The numbered list of material of a workflow's stage, read back: its tables, and its documents."""

from __future__ import annotations

import re
from collections.abc import Sequence

from fathom.domain.tool_results import Sheet, Step

# The items of the list: "[3] table sheet_1: … (12 rows)", "[4] document: …".
ITEM = re.compile(r"^(?=\[\d+\] (?:table|document|code|MISSING)\b)", re.MULTILINE)
TABLE, DOCUMENT = re.compile(r"\[(\d+)\] table (\w+): (.*) \([\d,]+ rows\)"), re.compile(r"\[(\d+)\] document: (.*)")
COLUMN = re.compile(r"(\S+?)(?: \(([^()]*(?:\([^()]*\))?[^()]*)\))?(?:, |$)")
DATES = frozenset({"date", "from", "to"})


def read_material(text: str) -> tuple[list[Sheet], Sequence[Step]]:
    """Return the tables of a list, and as calls what brought its tables and documents."""
    steps, sheets = [], list[Sheet]()
    for item in ITEM.split(text):
        head, _, body = item.strip().partition("\n")
        if table := TABLE.fullmatch(head):
            number, variable, title = table.groups()
            listed = COLUMN.findall(body.partition("columns: ")[2].partition("\n")[0])
            columns = [
                {"name": name, "unit": unit, "type": "date" if name in DATES else "double"} for name, unit in listed
            ]
            sheets.append({"material": int(number), "variable": variable, "title": title, "columns": columns})
            steps.append(Step("data", {}, {"status": "ok"}, body))
        elif document := DOCUMENT.fullmatch(head):
            steps.append(Step("fetch", {}, {"status": "ok", "material": int(document[1]), "title": document[2]}, body))
    return sheets, steps
