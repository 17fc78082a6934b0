"""Join lines that were broken only because they were full, so that a sentence is one stretch of text again."""

from __future__ import annotations

import re
from itertools import pairwise

from fathom.services.retrieval.index.text import IS_CJK

# Shorter lines are lists, addresses and headings, of which each stands for itself.
LEAST_WIDTH = 40
# Letters of one typeface differ in width, so that lines of equal length have unequal numbers of letters.
FULL = 0.9
# Beginnings of lines that stand for themselves: headings, items of lists, quotations, rows of tables.
OWN_LINE = re.compile(r"\s*(?:[#>|]|[-*•+]\s|\d{1,3}[.)]\s|```)|.*\|")
FENCE = "```"


def join_wrapped_lines(text: str) -> str:
    """Return a text with its wrapped lines joined: those that the first word of the next would have made too long."""
    lines = text.split("\n")
    width = measure_width(lines)
    if width < LEAST_WIDTH:
        return text
    # Joined once at the end: a text may be one paragraph of a hundred thousand lines.
    pieces = lines[:1]
    is_code = lines[0].lstrip().startswith(FENCE)
    for before, line in pairwise(lines):
        # Programs mean their line breaks.
        is_fence = line.lstrip().startswith(FENCE)
        if not (is_code or is_fence) and is_wrapped(before, line, width):
            pieces[-1], line = pieces[-1].rstrip(), line.lstrip()
            # Chinese has no blanks between its words.
            pieces += ["" if IS_CJK.match(pieces[-1][-1]) and IS_CJK.match(line) else " ", line]
        else:
            pieces += ["\n", line]
        is_code ^= is_fence
    return "".join(pieces)


def measure_width(lines: list[str]) -> int:
    """Return the usual length of a full line, 0 without any: a single longer one, as of a header, is not it."""
    long = sorted(len(line.rstrip()) for line in lines if len(line.rstrip()) >= LEAST_WIDTH)
    # One long line has no other beside it that it could be compared with.
    return long[len(long) * 3 // 4] if len(long) > 1 else 0


def is_wrapped(before: str, line: str, width: int) -> bool:
    """Return whether a line goes on with the sentence of the one before it."""
    first = line.split(maxsplit=1)
    # Two blanks at the end are a line break that is meant, in Markdown and in mails with flowed text alike.
    if not first or not before.strip() or before.endswith("  ") or before.lstrip().startswith(("#", FENCE)):
        return False
    # A row of a table ends with its line.
    if "|" in before:
        return False
    needed = 1 if IS_CJK.match(first[0]) else 1 + len(first[0])
    return OWN_LINE.match(line) is None and len(before.rstrip()) + needed > FULL * width
