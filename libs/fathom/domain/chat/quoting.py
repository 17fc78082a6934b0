"""Quoting of untrusted text (documents, pages, tables, foreign tools) so that it cannot act as instructions.

``neutral`` defuses every tag that a chat template, a tool format or one of our protocols would obey, so that a document
can forge neither a role nor a call nor the end of its own quotation. Nothing is ever removed, so that no removal can
join two halves into a tag; the function is idempotent.
"""

from __future__ import annotations

import re

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
