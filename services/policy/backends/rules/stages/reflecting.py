"""Reflection of the reference policy: sub-questions without results go to the other tool once."""

from __future__ import annotations

import json
import re

from fathom.protocol.pipeline import Asked
from services.policy.backends.rules.stages.rewriting import METRIC
from services.policy.backends.rules.terms import is_chinese, keywords

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
        if tool == "search" and not METRIC.search(text):
            other, wording = "search", keywords(text) or text
        wanted.setdefault(other, []).append(wording)
    return json.dumps({tool: texts[:MOST] for tool, texts in wanted.items()}, ensure_ascii=False)


def in_documents(text: str) -> str:
    """Return a look-up in the wording of research reports."""
    return f"{keywords(text) or text} 研报解读" if is_chinese(text) else f"{keywords(text) or text} report analysis"
