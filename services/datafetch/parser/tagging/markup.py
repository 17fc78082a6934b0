"""Questions with marked words, from which the head is made: ``[tag:words]``; the rest is filler."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import yaml

from fathom.core.errors import CorruptData
from fathom.services.datafetch.parser.tagging.units import Span

FOLDER = Path(__file__).parent / "examples"
FILLER, CALC = "filler", "calc."
TAGS = (
    "entity", "group", "measure", "period", "condition", "freq", "unit", "basis", "param", "source", "output",
    "reference", "topic",
)  # fmt: skip
KINDS = (
    "level", "change", "growth", "cagr", "return", "mean", "median", "sum", "max", "min", "when", "count", "rank",
    "volatility", "drawdown", "recovery", "correlation", "beta", "ratio", "difference", "share", "streak", "crossover",
    "rolling", "sharpe", "real", "convert", "compare", "list", "judge", "why", "define", "forecast", "other",
)  # fmt: skip
LABELS = (FILLER, *TAGS, *(f"{CALC}{kind}" for kind in KINDS))
LANGUAGE = re.compile(r"^(en|zh) ")
MARK = re.compile(r"\[([a-z]+(?:\.[a-z]+)?):([^\[\]]+)\]")


@dataclass(frozen=True)
class Marked:
    """A question with the labels of its words; ``spans`` do not overlap."""

    text: str
    spans: tuple[tuple[Span, str], ...]

    def label_units(self, units: Sequence[Span]) -> list[str]:
        """Return the label of each unit."""
        return [
            next((label for (first, last), label in self.spans if first < end and start < last), FILLER)
            for start, end in units
        ]


@cache
def load_kinds() -> Mapping[str, tuple[str, str]]:
    """Return the English and the Chinese term of each kind of calculation that the parser knows."""
    data = yaml.safe_load((FOLDER.parent / "kinds.yaml").read_text(encoding="utf-8"))
    return {kind: (english, chinese) for kind, (english, chinese) in data.items()}


def parse_line(line: str, name: str = "markup") -> Marked:
    """Return a marked question; raise ``CorruptData`` naming the file for a tag that is none."""
    line = LANGUAGE.sub("", line.strip())
    text, spans, end = "", [], 0
    for match in MARK.finditer(line):
        text += line[end : match.start()]
        label = match[1]
        if label not in LABELS:
            raise CorruptData(name, f"{label!r} is no tag: {line[:80]}")
        spans.append(((len(text), len(text) + len(match[2])), label))
        text += match[2]
        end = match.end()
    text += line[end:]
    if "[" in text or "]" in text:
        raise CorruptData(name, f"brackets do not match: {line[:80]}")
    return Marked(text, tuple(spans))


def load_marked(folder: Path = FOLDER) -> list[Marked]:
    """Return the marked questions of all files of a folder; empty lines and comments are left out."""
    found = []
    for path in sorted(folder.glob("*.txt")):
        for line in path.read_text(encoding="utf-8").splitlines():
            if line.strip() and not line.startswith("#"):
                found.append(parse_line(line, path.name))
    return found
