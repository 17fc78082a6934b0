"""Tolerant parsing of JSON, XML or lists written by models.

Each parser tries the well-formed form first and repairs only when that fails; unreadable text returns None or nothing,
never an exception and never a guess.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

FENCE = re.compile(r"^```[a-zA-Z]*\s*|\s*```$")
FENCED = re.compile(r"```[a-zA-Z]*\s*\n(.*?)(?:```|\Z)", re.DOTALL)
TRAILING_COMMA = re.compile(r",(\s*[}\]])")
FULL_WIDTH = str.maketrans(
    {"：": ":", "，": ",", "｛": "{", "｝": "}", "［": "[", "］": "]", "“": '"', "”": '"', "【": "[", "】": "]"}
)
# strict=False: models write raw line breaks inside strings.
DECODER = json.JSONDecoder(strict=False)
BRACKETS = {"{": "}", "[": "]"}

NUMERALS = "一二三四五六七八九十"
CIRCLED = "①②③④⑤⑥⑦⑧⑨⑩"
# "1." "1)" "(1)" "（一）" "一、" "①" "第一，" "Step 1:" "a)" "-" "*" "•", at the start of a line.
NUMBERING = re.compile(
    rf"^\s*(?:[*_]{{0,2}})(?:[(（]\s*(?:\d{{1,2}}|[{NUMERALS}]{{1,3}}|[a-zA-Z])\s*[)）][.、:：]?|"
    rf"(?:\d{{1,2}}|[{NUMERALS}]{{1,3}})\s*[.、)）](?!\d)|[{CIRCLED}]|"
    rf"第(?:\d{{1,2}}|[{NUMERALS}]{{1,3}})\s*[步点条]?\s*[,，:：、.]|"
    r"(?:step|task|item)\s*\d{1,2}\s*[.:：)]|[a-zA-Z][.)](?=\s)|[-*•·](?=\s))(?:[*_]{0,2})\s*",
    re.IGNORECASE,
)
# The same inside one line: "1. report: … 2. search: …".
INLINE = re.compile(
    rf"(?<=[\s;；。，,])(?=(?:\d{{1,2}}[.、)）](?!\d)|[(（](?:\d{{1,2}}|[{NUMERALS}])[)）]|[{CIRCLED}]))"
)
LABEL = re.compile(
    r"^[*_`\[【「]{0,2}([A-Za-z_\u4e00-\u9fff][\w\u4e00-\u9fff -]{0,39}?)[*_`\]】」]{0,2}\s*[:：]\s*(.+)$", re.DOTALL
)


@dataclass(frozen=True)
class Entry:
    """An entry of a list: ``label`` before the colon, "" for none."""

    text: str
    label: str = ""


def read_object(text: str, *, cut_off: bool = True) -> dict[str, Any] | None:
    """Parse a JSON object in ``text``, repairing common mistakes of models; None when that fails.

    ``cut_off`` closes brackets left open by a truncated text; pass False for a call that is acted on.
    """
    value = read_json(text, "{", cut_off=cut_off)
    return value if isinstance(value, dict) and all(isinstance(key, str) for key in value) else None


def read_array(text: str) -> list[Any] | None:
    """Parse a JSON array in ``text``, repairing common mistakes of models; None when that fails."""
    value = read_json(text, "[")
    return value if isinstance(value, list) else None


def read_json(text: str, opening: str, *, cut_off: bool = True) -> object:
    """Parse the first value in ``text`` that begins with ``opening`` ("{" or "["), else None."""
    stripped = FENCE.sub("", text.strip().replace("｛", "{").replace("｝", "}").replace("［", "[").replace("］", "]"))
    blocks = [block.strip() for block in FENCED.findall(text)]
    for source in (stripped, *blocks):
        start, end = source.find(opening), source.rfind(BRACKETS[opening])
        inner = source[start : end + 1] if 0 <= start < end else ""
        for candidate in (
            source,
            inner,
            inner.translate(FULL_WIDTH),
            closed(source[start:]) if cut_off and start >= 0 else "",
        ):
            for mended in (candidate, TRAILING_COMMA.sub(r"\1", candidate)):
                value = decoded(mended)
                if isinstance(value, dict if opening == "{" else list):
                    return value
        if start >= 0 and (first := first_value(source[start:])) is not None:
            return first
    return None


def decoded(text: str) -> object:
    """Decode JSON or a Python literal; None when it is neither."""
    for read in (DECODER.decode, ast.literal_eval):
        try:
            return read(text)
        except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
            continue  # a TypeError is a literal like {{}}, a set of what no set can hold
    return None


def first_value(text: str) -> object:
    """Decode the JSON value at the start of ``text``, whatever follows it; None if there is none."""
    try:
        return DECODER.raw_decode(text)[0]
    except (ValueError, RecursionError):
        return None


def closed(text: str) -> str:
    """Close the brackets that a truncated ``text`` left open; return "" when it ends inside a string."""
    waiting: list[str] = []
    quoted = escaped = False
    for character in text:
        if quoted:
            escaped, quoted = character == "\\" and not escaped, character != '"' or escaped
        elif character == '"':
            quoted = True
        elif character in BRACKETS:
            waiting.append(BRACKETS[character])
        elif waiting and character == waiting[-1]:
            waiting.pop()
    return "" if quoted else text.rstrip().rstrip(",") + "".join(reversed(waiting))


def read_xml(text: str, tags: Collection[str]) -> dict[str, list[str]]:
    """Return the contents of the named tags, in order; an unclosed tag runs to the next known tag or the end."""
    names = "|".join(re.escape(tag) for tag in tags)
    normal = text.replace("＜", "<").replace("＞", ">").replace("／", "/")
    pattern = re.compile(
        rf"<\s*({names})\b[^<>]*>(.*?)(?:<\s*/\s*\1\s*>|(?=<\s*/?\s*(?:{names})\b)|\Z)", re.DOTALL | re.I
    )
    found: dict[str, list[str]] = {tag: [] for tag in tags}
    lower = {tag.lower(): tag for tag in tags}
    for name, content in pattern.findall(normal):
        content = FENCE.sub("", content.strip()).strip()
        if content:
            found[lower[name.lower()]].append(content)
    return found


def read_list(text: str, labels: Collection[str] = ()) -> list[Entry]:
    """Parse the entries of a list in any numbering, or of a JSON array of strings.

    With ``labels`` only entries that begin with one of them and a colon count ("1. report: … 2. search: …"); everything
    else (greetings, headings, closing words) is dropped.
    """
    array = read_array(text)
    if array is not None and array and all(isinstance(item, str) for item in array):
        entries = [labelled(item) for item in array]
    else:
        entries = [labelled(item) for item in items(text)]
    if not labels:
        return [entry for entry in entries if entry.text]
    known = {label.lower(): label for label in labels}
    return [Entry(entry.text, known[entry.label.lower()]) for entry in entries if entry.label.lower() in known]


def items(text: str) -> list[str]:
    """Split ``text`` into its numbered pieces; continuation lines belong to a piece, a blank line ends it."""
    pieces: list[str] = []
    going_on = False
    for line in "\n".join(INLINE.split(FENCED.sub(lambda block: block.group(1), text))).splitlines():
        mark = NUMBERING.match(line)
        if mark:
            pieces.append(line[mark.end() :].strip())
            going_on = True
        elif LABEL.match(line.strip()):
            pieces.append(line.strip())
            going_on = True
        elif not line.strip():
            going_on = False
        elif going_on:
            pieces[-1] = f"{pieces[-1]} {line.strip()}"
    return [piece.strip(" ;；") for piece in pieces if piece.strip(" ;；")]


def labelled(item: str) -> Entry:
    """Split an item at its colon into label and text."""
    match = LABEL.match(item.strip())
    if match is None:
        return Entry(item.strip())
    return Entry(match.group(2).strip(), match.group(1).strip())


def read_choice(text: str, choices: Collection[str]) -> str | None:
    """Return the one choice that ``text`` names as a whole word; None when it names none or several."""
    value = read_object(text)
    source = " ".join(str(part) for part in value.values()) if isinstance(value, Mapping) else text
    found = {choice for choice in choices if re.search(rf"(?<![\w]){re.escape(choice)}(?![\w])", source, re.IGNORECASE)}
    return found.pop() if len(found) == 1 else None
