"""Disclosure of missing data: an answer always names data that was requested and not found."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from fathom.domain.text.language import language_of
from fathom.domain.tool_results import make_step
from fathom.services.planner.answering.calculation import DATA
from fathom.services.planner.answering.parsing import Citation, parse
from fathom.services.planner.answering.rendering.report import append_note
from fathom.services.planner.model.episode import Episode, Material, MaterialKind
from fathom.services.planner.proto.episode import missing_to_proto
from fathom.services.planner.tools.data.sheets import describe_missing

# More would turn the note into a list that is longer than the answer.
MAX_ITEMS = 8
# Reasons for which words are no series of the tables, in contrast to a series without values.
NAMELESS = frozenset({"UNKNOWN_ENTITY", "UNKNOWN_INDICATOR", "NO_MATCH"})
REASONS = {
    "UNKNOWN_ENTITY": ("unknown here", "未收录"),
    "UNKNOWN_INDICATOR": ("no such indicator here", "没有这个指标"),
    "NO_DATA_IN_PERIOD": ("no data in this period", "该时期没有数据"),
    "NOT_YET_PUBLISHED": ("not yet published at that time", "当时尚未公布"),
    "NO_MATCH": ("nothing matches", "没有匹配的文档"),
    "SOURCE_FAILED": ("the source failed", "数据源出错"),
    "NOT_UNDERSTOOD": ("not understood", "未能理解"),
}


def append_missing(markdown: str, material: Sequence[Material], question: str) -> str:
    """Add a line with each missing item that the text neither cites nor mentions, in a report in its own section."""
    chinese = language_of(question) == "zh"
    cited = {number for event in parse(markdown) if isinstance(event, Citation) for number in event.numbers}
    lines: dict[str, int] = {}
    has_passage = any(item.kind is MaterialKind.PASSAGE and item.number in cited for item in material)
    for item in material:
        if item.kind is not MaterialKind.MISSING or is_word_of(item, question):
            continue
        if has_passage and is_about_all(item, question):
            continue
        # An answer that says itself what is missing needs no second note.
        if item.number not in cited and not is_mentioned(markdown, item):
            lines.setdefault(describe(item, chinese), item.number)
    if not lines:
        return markdown
    shown = [f"{text} [{number}]" for text, number in list(lines.items())[:MAX_ITEMS]]
    if len(lines) > MAX_ITEMS:
        shown.append(f"另有 {len(lines) - MAX_ITEMS} 项" if chinese else f"and {len(lines) - MAX_ITEMS} more")
    head, comma, stop = ("**缺失：**", "；", "。") if chinese else ("**Missing:** ", "; ", ".")
    return append_note(markdown, f"{head}{comma.join(shown)}{stop}")


def drop_nameless(material: Sequence[Material], episode: Episode, cited: Collection[int]) -> list[Material]:
    """Return material without words that no series bears, where the answer cites the user's own documents alone.

    A question is tried as one about series; that there is none is no gap in what the documents say of it.
    """
    kinds = {item.kind for item in episode.material if item.number in cited}
    if not episode.task.corpora or kinds != {MaterialKind.PASSAGE}:
        return list(material)
    results = [result for step in episode.steps for result in step.results]
    # A query that names its series asks for them.
    tried = [one for one in results if "question" in make_step(one.call, one.content).arguments]
    numbers = {item.number for one in tried if one.call.name == DATA for item in one.material}
    return [
        item
        for item in material
        if item.kind is not MaterialKind.MISSING
        or item.number not in numbers
        or read_facts(item)["reason"] not in NAMELESS
    ]


def read_facts(item: Material) -> dict[str, object]:
    """Return a missing item as a mapping, independent of the tool that recorded it."""
    return describe_missing(missing_to_proto(item.item) if isinstance(item.item, dict) else item.item)


def is_word_of(item: Material, question: str) -> bool:
    """Return whether an item only says that a call did not use some words of the question.

    Whether the answer leaves them open is for its comparison with the question to say; no data are missing.
    """
    said = read_facts(item)
    return said["reason"] == "NOT_UNDERSTOOD" and str(said["subject"]).casefold() in question.casefold()


def is_about_all(item: Material, question: str) -> bool:
    """Return whether an item says that no table has what the whole question asks, which a document may have."""
    said = read_facts(item)
    return said["reason"] == "NO_MATCH" and str(said["subject"]).casefold() == question.casefold()


def is_mentioned(markdown: str, item: Material) -> bool:
    """Return whether the text contains the item's subject, aspect and period, as far as they are known."""
    said = read_facts(item)
    wanted = [str(said[name]) for name in ("subject", "aspect", "period") if said[name]]
    text = markdown.casefold()
    return bool(wanted) and all(part.casefold() in text for part in wanted)


def describe(item: Material, chinese: bool) -> str:
    """Return subject, aspect, period and reason in the reader's language, with Markdown escaped."""
    said = read_facts(item)
    what = " ".join(str(said[name]) for name in ("subject", "aspect", "period") if said[name]) or "?"
    reason = REASONS.get(str(said["reason"]), ("not available", "无法取得"))[chinese]
    # That nothing matches is no reason: the source says what it lacks, by the name that a reader knows.
    reason = str(said["detail"] or reason) if said["reason"] == "NO_MATCH" else reason
    nearest = said["nearest"]
    # Of a period it is the day where the data begin or end.
    name = ("nearest data", "最近的数据") if said["reason"] == "NO_DATA_IN_PERIOD" else ("nearest", "相近")
    near = f"（{name[1]}：" if chinese else f" ({name[0]}: "
    more = (
        f"{near}{', '.join(map(str, nearest))}{'）' if chinese else ')'}"
        if isinstance(nearest, list) and nearest
        else ""
    )
    return escape_markdown(f"{what} – {reason}{more}")


def escape_markdown(text: str) -> str:
    """Return the text on one line with Markdown escaped, at most 300 characters."""
    # Subjects come from the model's calls: markup in them must not reach the page.
    return re.sub(r"([\\`*_{}\[\]<>#|])", r"\\\1", " ".join(text.split()))[:300]
