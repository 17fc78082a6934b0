"""The form in which a stage of the workflow asks a model: a line that names the stage, then sections in tags.

What stands in a section is data of others (questions, results, documents): a tag of ours in it is made neutral, so
that no content can end its section or begin another.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

HEAD = "Stage: "
REWRITE, PLAN, REFLECT, COMPOSE = "rewrite", "plan", "reflect", "compose"
STAGES = (REWRITE, PLAN, REFLECT, COMPOSE)
"""In the order in which they are played; ``rewrite`` only when the conversation has earlier turns."""
SECTIONS = (
    "history",
    "question",
    "date",
    "tools",
    "framework",
    "indicators",
    "asked",
    "guidance",
    "material",
)
SECTION = re.compile(rf"^<({'|'.join(SECTIONS)})>\n(.*?)\n</\1>$", re.DOTALL | re.MULTILINE)
TAG = re.compile(rf"<(\s*/?\s*(?:{'|'.join(SECTIONS)})\s*)>", re.IGNORECASE)


@dataclass(frozen=True)
class Asked:
    """What a stage was asked: the stage's name, and its sections by name."""

    stage: str
    sections: Mapping[str, str]

    def __getitem__(self, section: str) -> str:
        """The section's text; "" for one that is not there."""
        return self.sections.get(section, "")


def ask(stage: str, sections: Mapping[str, str]) -> str:
    """The user's message of a stage; sections without text are left out."""
    texts = {name: sections.get(name, "").strip() for name in SECTIONS}
    parts = [f"<{name}>\n{harmless(text)}\n</{name}>" for name, text in texts.items() if text]
    return "\n\n".join([f"{HEAD}{stage}", *parts])


def harmless(text: str) -> str:
    """The text with our tags in it made neutral."""
    return TAG.sub(r"‹\1›", text)


def read_ask(content: str) -> Asked | None:
    """What ``ask`` was given; None for any other message."""
    head, _, body = content.partition("\n")
    stage = head.removeprefix(HEAD).strip()
    if not head.startswith(HEAD) or stage not in STAGES:
        return None
    return Asked(stage, dict(SECTION.findall(body)))
