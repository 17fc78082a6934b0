"""Reflection of the reference policy: sub-questions without results go to the other tool once."""

from __future__ import annotations

import json
import re

from fathom.domain.chat.pipeline import Asked
from fathom.services.policy.backends.rules.stages.focus import METRIC
from fathom.services.policy.backends.rules.terms import is_chinese, keywords

ASKED = re.compile(r"^\d+\. \[(\w+)\] (.*) => (ok|empty|failed|invalid)$", re.MULTILINE)
MOST = 3
READING = re.compile(r", reading of the report$| report analysis$|(?:研报)?解读$")


def supplement(asked: Asked) -> str:
    """Return a JSON object by tool; empty when every sub-question found something."""
    sent = ASKED.findall(asked["asked"])
    wanted: dict[str, list[str]] = {}
    for tool, text, status in sent:
        if status == "ok":
            continue
        other, wording = ("search", in_documents(text)) if tool == "data" else ("data", READING.sub("", text))
        # Without a measure the data tool could not help; other words may.
        if tool == "search" and not METRIC.search(text):
            other, wording = "search", keywords(text) or text
        wanted.setdefault(other, []).append(wording)
    return json.dumps({tool: texts[:MOST] for tool, texts in wanted.items()}, ensure_ascii=False)


def in_documents(text: str) -> str:
    """Return a look-up in the wording of research reports."""
    return f"{keywords(text) or text} 研报解读" if is_chinese(text) else f"{keywords(text) or text} report analysis"
