"""Coordinated names that share a head or tail: "food and energy CPI", "imports from China and Japan"."""

from __future__ import annotations

import re
from collections.abc import Sequence

from fathom.services.datafetch.catalog.names import Mention, Names
from fathom.services.datafetch.catalog.text import CJK
from fathom.services.datafetch.parser.lexicon import cue, says
from fathom.services.datafetch.parser.mention import overlap

# Lists are followed name by name, up to four on each side of a mention, so that a wrong match cannot run through the
# text.
MAX_ROUNDS = 4


def complete_lists(text: str, mentions: Sequence[Mention], names: Names) -> list[Mention]:
    """Return the mentions plus those that coordination implies, sorted by position.

    A mention that is only the common tail ("能源、食品两项CPI") is replaced by the names that it completes.
    """
    found = list(mentions)
    for mention in mentions:
        for is_ahead in (True, False):
            edge = mention
            for _ in range(MAX_ROUNDS):
                more = _find_next(text, edge, mention, names, is_ahead=is_ahead)
                if more is None or any(overlap((more.start, more.end), (one.start, one.end)) for one in found):
                    break
                found.append(more)
                if mention in found and says("counted_list", text[: mention.start]):
                    found.remove(mention)
                edge = more
    return sorted(found, key=lambda mention: mention.start)


def _find_next(text: str, edge: Mention, whole: Mention, names: Names, *, is_ahead: bool) -> Mention | None:
    """Return the name beside ``edge`` that shares a part of ``whole``, or None.

    Ahead of it shares the tail ("food" in "food and energy CPI"), behind it the head ("Japan" in "imports from China
    and Japan").
    """
    if is_ahead:
        before = cue("counted_list").sub("", text[: edge.start])
        match = cue("word_before_joint").search(before)
        if match is None and before != text[: edge.start]:
            # "能源、食品两项CPI": the mention is only the common tail.
            match = re.search(r"(?P<word>[\u3400-\u9fff]{2,6})$", before)
    else:
        match = cue("word_behind_joint").match(text, edge.end)
    if match is None:
        return None
    start, end = match.span("word")
    # Drop characters at the far end one by one, Latin words as a whole: the match takes more words than the name has.
    if is_ahead:
        firsts = [at for at in range(start, end - 1) if CJK.match(text[at]) or at == start or text[at - 1] == " "]
        cuts = [(first, end) for first in firsts]
    else:
        is_long = CJK.match(text[start]) is not None
        cuts = [(start, last) for last in range(end, start + 1, -1) if is_long or last == end or text[last] == " "]
    for first, last in cuts:
        for part in _split_parts(whole.surface, from_end=is_ahead):
            words = (text[first:last], part) if is_ahead else (part, text[first:last])
            ids = names.find_all("".join(words)) or names.find_all(" ".join(words))
            if ids and ids[0] not in whole.ids:
                return Mention(ids, first, last, text[first:last])
    return None


def _split_parts(surface: str, *, from_end: bool) -> list[str]:
    """Return the suffixes or proper prefixes of a name, longest first: by character in Chinese, else by word."""
    chinese = CJK.search(surface) is not None
    # "10-" in "10- and 30-year yields" shares what stands behind the hyphen.
    units: Sequence[str] = surface if chinese else re.split(r"\s+|(?<=-)", surface) if from_end else surface.split()
    parts = (units[at:] if from_end else units[: len(units) - 1 - at] for at in range(len(units)))
    shared = (part for part in parts if part and not (chinese and from_end and len(part) == 1))
    return [("" if chinese else " ").join(part).replace("- ", "-") for part in shared]
