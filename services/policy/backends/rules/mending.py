"""The second turn of a checked answer (row D24): the draft, with what the list of findings says is wrong, mended.

The reference policy knows no more than the list tells it. Where that names the right word or the right date it writes
that; everything else that is doubted goes, sentence by sentence, and the answer says how much went.
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
    """What is wrong with which words of the draft."""

    kind: str
    text: str
    detail: str


def mended(reading: Reading) -> str | None:
    """The answer again, mended; None when the last thing said was no list of findings."""
    last = reading.steps[-1] if reading.steps else None
    if last is None or last.tool != "finish" or last.head.get("status") != "invalid":
        return None
    draft = str(last.arguments.get("answer", ""))
    found = [Finding(kind, str(ast.literal_eval(text)), why) for kind, text, why in FINDING.findall(last.body)]
    return rewritten(draft, found) if draft and found else None


def rewritten(draft: str, found: list[Finding]) -> str:
    """The draft after every finding, with a word on what was left out."""
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
    """Where the sentence or line begins and ends that holds the words."""
    at = text.find(words)
    if at < 0:
        return None
    for match in SENTENCE.finditer(text):
        if match.start() <= at < match.end():
            return match.start(), max(match.end(), at + len(words))
    return at, at + len(words)


def corrected(sentence: str, finding: Finding) -> str | None:
    """The sentence as the finding says that it should be; None when it does not say."""
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
