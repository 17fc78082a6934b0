"""Questions over Chinese annual reports: which cells they ask for, and whether a result holds them with provenance."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from fathom.domain import frames
from fathom.services.datafetch.catalog.text import plain
from fathom.services.datafetch.config import Config, SemanticFolder
from fathom.services.datafetch.engine import Engine
from fathom.services.datafetch.query.model import Column, Result
from tests.beside import ROOT, beside

DATA = beside("finglm_cn_annual")
SEMANTIC = ROOT / "examples" / "semantic_cn_annual"


@dataclass(frozen=True)
class Case:
    """A question and what must be found: ``cells`` are (year, value as written), ``derived`` the answer of a formula."""

    question: str
    code: str
    cells: tuple[tuple[int, str], ...]
    derived: str = ""
    scale: float = 1.0
    as_of: date | None = None
    change: str = "clean"


def load(part: str) -> list[Case]:
    """The verified questions whose ids begin with ``part``."""
    lines = (DATA / "questions_verified.jsonl").read_text(encoding="utf-8").splitlines()
    return [case_of(row) for row in map(json.loads, lines) if row["_id"].startswith(part)]


def raw(part: str) -> list[dict[str, Any]]:
    """The same, as they are stored."""
    lines = (DATA / "questions_verified.jsonl").read_text(encoding="utf-8").splitlines()
    return [row for row in map(json.loads, lines) if row["_id"].startswith(part)]


def case_of(row: dict[str, Any]) -> Case:
    if row["formula"]:
        return Case(row["question"], row["code"], (), f"{row['year']}|{row['answer']}")
    cells = []
    for name, value in row["inputs"].items():
        match = re.match(r"(20\d{2})年", name)
        cells.append((int(match[1]) if match else int(row["year"]), str(value)))
    return Case(row["question"], row["code"], tuple(cells))


async def open_engine(tables: Path, **settings: Any) -> Engine:
    """The engine with the annual reports beside the bundled tables."""
    folder = SemanticFolder(folder=SEMANTIC, data=DATA)
    engine = Engine(Config(data_dir=tables, semantic=[folder], **settings))
    await engine.start()
    return engine


def judge(case: Case, result: Result) -> str:
    """ "" when every cell is there with its source, else what is wrong."""
    columns: list[tuple[Column, dict[int, Any]]] = []
    for sheet in result.sheets:
        frame = frames.from_arrow(sheet.arrow)
        years = [day.year for day in frame["date"]]
        columns += [(c, dict(zip(years, frame[c.name], strict=True))) for c in sheet.columns if c.indicator]
    own = [(c, values) for c, values in columns if c.entity.startswith(case.code)]
    if not own:
        return "refused" if not columns else "another company"
    if case.derived:
        year, answer = case.derived.split("|")
        shown = [(c, values) for c, values in own if c.formula and values.get(int(year)) is not None]
        right = [c for c, values in shown if same_ratio(values[int(year)], answer, c.unit)]
    else:
        right = []
        for year_, value in case.cells:
            found = [c for c, values in own if same(values.get(year_), value, case.scale)]
            if not found:
                return "wrong or missing cell"
            right += found
    if not right:
        return "wrong or missing cell"
    return "" if all(c.source and c.vendor and c.as_of for c in right) else "no provenance"


def same(found: Any, wanted: str, scale: float) -> bool:
    """Return whether a cell holds the value that is written."""
    if found is None:
        return False
    text = plain(wanted).strip()
    if isinstance(found, str):
        return plain(found).strip() == text
    match = re.fullmatch(r"(-?[\d.]+)\s*(?:元|人|股)?", text)
    return match is not None and math.isclose(
        float(found), float(match[1]) / scale, rel_tol=1e-6, abs_tol=0.006 / scale
    )


def same_ratio(found: float, answer: str, unit: str) -> bool:
    """Return whether a share or a rate is the one that is written, to the two decimals of the answer."""
    match = re.search(r"(-?[\d.]+)\s*(%?)", answer)
    if match is None or found is None or math.isnan(found):
        return False
    number = (
        {"%": found, "fraction": 100 * found, "": 100 * found}.get(unit, found)
        if match[2]
        else found / (100 if unit == "%" else 1)
    )
    return abs(number - float(match[1])) <= 0.0101
