"""Answers as a reader sees them: without markup, figures' code, references to tables and citations."""

from __future__ import annotations

import re

CITATION = re.compile(r"\[(\d{1,4}(?:\s*[,，]\s*\d{1,4})*)\]")
# What is drawn in place of its text: code, figures, references to tables, comments.
DRAWN = re.compile(r"```.*?(?:```|\Z)|<figure>.*?</figure>|\{\{[^{}\n]*\}\}|<!--.*?-->", re.DOTALL)
LINK = re.compile(r"!?\[([^\[\]]*)\]\([^()\s]*\)")
TAG = re.compile(r"</?[A-Za-z][^<>\n]{0,200}>")
# Marks of headings, quotations, lists and rules at the start of a line.
LINE = re.compile(
    r"^[ \t]*(?:#{1,6}[ \t]+|>[ \t]?|[-*+][ \t]+|\d{1,3}[.)][ \t]+|(?:-{3,}|\*{3,})[ \t]*$)", re.MULTILINE
)
EMPHASIS = re.compile(r"[*_`|~]+")


def list_citations(markdown: str) -> set[int]:
    """Return the numbers of the material that an answer cites."""
    return {int(number) for group in CITATION.findall(markdown) for number in re.split(r"[,，]", group)}


def show_plain(markdown: str) -> str:
    """Return the words of an answer; runs of blanks are one."""
    text = CITATION.sub("", DRAWN.sub(" ", markdown))
    text = EMPHASIS.sub("", LINE.sub("", TAG.sub("", LINK.sub(r"\1", text))))
    return " ".join(text.split())


def count_visible(markdown: str) -> int:
    """Return how many characters of an answer a reader sees."""
    return len(show_plain(markdown))
