"""Parser of JSON lines: one object per line. A bad line is reported with its number and the rest is read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from fathom.services.retrieval.corpus.parse.model import Limits, ParsedDocument, ParseIssue, Unreadable
from fathom.services.retrieval.corpus.parse.records import read_record
from fathom.transport.bounded_json import load_json


def read_jsonl(data: bytes, source: str, limits: Limits) -> Iterator[ParsedDocument | ParseIssue]:
    """Yield the document or issue of each line that is not empty."""
    start, number, taken = 3 if data.startswith(b"\xef\xbb\xbf") else 0, 0, 0
    while start < len(data):
        # Only \n ends a line: U+2028 and its like are legal inside a JSON string.
        end = data.find(b"\n", start)
        end = len(data) if end < 0 else end
        line, start, number = data[start:end].strip(), end + 1, number + 1
        if not line:
            continue
        if taken >= limits.documents:
            yield ParseIssue(source, f"line {number}", f"the limit of {limits.documents:,} documents is reached")
            return
        taken += 1
        try:
            row = decode(line, limits)
        except Unreadable as error:
            yield ParseIssue(source, f"line {number}", str(error))
            continue
        yield from read_record(row, source, f"line {number}", limits)


def decode(line: bytes, limits: Limits) -> Any:
    """Decode one line; raise ``Unreadable`` with the cause."""
    # A character takes up to four bytes, escaped up to six, and there are other fields.
    if len(line) > 8 * limits.text_chars:
        raise Unreadable(f"has {len(line):,} bytes, over the limit of {8 * limits.text_chars:,}")
    try:
        return load_json(line, limits.json_bytes)
    except UnicodeDecodeError as error:
        raise Unreadable(f"is not UTF-8: byte {error.start} of the line") from error
    except json.JSONDecodeError as error:
        raise Unreadable(f"is not JSON: {error.msg}, column {error.colno}") from error
    except ValueError as error:
        raise Unreadable(f"is not JSON that can be read: {error}") from error
