"""Find the words of a question that exclude something or deny a comparison, in English and Chinese.

Both are closed classes of grammar. A reader that skips such a word answers the opposite of what was asked, so every
reader of questions must either express it or refuse; they look here, so that they agree on what it is.
"""

from __future__ import annotations

import re
from enum import StrEnum

# Matches, e.g., "excluding 2020", "other than Apple Inc.", "all quarters but the last".
EXCLUDES = re.compile(
    r"\b(?:exclud(?:e|es|ed|ing)|exclusive of|except(?:ing)?(?: for)?|apart from|aside from|other than|without"
    r"|leav(?:e|ing) out|omit(?:ting|ted)?|not (?:including|counting)|but not"
    r"|(?:all|every|each|any)(?: \w+){0,2} but)\b"
    # What is excluded, for the message: the next words up to the next part of the sentence.
    r"(?:\s+(?!(?:in|from|between|for|during|on|over|since|what|which|how|did|does|was|is)\b)[\w.&'%-]+){0,4}",
    re.IGNORECASE,
)
# Matches, e.g., 剔除2020年, 除了苹果以外, 金融股之外; not 除权, 除息 (ex-dividend) nor 除此之外, 意料之外.
EXCLUDES_ZH = re.compile(
    r"(?:剔除|排除|除去|除掉|除开|刨除|刨去|扣除|去掉|去除|撇开|抛开|不包括|不包含|不含|不计|不算|除了|除(?=[^以权息此][^，。,？?]{0,15}?外))"
    r"[^，。,；;？?()（）\s的后外]{0,12}(?:以外|之外|外|后)?|(?!除?此|意料|预期)[^，。,；;？?\s]{1,6}(?:以外|之外)"
)
# 除了…还… is "besides": it adds, unless it asks who else there is.
BESIDES_ZH = re.compile(r"除了?[^。？?]*?(?:还|也|又)(?!有?(?:哪|谁|什么|几|多少))")
# Words that deny by themselves, wherever they stand.
DENIALS = frozenset(("no", "not", "never", "nor", "neither", "without", "except", "不", "没", "没有", "未", "无", "非"))
# Words of comparing or moving that a denial may stand before; endings are left open where a verb has several.
COMPARISONS = (
    r"(?:above|below|over|under|beyond|exceed\w*|surpass\w*|more|less|higher|lower|greater|smaller|positive|negative|inverted"
    r"|ris(?:e|es|en|ing)|rose|fall(?:s|en|ing)?|fell|drop\w*|gain\w*|los[et]\w*|increas\w*|decreas\w*|declin\w*|gr[eo]w\w*|up|down)\b"
)
COMPARISONS_ZH = (
    r"(?:超过|高于|低于|大于|小于|多于|少于|达到|跌破|涨破|突破|上涨|下跌|上升|下降|增长|减少|倒挂|为负|为正"
    r"|涨|跌|升|降)"
)
# Up to three words between the denial and what it denies ("did not really ever fall"), but none that begins another
# clause or makes it no denial ("not only rose").
GAP = r"(?:(?!(?:only|just|merely|simply|sure|know|want|care|mind|and|or|but|if)\b)[\w-]+\s+){0,3}?"
# Matches, e.g., "never", "at no time", "not once", and "no" before a noun ("no month above"), but not in "no more
# than".
NEVER = (
    r"(?:\bnever\b|\bat no (?:time|point)\b|\bnot (?:one|once|a single)\b"
    r"|\bno(?= (?!more|less|higher|lower|fewer|greater|later|longer)\w))"
)
NOT = r"\b(?:not|cannot|nor|neither|\w+n't)\b"
# The same in Chinese: 从未, 没有一个, 无一.
NEVER_ZH = (
    r"(?:从未|从没有?|从来没有?|从来未|从不|未曾|不曾|始终没有?|始终未|一直没有?"
    r"|没有(?:一个|任何|哪一?个)[^，。,？?]{0,6}|无一)"
)
# 有没有, 涨没涨 and 超不超过 ask whether; they deny nothing.
NOT_ZH = r"(?<![有涨跌升降超高低])(?:并没有|没有|没|并未|未(?!来)|不再|不会|不(?=[涨跌升降]))"
AUXILIARY_ZH = r"(?:再|能|曾|会|收|出现|发生)?"
# A denial and the comparison that it denies, e.g. "never above", "did not fall", 从未超过, 没跌.
DENIES = re.compile(
    rf"(?:{NEVER}|{NOT})\s+{GAP}{COMPARISONS}|{NEVER_ZH}{AUXILIARY_ZH}{COMPARISONS_ZH}|{NOT_ZH}{AUXILIARY_ZH}{COMPARISONS_ZH}",
    re.IGNORECASE,
)
# The same up to the comparison, whose place the caller knows; group "never" tells the two kinds apart.
AHEAD = re.compile(
    rf"(?:(?P<never>{NEVER}|{NEVER_ZH})|{NOT}|{NOT_ZH}|(?<![有涨跌升降超高低])不)(?:\s+{GAP}|{AUXILIARY_ZH})$",
    re.IGNORECASE,
)


class Denial(StrEnum):
    """Kind of negation ahead of a comparison: ``NOT`` inverts it, ``NEVER`` speaks of a whole period."""

    NOT = "not"
    NEVER = "never"


def is_denial(word: str) -> bool:
    """Return whether a single word denies something."""
    return word.lower() in DENIALS


def find_exclusions(text: str) -> list[tuple[int, int]]:
    """Return where a text leaves something out: "excluding 2020", 剔除2020年, 除了苹果."""
    added = [match.span() for match in BESIDES_ZH.finditer(text)]
    spans = [match.span() for pattern in (EXCLUDES, EXCLUDES_ZH) for match in pattern.finditer(text)]
    return sorted(span for span in spans if not any(start <= span[0] < end for start, end in added))


def find_denials(text: str) -> list[tuple[int, int]]:
    """Return where a text denies a comparison or a movement: "never above", "did not fall", 没有超过."""
    return [match.span() for match in DENIES.finditer(text)]


def denial_ahead(text: str, start: int) -> tuple[Denial, int] | None:
    """Return how the comparison at ``start`` is denied and where the denying words begin; None if it is not."""
    match = AHEAD.search(text[:start])
    if match is None:
        return None
    return (Denial.NEVER if match["never"] else Denial.NOT), match.start()
