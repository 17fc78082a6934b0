"""Tokenisation for the index, and summaries around a match.

Latin words, numbers and tickers stay whole; Chinese, Japanese and Korean become character bigrams. Bigrams need no
dictionary and beat the default tokenizer of bm25s by far: nDCG@10 93 to 98 against 17 to 29 on Chinese sets.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Set
from typing import NamedTuple

from fathom.domain.text.scripts import ALL_HAN
from fathom.domain.text.stop_words import FUNCTION_WORDS

# Iteration mark, zero, kana, Hangul, Han with its extensions and compatibility forms.
CJK = rf"\u3005\u3007\u3040-\u30ff\uac00-\ud7af{ALL_HAN}"
# A run of Chinese, Japanese or Korean, or a Latin word with inner marks: "u.s.", "r&d", "covid-19".
TOKEN = re.compile(rf"[{CJK}]+|[^\W_{CJK}]+(?:[.&'-][^\W_{CJK}]+)*")
IS_CJK = re.compile(rf"[{CJK}]")
# Letters and digits in one word: "fy2018", "10k", "5.3bn"; tables and other writers have them apart.
MIXED = re.compile(r"\d+(?:\.\d+)*|[^\W\d_]+")
# "1,234,567" is indexed as 1234567, which a question may write either way.
GROUPING = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
# A full stop ends a sentence only before a space: "5.3%" and "S.A.B" go on.
SENTENCE_END = re.compile(r"[.!?][\"')\]]{0,3}\s+|[。！？][”’」』）]{0,3}\s*|\n+")
STOP = FUNCTION_WORDS | frozenset(
    """how were what when where which who why do does did than their they""".split()  # noqa: SIM905 - a list of words reads better so
)
# Texts beyond this length are summed up from one part of them: splitting the terms of 300,000 letters takes 100 ms.
LONG_CHARS, PART_CHARS = 12_000, 4_000
LINE_BREAK = re.compile(r"[ \t]*[\r\n]\s*")
ELLIPSIS = "…"


def tokenise(text: str) -> list[str]:
    """Return index terms in order; plural s and possessives are cut.

    Hyphenated words, and those of letters and digits, count whole and in parts.
    """
    found: list[str] = []
    plain = GROUPING.sub("", unicodedata.normalize("NFKC", text).lower().replace("’", "'"))
    for match in TOKEN.finditer(plain):
        word = match.group()
        if IS_CJK.match(word):
            found += [word[i : i + 2] for i in range(len(word) - 1)] or [word]
            continue
        parts = word.split("-")
        found += [stem(part) for part in ([word, *parts] if len(parts) > 1 else parts) if part not in STOP]
        found += [run for part in parts for run in split_mixed(part)]
    return found


def split_mixed(word: str) -> list[str]:
    """Return the runs of letters and of digits of a word that has both; none for another."""
    runs = MIXED.findall(word.removesuffix("'s"))
    has_both = any(run[0].isdigit() for run in runs) and not all(run[0].isdigit() for run in runs)
    return [run for run in runs if len(run) > 1] if has_both else []


def stem(word: str) -> str:
    """Remove a possessive or plural ending, and the dots of an abbreviation ("u.s" is "us")."""
    word = word.removesuffix("'s")
    letters = word.split(".")
    if len(letters) > 1 and all(len(part) == 1 and part.isalpha() for part in letters):
        return "".join(letters)
    if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")):
        return word[:-3] + "y" if word.endswith("ies") else word[:-1]
    return word


def is_single_character(term: str) -> bool:
    """Return True for a lone Chinese character, which no bigram of the index equals."""
    return len(term) == 1 and IS_CJK.match(term) is not None


class Stretch(NamedTuple):
    """``text[start:end]``, a sentence with the blanks after it, or a piece of one that is too long."""

    start: int
    end: int
    opens: bool
    """True if it begins with the start of a sentence."""
    closes: bool
    """True if it ends with the end of a sentence."""


def find_part(text: str, query: Set[str]) -> int:
    """Return where the part of a long text with most of the query's terms begins, the first of equals."""
    # What a term looks like in a text, as far as splitting changes it: without the marks of abbreviations and numbers,
    # and without the end that a plural changes.
    wanted = [term.replace(".", "").removesuffix("y") for term in query]

    def count_terms(start: int) -> int:
        part = text[start : start + PART_CHARS].lower().replace(".", "").replace(",", "")
        return sum(term in part for term in wanted)

    return max(range(0, len(text), PART_CHARS), key=count_terms)


def summarise(text: str, query: Set[str], limit: int, find: Callable[[str, Set[str]], int] = find_part) -> str:
    """Return the run of sentences with most of the query's terms, at most ``limit`` characters, on one line.

    Its words are the text's; an ellipsis marks a cut sentence. A summary is never the whole text, however short. Of a
    long text only the part is read that ``find`` finds.
    """
    if len(text) > LONG_CHARS:
        text = cut_part(text, find(text, query))
    inner = min(limit, len(text.strip()) - 1) - 2 * len(ELLIPSIS)
    if inner < 1:
        return ""
    parts = list(split_stretches(text, inner))
    terms = [query & set(tokenise(text[part.start : part.end])) for part in parts]
    best_key, best = (-1, -1), (parts[0], parts[0])
    for first, opening in enumerate(parts):
        covered = set(terms[first])
        last = first
        while last + 1 < len(parts) and len(text[opening.start : parts[last + 1].end].rstrip()) <= inner:
            last += 1
            covered |= terms[last]
        # Among equals the stretch that opens with the match is the better one, then the earlier one.
        if (key := (len(covered), len(terms[first]))) > best_key:
            best_key, best = key, (opening, parts[last])
    opening, closing = best
    shown = LINE_BREAK.sub(" ", text[opening.start : closing.end].strip())
    return f"{'' if opening.opens else ELLIPSIS}{shown}{'' if closing.closes else ELLIPSIS}"


def cut_part(text: str, begin: int) -> str:
    """Return the part of a text that begins there, cut at sentences."""
    # From the sentence that is cut by its begin, to the end of the one that is cut by its end.
    earlier = SENTENCE_END.finditer(text, max(0, begin - PART_CHARS), begin)
    first = max((match.end() for match in earlier), default=begin)
    closing = SENTENCE_END.search(text, min(begin + PART_CHARS, len(text)), begin + 2 * PART_CHARS)
    return text[first : closing.end() if closing else begin + PART_CHARS]


def split_stretches(text: str, limit: int) -> Iterator[Stretch]:
    """Yield sentences in order; one of more than ``limit`` characters in pieces, cut at spaces if possible."""
    start = len(text) - len(text.lstrip())
    for end in [*(match.end() for match in SENTENCE_END.finditer(text)), len(text)]:
        opens = True
        while len(text[start:end].rstrip()) > limit:
            # Cut at a space of the second half, or a long word would leave pieces of a few characters.
            space = text.rfind(" ", start + limit // 2, start + limit)
            cut = space + 1 if space >= 0 else start + limit
            yield Stretch(start, cut, opens, False)
            start, opens = cut, False
        if text[start:end].strip():
            yield Stretch(start, end, opens, True)
        start = max(start, end)
