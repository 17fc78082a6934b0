"""Quoting of untrusted text (documents, pages, tables, foreign tools) so that it cannot act as instructions.

``neutral`` defuses every tag that a chat template, a tool format or one of our protocols would obey, so that a document
can forge neither a role nor a call nor the end of its own quotation. Nothing is ever removed, so that no removal can
join two halves into a tag; the function is idempotent.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

OPEN_QUOTE, CLOSE_QUOTE = "<quoted>", "</quoted>"
NAMES = (
    "quoted|think|thinking|search|information|answer|tools?|system|user|assistant|developer|human|function|invoke"
    "|parameter|arguments|s|bos|eos|pad|unk|mask|sys|reponame|filename"
)
CONTROL = re.compile(
    r"<[|｜][^<>\n]{0,80}>"  # <|im_start|>, <｜User｜>
    rf"|<\s*/?\s*(?:{NAMES})(?:\s[^<>]{{0,200}})?/?\s*>"
    r"|<\s*/?\s*[A-Za-z]+(?:[_:][A-Za-z0-9]+)+(?:\s[^<>]{0,200})?\s*>"  # <tool_call>, <start_of_turn>, <file_sep>
    r"|<<\s*/?\s*SYS\s*>>",
    re.IGNORECASE,
)
# Where only the beginning of a control token stands; a tokenizer may complete it with what follows.
BARS = re.compile(r"<(?=[|｜])")
# Control tokens of the Mistral and Llama 2 families, which write them in square brackets.
BRACKETS = re.compile(r"\[(/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS)/?)\]", re.IGNORECASE)
ANGLES = str.maketrans("<>", "‹›")
# A title, and the quotation below it on lines of its own.
SECTION = re.compile(r"^# ([A-Z][A-Za-z ]{0,39})\n(<quoted>\n.*?\n</quoted>)$", re.MULTILINE | re.DOTALL)


def neutral(text: str) -> str:
    """Replace the angle brackets of active tags by ``‹ ›``; everything else, comparisons and HTML included, stays."""
    text = CONTROL.sub(lambda match: match.group().translate(ANGLES), text)
    text = BARS.sub("‹", text)
    return BRACKETS.sub(r"⟦\1⟧", text)


def quote(text: str) -> str:
    """Return ``text`` neutralised, between quote tags that it cannot close."""
    return f"{OPEN_QUOTE}\n{neutral(text)}\n{CLOSE_QUOTE}"


def unquote(text: str) -> str:
    """Return the text inside a quotation, still neutralised; text that is not quoted is returned unchanged."""
    stripped = text.strip()
    if not (stripped.startswith(f"{OPEN_QUOTE}\n") and stripped.endswith(CLOSE_QUOTE)):
        return text
    return stripped.removeprefix(f"{OPEN_QUOTE}\n").removesuffix(CLOSE_QUOTE).removesuffix("\n")


def write_sections(sections: Mapping[str, str]) -> str:
    """Return titled quotations: what a model is to judge or to work on, each part under its name."""
    return "\n\n".join(f"# {title}\n{quote(text)}" for title, text in sections.items())


def read_sections(content: str) -> dict[str, str]:
    """Return the texts of ``write_sections`` by title; none for any other message."""
    return {title: unquote(quotation) for title, quotation in SECTION.findall(content)}


def shorten(text: str, limit: int) -> str:
    """Return at most about ``limit`` characters of ``text``: head, a note on the omission, tail."""
    if len(text) <= limit:
        return text
    # The head says what a text is; its end often has the result, the last rows or the error.
    head, tail = limit * 2 // 3, limit // 3
    return f"{text[:head]}\n… {len(text) - head - tail:,} characters left out …\n{text[-tail:]}"
