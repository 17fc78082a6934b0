"""Words that nothing was made of: which look like names, and runs of them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from fathom.services.datafetch.catalog.text import CJK, blank
from fathom.services.datafetch.parser.lexicon import find_content_words, find_terms, is_decisive, load_known_words

# Capitalised words that look like a name; used only to report unknown names, never to guess.
NAME_LIKE = re.compile(r"\b(?:[A-Z][a-z]+(?:\s+[A-Z][a-z]+)*|[A-Z]{2,5})\b")
# "euro area", "Germany's", 日本: economies other than the United States, whose macro series are the bundled ones.
ECONOMIES = re.compile(
    r"\b(?:euro[\s-]?(?:area|zone)|europe(?:an union)?|germany|german|france|french|italy|spain|uk|u\.k\.|united kingdom|britain|british|japan"
    r"|japanese|china|chinese|india|canada|canadian|brazil|mexico|korea|russia|switzerland|australia)(?:'s)?\b"
    r"|欧元区|欧盟|欧洲|德国|法国|意大利|西班牙|英国|日本|中国|印度|加拿大|巴西|墨西哥|韩国|俄罗斯|瑞士|澳大利亚",
    re.I,
)
COMPANY_TAIL = re.compile(r"股份|集团|有限|公司|控股")
# Words at the end of a company's name: 某某银行, 某某科技.
COMPANY_END = re.compile(
    r"(?:公司|集团|股份|银行|证券|科技|控股|实业|药业|电子|能源|保险|汽车|地产|食品|材料|机械|制药|生物)$"
)
# Valuation multiples: P/E, EV/EBITDA.
MULTIPLE = re.compile(r"\b(?:[A-Z]{1,3}/[A-Z]{1,6}|p/[ebs])\b")
# A numeral with its measure word: 两项, 5只.
COUNTED = re.compile(r"(?:\d+|[一二两三四五六七八九十几]+)[个只家支名位次份种项条]")
# Prepositions that are also the first character of names: 比亚迪, 和而泰.
GLUE = "比对和与在从由给用各"


def find_unread(rest: str) -> list[tuple[int, int]]:
    """Return the spans of content words of a blanked question that are no words of a lexicon either."""
    known = [*(item.span for item in find_terms(rest)), *(match.span() for match in COUNTED.finditer(rest))]
    return list(find_content_words(blank(rest, known)))


def unknown_names(rest: str) -> list[str]:
    """Return Latin words of a blanked question that look like names, and multiples such as "P/E"."""
    unknown: list[str] = [match.group() for match in MULTIPLE.finditer(rest)]
    # Blanked, or "EV" and "EBITDA" would be reported as names besides.
    rest = MULTIPLE.sub(lambda match: "\0" * len(match[0]), rest)
    rest = blank(rest, [(item.start, item.end) for item in find_terms(rest)])
    known = load_known_words()
    for match in NAME_LIKE.finditer(rest):
        words = " ".join(word for word in match.group().split() if word.lower() not in known)
        if words and words not in unknown:
            unknown.append(words)
    return unknown


def latin_leftovers(rest: str) -> list[str]:
    """Return runs of unread Latin words of a blanked question; a mark or a word that was read ends a run."""
    runs: list[str] = []
    last = None
    for start, end in find_unread(rest):
        # A word of comparison or time beside a name is no part of the name.
        if CJK.match(rest[start]) or not rest[start].isalpha() or end - start < 2 or is_decisive(rest[start:end]):
            last = None
            continue
        joined = last is not None and not rest[last:start].strip()
        runs[-1:] = [f"{runs[-1]} {rest[start:end]}"] if joined else [*runs[-1:], rest[start:end]]
        last = end
    return runs


def chinese_leftovers(rest: str) -> Iterator[tuple[str, int, int]]:
    """Yield runs of unread Chinese words of a blanked question with their start and end, Latin parts included."""
    merged: list[list[int]] = []
    for start, end in sorted(find_unread(rest)):
        if merged and merged[-1][1] == start:
            merged[-1][1] = end
        else:
            merged.append([start, end])
    for start, end in merged:
        # The first character of 比亚迪 is a preposition elsewhere; behind a name it is one here.
        glued = start and rest[start - 1] in GLUE and rest[max(start - 2, 0)] != "\0"
        if end - start == 2 and glued and CJK.match(rest[start]):
            start -= 1
        if end - start >= 2 and CJK.search(rest[start:end]):
            yield rest[start:end], start, end


def is_company(words: str, rest: str, end: int) -> bool:
    """Return whether unmatched words end, or go on, like a company name: 公司, 集团, 银行."""
    tail = rest[end : end + 2]
    return bool(COMPANY_END.search(words)) or tail in ("公司", "集团", "股份", "企业")
