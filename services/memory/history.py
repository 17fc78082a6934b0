"""Search of a tenant's conversations by the words of their titles and turns."""

from __future__ import annotations

import re
from collections.abc import Sequence

from sqlalchemy import ColumnElement, Connection, exists, or_, select

from fathom.core.errors import InvalidField
from fathom.services.memory.schema import CONVERSATIONS, TURNS

# Each word is compared with every turn: nobody types more, and a longer query would only cost time.
MAX_QUERY_CHARS, MAX_WORDS = 200, 8
# Characters of an excerpt before and after its word: what follows says more than what led to it.
CHARS_BEFORE, CHARS_AFTER = 40, 120
# References, citations and marks of Markdown, which say nothing in an excerpt.
MARKUP = re.compile(r"\{\{\w+:\w+\}\}|\[\d{1,3}(?:[,，]\d{1,3})*\]|[*`#|]+|\s+")


def split_words(query: str) -> tuple[str, ...]:
    """Return the words of a query; raise ``InvalidField("query")`` for too long a one."""
    if len(query) > MAX_QUERY_CHARS:
        raise InvalidField("query", f"must have at most {MAX_QUERY_CHARS} characters")
    # PostgreSQL has no text with NUL, so that the query would fail there as an error of ours.
    if "\0" in query:
        raise InvalidField("query", "must not have the character NUL")
    words = tuple(query.split())
    if len(words) > MAX_WORDS:
        raise InvalidField("query", f"must have at most {MAX_WORDS} words")
    return words


def has_word(word: str) -> ColumnElement[bool]:
    """Return the condition that a conversation's title, or any of its turns, has the word in any case."""
    turn = (TURNS.c.tenant == CONVERSATIONS.c.tenant, TURNS.c.conversation == CONVERSATIONS.c.id, is_said(word))
    # Escaped, because “%” and “_” in a query are characters to be found and no wildcards.
    return or_(CONVERSATIONS.c.title.icontains(word, autoescape=True), exists().where(*turn))


def is_said(word: str) -> ColumnElement[bool]:
    """Return the condition that a turn's question or answer has the word in any case."""
    # Parts of words count, too: Chinese has no spaces between them.
    return or_(TURNS.c.question.icontains(word, autoescape=True), TURNS.c.answer.icontains(word, autoescape=True))


def find_passage(db: Connection, tenant: str, conversation: str, words: Sequence[str]) -> str:
    """Return the text around one of the words in the newest turn that has one, "" when none has."""
    chosen = (TURNS.c.tenant == tenant, TURNS.c.conversation == conversation, or_(*map(is_said, words)))
    query = select(TURNS.c.question, TURNS.c.answer).where(*chosen).order_by(TURNS.c.number.desc()).limit(1)
    row = db.execute(query).first()
    # The answer first: a word that both have is explained there, and only mentioned in the question.
    return cut_around(f"{row.answer}\n{row.question}", words) if row else ""


def cut_around(text: str, words: Sequence[str]) -> str:
    """Return some 160 characters around the first place of one of the words, without Markdown's marks."""
    plain = MARKUP.sub(" ", text)
    plain = re.sub(r" {2,}", " ", plain).strip()
    place = re.search("|".join(map(re.escape, words)), plain, re.IGNORECASE)
    start = max(0, place.start() - CHARS_BEFORE) if place else 0
    end = start + CHARS_BEFORE + CHARS_AFTER
    return ("…" if start else "") + plain[start:end].strip() + ("…" if end < len(plain) else "")
