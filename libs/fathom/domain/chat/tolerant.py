"""Tolerant parsing of JSON and lists written by models.

Each parser tries the well-formed form first and repairs only when that fails; unreadable text returns None or nothing,
never an exception and never a guess.
"""

from __future__ import annotations

import ast
import json
import re
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from fathom.domain.text.numerals import ONE_TO_TEN
from fathom.domain.text.scripts import HAN

M = TypeVar("M", bound=BaseModel)

FENCE = re.compile(r"^```[a-zA-Z]*\s*|\s*```$")
FENCED = re.compile(r"```[a-zA-Z]*\s*\n(.*?)(?:```|\Z)", re.DOTALL)
# A statement in a fence may stand on the fence's own line.
FENCED_SQL = re.compile(r"```(?:sql)?\s*(.*?)(?:```|\Z)", re.DOTALL | re.IGNORECASE)
STATEMENT = re.compile(r"\b(?:select|with)\b", re.IGNORECASE)
MAX_STATEMENT = 8_000
TRAILING_COMMA = re.compile(r",(\s*[}\]])")
FULL_WIDTH = str.maketrans(
    {"：": ":", "，": ",", "｛": "{", "｝": "}", "［": "[", "］": "]", "“": '"', "”": '"', "【": "[", "】": "]"}
)
# strict=False: models write raw line breaks inside strings.
DECODER = json.JSONDecoder(strict=False)
BRACKETS = {"{": "}", "[": "]"}

CIRCLED = "①②③④⑤⑥⑦⑧⑨⑩"
# "1." "1)" "(1)" "（一）" "一、" "①" "第一，" "Step 1:" "a)" "-" "*" "•", at the start of a line.
NUMBERING = re.compile(
    rf"^\s*(?:[*_]{{0,2}})(?:[(（]\s*(?:\d{{1,2}}|[{ONE_TO_TEN}]{{1,3}}|[a-zA-Z])\s*[)）][.、:：]?|"
    rf"(?:\d{{1,2}}|[{ONE_TO_TEN}]{{1,3}})\s*[.、)）](?!\d)|[{CIRCLED}]|"
    rf"第(?:\d{{1,2}}|[{ONE_TO_TEN}]{{1,3}})\s*[步点条]?\s*[,，:：、.]|"
    r"(?:step|task|item)\s*\d{1,2}\s*[.:：)]|[a-zA-Z][.)](?=\s)|[-*•·](?=\s))(?:[*_]{0,2})\s*",
    re.IGNORECASE,
)
# The same inside one line: "1. report: … 2. search: …".
INLINE = re.compile(
    rf"(?<=[\s;；。，,])(?=(?:\d{{1,2}}[.、)）](?!\d)|[(（](?:\d{{1,2}}|[{ONE_TO_TEN}])[)）]|[{CIRCLED}]))"
)
# A label and what follows it, in any markup and either script: "**Report:** …", "[Summary]: …", 「结论」：….
LABEL = re.compile(
    rf"^[*_`\[【「]{{0,2}}([A-Za-z_{HAN}][\w{HAN} -]{{0,39}}?)[*_`\]】」]{{0,2}}\s*[:：]\s*(.+)$", re.DOTALL
)


def extract_statement(text: str) -> str:
    """Extract the first SQL statement of a reply, fenced or bare, without its semicolon; "" when there is none."""
    fenced = FENCED_SQL.search(text)
    body = fenced[1] if fenced else text
    begin = STATEMENT.search(body)
    return body[begin.start() :].split(";")[0].split("\n\n")[0].strip()[:MAX_STATEMENT] if begin else ""


def read_reply(text: str, schema: type[M]) -> M | str:
    """Return the JSON object of a model's reply as a schema has it, or a message that tells the model its fault."""
    found = read_object(text)
    if found is None:
        return "there is no JSON object"
    try:
        return schema.model_validate(found)
    except ValidationError as error:
        first = error.errors()[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"


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
            close_brackets(source[start:]) if cut_off and start >= 0 else "",
        ):
            for mended in (candidate, TRAILING_COMMA.sub(r"\1", candidate)):
                value = decode_literal(mended)
                if isinstance(value, dict if opening == "{" else list):
                    return value
        if start >= 0 and (first := first_value(source[start:])) is not None:
            return first
    return None


def decode_literal(text: str) -> object:
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


def close_brackets(text: str) -> str:
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
