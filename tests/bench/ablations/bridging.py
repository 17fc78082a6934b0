"""A model at the network edge that knows the workflow's tools and none of the answers, for questions of two look-ups.

It plans what a first plan can: the search for what the question describes, and the whole question for the data. When it
is asked to reflect it reads the results for a company or a date near the question's own words, and asks the data again
with it. Its answer places the tables that it was given. What it says rests on what it is shown, so that it profits from
reflection exactly as far as the workflow lets it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from fathom.domain.chat.pipeline import COMPOSE, PLAN, REFLECT, Asked, read_ask
from tests.golden.ablations.schema import Bridge
from tests.integration.stack.scripted_model import TOKENIZER, ScriptedModel

# A company as documents name it: "Apple (AAPL)", "英伟达（NVDA）".
COMPANY = re.compile(r"([\w&.' -]{2,40}?)\s?[(（]([A-Z]{1,5})[)）]")
# "11 February 2016", "April 2010", "2008年9月15日".
DATE = re.compile(
    r"(?:\d{1,2} )?(?:January|February|March|April|May|June|July|August|September|October|November|December) \d{4}"
    r"|\d{4}年\d{1,2}月(?:\d{1,2}日)?"
)
# A full stop of a sentence and none of a number or an abbreviation.
SENTENCE = re.compile(r"(?<=[.。;；])\s*(?=[A-Z\u4e00-\u9fff])|\n")
TABLE = re.compile(r"^\[(\d+)\] table (\w+): ", re.MULTILINE)
LACKING = {"en": "The material has no such figure.", "zh": "材料中没有这个数字。"}


class BridgingModel(ScriptedModel):
    """Answers the stages of a workflow for known questions; any other request gets an empty text."""

    def __init__(self, bridges: Sequence[Bridge]) -> None:
        super().__init__()
        self.bridges = {bridge.question: bridge for bridge in bridges}

    def answer(self, body: Mapping[str, Any]) -> tuple[dict[str, Any], str, int]:
        """Return the stage's text; one of a correction is the same again."""
        messages = body["messages"]
        asked = next((found for one in messages if (found := read_ask(str(one["content"]))) is not None), None)
        bridge = self.bridges.get(asked["question"]) if asked is not None else None
        text = write_stage(asked, bridge) if asked is not None and bridge is not None else ""
        tokens = len(TOKENIZER.encode(json.dumps(messages, ensure_ascii=False)))
        return {"content": text}, "stop", tokens


def write_stage(asked: Asked, bridge: Bridge) -> str:
    """Return the text of a stage."""
    if asked.stage == PLAN:
        queries = [{"tool": "search", "subquery": bridge.search}, {"tool": "data", "subquery": bridge.question}]
        return json.dumps(queries, ensure_ascii=False)
    if asked.stage == REFLECT:
        found = find_gap(asked["asked"], bridge)
        return json.dumps({"data": [bridge.then.format(found)]} if found else {}, ensure_ascii=False)
    if asked.stage == COMPOSE:
        placed = [f"{{{{table:{name}}}}} [{number}]" for number, name in TABLE.findall(asked["material"])]
        return "\n\n".join(placed) or LACKING[bridge.language]
    return asked["question"]


def find_gap(results: str, bridge: Bridge) -> str:
    """Return the company or the date that the results say near the question's own words; "" where they do not.

    The name is the last one before those words, since a document begins with whom it is about; the date is that of
    their own sentence.
    """
    start = results.casefold().find(bridge.clue.casefold())
    while start >= 0:
        if bridge.gap == "company":
            if named := COMPANY.findall(results[:start]):
                return str(named[-1][0]).strip(" -'.")
        elif dates := DATE.findall(cut_sentence(results, start)):
            return str(dates[-1])
        start = results.casefold().find(bridge.clue.casefold(), start + 1)
    return ""


def cut_sentence(text: str, place: int) -> str:
    """Return the sentence around a place."""
    ends = [0, *(found.end() for found in SENTENCE.finditer(text)), len(text)]
    return text[max(end for end in ends if end <= place) : min(end for end in ends if end > place)]
