"""Content words in English and Chinese, to compare a question with titles and sentences."""

from __future__ import annotations

import re
import unicodedata

from fathom.domain.chat.language import language_of
from fathom.domain.text.scripts import HAN, HAN_CHARACTER

TOKEN = re.compile(rf"[a-z0-9]+(?:[.&'-][a-z0-9]+)*|[{HAN}]+")
SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z\"“(])|(?<=[。！？])|\n+")
ENGLISH_STOPS = frozenset(
    """a about an and any are as at be been between by can compare compared could did do does during explain
    find for from give had has have how i in into is it its latest let like many may me mean means meaning much my
    news no not of on or our over please recent say shall should show since so some tell than that the their
    them then there these they this those to up us was we were what what's when where which
    while who whom whose why will with would you your""".split()  # noqa: SIM905
)
# Longest first: what is cut out of Chinese text before it is compared in pairs of characters.
CHINESE_STOPS = re.compile(
    "请问|请|解释|介绍|告诉我|告诉|帮我|一下|什么是|是什么|什么|是多少|多少|怎么样|怎么|怎样|如何|为什么|为何|哪些|哪个|有哪些|"
    "最近|最新|新闻|消息|关于|以及|还有|过去|期间|之间|从|到|至|在|的|了|和|与|及|是|吗|呢|年|月|日|我|你"
)


def is_chinese(text: str) -> bool:
    """Return whether the text has Chinese characters; the answer is then Chinese too."""
    return language_of(text) == "zh"


def words(text: str) -> list[str]:
    """Return the terms in order without stop words; Latin words are stemmed, Chinese text is split into bigrams."""
    found: list[str] = []
    for match in TOKEN.finditer(unicodedata.normalize("NFKC", text).lower()):
        word = match.group()
        if HAN_CHARACTER.match(word):
            for run in CHINESE_STOPS.sub(" ", word).split():
                found += [run[index : index + 2] for index in range(len(run) - 1)] or [run]
        elif word not in ENGLISH_STOPS:
            found.append(stem(word))
    return found


def stem(word: str) -> str:
    """Return the word without a possessive or plural ending."""
    word = word.removesuffix("'s")
    # "ss", "us" and "is" end words such as loss, bonus and crisis, which are no plurals.
    if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")):
        return word[:-3] + "y" if word.endswith("ies") else word[:-1]
    return word


def keywords(text: str) -> str:
    """Return the text as a search query: its words as written, without question words."""
    kept: list[str] = []
    for match in re.finditer(rf"[A-Za-z0-9]+(?:[.&'-][A-Za-z0-9]+)*|[{HAN}]+", text):
        word = match.group()
        if HAN_CHARACTER.match(word):
            kept += CHINESE_STOPS.sub(" ", word).split()
        elif word.lower() not in ENGLISH_STOPS:
            kept.append(word)
    return " ".join(kept)


def sentences(text: str) -> list[str]:
    """Return sentences of prose, without headings, list items and table rows."""
    parts = (part.strip() for part in SENTENCE.split(text))
    return [part for part in parts if len(part) >= 8 and not part.startswith(("#", "|", "-", "*", "```"))]
