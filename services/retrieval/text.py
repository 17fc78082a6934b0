"""Words for the index: Latin words and numbers whole, Chinese as character bigrams.

Bigrams need no dictionary and beat the default tokenizer by far on Chinese (measured in specs/retrieval.md).
"""

from __future__ import annotations

import re
import unicodedata

TOKEN = re.compile(r"[a-z0-9]+(?:[.&'-][a-z0-9]+)*|[\u4e00-\u9fff]+")
SENTENCE = re.compile(r"(?<=[.!?。！？])\s*")
STOP = frozenset(
    """a an and are as at be by for from has have how in is it its of on or that the this to was were what
    when where which who why will with do does did than then there their they""".split()  # noqa: SIM905 - a list of words reads better so
)


def tokens(text: str) -> list[str]:
    """Index terms in order. Plural s and possessives are cut from words of four letters and more."""
    found: list[str] = []
    for match in TOKEN.finditer(unicodedata.normalize("NFKC", text).lower()):
        word = match.group()
        if "\u4e00" <= word[0] <= "\u9fff":
            found += [word[i : i + 2] for i in range(len(word) - 1)] or [word]
        elif word not in STOP:
            found.append(stem(word))
    return found


def stem(word: str) -> str:
    """The word without a possessive or a plural ending."""
    word = word.removesuffix("'s")
    if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")):
        return word[:-3] + "y" if word.endswith("ies") else word[:-1]
    return word


def summary(text: str, query: set[str], limit: int) -> str:
    """The stretch of sentences with most of the query's terms, at most ``limit`` characters."""
    sentences = [part.strip() for part in SENTENCE.split(text) if part.strip()]
    if not sentences:
        return ""
    best = max(range(len(sentences)), key=lambda i: (len(query & set(tokens(sentences[i]))), -i))
    chosen = sentences[best]
    for following in sentences[best + 1 :]:
        if len(chosen) + len(following) + 1 > limit:
            break
        chosen = f"{chosen} {following}"
    return chosen if len(chosen) <= limit else chosen[: limit - 1].rstrip() + "…"
