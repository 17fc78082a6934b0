"""Correction of a draft that the verification rejected.

The reference policy knows no more than the list of findings. Where a finding names the right word or date, that is
written; every other sentence with a finding is removed, and the answer states how many were.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from dataclasses import dataclass

from fathom.protocol.language import language_of
from services.policy.backends.rules.reading import Reading

FINDING = re.compile(r"""^- ([a-z ]+): ('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"): (.+)$""", re.MULTILINE)
SAYS = re.compile(r"the text says (['\"])(.+?)\1, the material (['\"])(.+?)\3")
VALUE_OF = re.compile(r"this is the value of (\d{4})-(\d\d)-(\d\d)$")
SENTENCE = re.compile(r"[^\n.!?。！？]*(?:[.!?](?!\s|$)[^\n.!?。！？]*)*(?:[.!?。！？]|(?=\n)|$)[ \t]*")
MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
DATES: tuple[tuple[re.Pattern[str], Callable[[int, int, int], str]], ...] = (
    (re.compile(r"\d{4}-\d\d-\d\d"), lambda year, month, day: f"{year}-{month:02d}-{day:02d}"),
    (
        re.compile(rf"\d{{1,2}} (?:{'|'.join(MONTHS)}) \d{{4}}"),
        lambda year, month, day: f"{day} {MONTHS[month - 1]} {year}",
    ),
    (re.compile(rf"(?:{'|'.join(MONTHS)}) \d{{4}}"), lambda year, month, day: f"{MONTHS[month - 1]} {year}"),
    (re.compile(r"\d{4}年\d{1,2}月\d{1,2}日"), lambda year, month, day: f"{year}年{month}月{day}日"),
    (re.compile(r"\d{4}年\d{1,2}月"), lambda year, month, day: f"{year}年{month}月"),
)


@dataclass(frozen=True)
class Finding:
    """A finding: its kind, the words of the draft, and the detail."""

    kind: str
    text: str
    detail: str


def mended(reading: Reading) -> str | None:
    """Return the corrected answer; None when the last message is no list of findings."""
    last = reading.steps[-1] if reading.steps else None
    if last is None or last.tool != "finish" or last.head.get("status") != "invalid":
        return None
    draft = str(last.arguments.get("answer", ""))
    found = [Finding(kind, str(ast.literal_eval(text)), why) for kind, text, why in FINDING.findall(last.body)]
    return rewritten(draft, found) if draft and found else None


def rewritten(draft: str, found: list[Finding]) -> str:
    """Apply all findings to the draft, and append a note on removed statements."""
    text, left_out = draft, 0
    for finding in found:
        place = sentence_with(text, finding.text)
        if place is None:
            continue  # an earlier finding has changed it already
        start, end = place
        better = corrected(text[start:end], finding)
        left_out += better is None
        text = text[:start] + (better or "") + text[end:]
    text = re.sub(r"\n{3,}", "\n\n", text).strip()
    if not left_out:
        return text
    if language_of(draft) == "zh":
        said = f"另有{left_out}处说法没有材料支持，已删去。"
    else:
        said = f"Left out for want of support: {left_out} of the draft's statements."
    return f"{text}\n\n{said}".strip()


def sentence_with(text: str, words: str) -> tuple[int, int] | None:
    """Return the span of the sentence or line that contains the words, or None."""
    at = text.find(words)
    if at < 0:
        return None
    for match in SENTENCE.finditer(text):
        if match.start() <= at < match.end():
            return match.start(), max(match.end(), at + len(words))
    return at, at + len(words)


def corrected(sentence: str, finding: Finding) -> str | None:
    """Return the sentence as the finding corrects it; None when it names no correction."""
    says = SAYS.search(finding.detail)
    if says is not None and sentence.count(says[2]) == 1:
        return sentence.replace(says[2], says[4])
    told = VALUE_OF.search(finding.detail)
    if told is None:
        return None
    year, month, day = (int(part) for part in told.groups())
    for pattern, form in DATES:
        found = pattern.findall(sentence)
        if found:
            return pattern.sub(form(year, month, day), sentence) if len(found) == 1 else None
    return None
