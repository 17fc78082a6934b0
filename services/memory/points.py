"""Bullet points that summarise an old answer: its first sentences with numbers, else its first sentence."""

from __future__ import annotations

import re

# A full stop ends a sentence only before a space or the end: "5.3%" is one number.
SENTENCE_END = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])\s*|\n+")
# Fenced code and figures, also when the end of an answer cut them: "```python … ```".
BLOCKS = re.compile(r"```.*?(?:```|\Z)|<figure\b.*?(?:</figure>|\Z)", re.DOTALL)
# Rows of tables, headings, live tables and figures, citations.
# "| 2020 | 5 |", "## Result", "{{table:t1}}", " [1, 2]"; a link "[1](…)" is kept.
PIECES = re.compile(r"^[ \t]*(?:\|.*|#{1,6}[ \t].*)$|\{\{[^{}\n]*\}\}|[ \t]?\[\d+(?:\s*,\s*\d+)*\](?!\()", re.MULTILINE)
MARKER = re.compile(r"^[ \t]*(?:>[ \t]*)*(?:[-*+•][ \t]+|\d{1,3}[.)][ \t]+)?", re.MULTILINE)
LINK = re.compile(r"!?\[([^\[\]\n]*)\]\([^()\s]*\)")
# Bold, italic by * or _, and code: only in pairs around text, so that 3*4 and close_adj stay as they are.
EMPHASIS = re.compile(r"\*\*(?=\S)([^*\n]+?)\*\*|(?<![\w*_])([*_])(?=\S)([^*_\n]+?)(?<=\S)\2(?![\w*_])|`([^`\n]+)`")
# Ten turns of three points fit a small model's window beside the last two in full.
MAX_POINTS, MAX_CHARS, MAX_ANSWER_CHARS = 3, 200, 100_000


def extract_points(answer: str) -> list[str]:
    """Return at most three sentences of at most 200 characters, without markup and citations; those with numbers first.

    Only the first 100,000 characters are considered.
    """
    sentences = [part.strip() for part in SENTENCE_END.split(strip_markup(answer[:MAX_ANSWER_CHARS]))]
    # Rules and rows of dashes are no sentences.
    sentences = [part for part in sentences if any(character.isalnum() for character in part)]
    with_numbers = [part for part in sentences if any(character.isdigit() for character in part)]
    return [shorten(part) for part in with_numbers[:MAX_POINTS] or sentences[:1]]


def strip_markup(markdown: str) -> str:
    """Return the prose of an answer. Signs and operators stay: "-5%", "3*4" and "close_adj" are not markup."""
    text = MARKER.sub("", PIECES.sub("", BLOCKS.sub("", markdown)))
    return EMPHASIS.sub(lambda match: match.group(1) or match.group(3) or match.group(4), LINK.sub(r"\1", text))


def shorten(sentence: str) -> str:
    """Cut to at most ``MAX_CHARS`` characters, at a word boundary if possible."""
    # A number cut in two would be another number.
    if len(sentence) <= MAX_CHARS:
        return sentence
    cut = sentence[: MAX_CHARS - 1]
    return (cut.rsplit(" ", 1)[0] if " " in cut[MAX_CHARS // 2 :] else cut) + "…"
