"""Correction of a draft that the planner returned.

The reference policy knows no more than the list of findings. Where a finding names the right word or date, that is
written; every other sentence with a finding is removed, and the answer states how many were. A draft that was returned
because parts of the question stay open is given again: all that the policy can look for it has looked for.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from dataclasses import dataclass

from fathom.domain.chat.language import language_of
from fathom.domain.text.months import MONTH_NAMES
from fathom.services.policy.backends.rules.reading import Reading

# One finding of a correction request: ``- time: '3 May 2020': this is the value of 2020-05-04``. The words are a Python
# literal, in either kind of quotes.
FINDING = re.compile(r"""^- ([a-z ]+): ('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"): (.+)$""", re.MULTILINE)
SAYS = re.compile(r"the text says (['\"])(.+?)\1, the material (['\"])(.+?)\3")
VALUE_OF = re.compile(r"this is the value of (\d{4})-(\d\d)-(\d\d)$")
# Up to a full stop that is followed by a blank or the end, so that "3.5" ends no sentence.
SENTENCE = re.compile(r"[^\n.!?。！？]*(?:[.!?](?!\s|$)[^\n.!?。！？]*)*(?:[.!?。！？]|(?=\n)|$)[ \t]*")
DATES: tuple[tuple[re.Pattern[str], Callable[[int, int, int], str]], ...] = (
    (re.compile(r"\d{4}-\d\d-\d\d"), lambda year, month, day: f"{year}-{month:02d}-{day:02d}"),
    (
        re.compile(rf"\d{{1,2}} (?:{'|'.join(MONTH_NAMES)}) \d{{4}}"),
        lambda year, month, day: f"{day} {MONTH_NAMES[month - 1]} {year}",
    ),
    (re.compile(rf"(?:{'|'.join(MONTH_NAMES)}) \d{{4}}"), lambda year, month, day: f"{MONTH_NAMES[month - 1]} {year}"),
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
    """Return the corrected answer; None when the last message does not return a draft."""
    last = reading.steps[-1] if reading.steps else None
    if last is None or last.tool != "finish" or last.head.get("status") not in ("invalid", "open"):
        return None
    draft = str(last.arguments.get("answer", ""))
    if last.head.get("status") == "open":
        # Made anew from the calls, a draft that was corrected before would have its findings again.
        return draft or None
    # literal_eval undoes repr() and runs no code.
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
            # With two dates in the sentence nobody says which of them is wrong.
            return pattern.sub(form(year, month, day), sentence) if len(found) == 1 else None
    return None
