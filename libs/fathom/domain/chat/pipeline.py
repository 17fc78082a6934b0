"""Message format with which a workflow stage asks a model: a line naming the stage, then sections in tags.

Section contents are untrusted data (questions, results, documents): our tags in them are neutralised, so that no
content can end its section or begin another.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fathom.domain.chat.quoting import neutral, shorten

HEAD = "Stage: "
# A follow-up mostly refers to the last two turns.
FULL_TURNS, MAX_ANSWER_CHARS = 2, 6_000
REWRITE, PLAN, REFLECT, COMPOSE = "rewrite", "plan", "reflect", "compose"
# In execution order; rewrite only when the conversation has earlier turns.
STAGES = (REWRITE, PLAN, REFLECT, COMPOSE)
SECTIONS = (
    "history",
    "question",
    "date",
    "tools",
    "framework",
    "indicators",
    "asked",
    "guidance",
    "memory",
    "material",
)
# Only tags alone on their line delimit a section: "<question>", its text, "</question>".
SECTION = re.compile(rf"^<({'|'.join(SECTIONS)})>\n(.*?)\n</\1>$", re.DOTALL | re.MULTILINE)
# Any spelling of our tags that a model could take for one, such as "< / Question >".
TAG = re.compile(rf"<(\s*/?\s*(?:{'|'.join(SECTIONS)})\s*)>", re.IGNORECASE)

FROM_MEMORY = {
    "en": "(From memory, not a source: no number may rest on it.)",
    "zh": "（来自记忆，并非来源：不得以此为数字依据。）",
}
"""First line of the answer of a recalled turn, by language."""
# How ``format_history`` begins a turn.
TURN_HEAD = re.compile(r"^Q(\d{1,3}): (.*)\nA\1(?: \(points\))?:\n", re.MULTILINE)


@dataclass(frozen=True)
class Asked:
    """A parsed stage request: the stage's name, and its sections by name."""

    stage: str
    sections: Mapping[str, str]

    def __getitem__(self, section: str) -> str:
        """Return the section's text, "" if it is absent."""
        return self.sections.get(section, "")


def ask(stage: str, sections: Mapping[str, str]) -> str:
    """Return the user message of a stage; sections without text are omitted."""
    texts = {name: sections.get(name, "").strip() for name in SECTIONS}
    parts = [f"<{name}>\n{harmless(text)}\n</{name}>" for name, text in texts.items() if text]
    return "\n\n".join([f"{HEAD}{stage}", *parts])


def harmless(text: str) -> str:
    """Return the text with our tags in it neutralised."""
    return TAG.sub(r"‹\1›", text)


def read_ask(content: str) -> Asked | None:
    """Parse a message made by ``ask``; return None for any other message."""
    head, _, body = content.partition("\n")
    stage = head.removeprefix(HEAD).strip()
    if not head.startswith(HEAD) or stage not in STAGES:
        return None
    return Asked(stage, dict(SECTION.findall(body)))


def format_history(turns: Sequence[tuple[str, str]], full_turns: int = FULL_TURNS) -> str:
    """Return questions with their answers, oldest first: the last ``full_turns`` in full, older ones as points.

    Questions are in their rewritten form. Memory already provides bullet points for older turns; an older answer in
    full is cut to its first lines.
    """
    lines = []
    for number, (asked, answered) in enumerate(turns, start=1):
        full = number > len(turns) - full_turns
        said = shorten(answered, MAX_ANSWER_CHARS) if full else extract_points(answered)
        lines.append(f"Q{number}: {' '.join(asked.split())}\nA{number}{'' if full else ' (points)'}:\n{neutral(said)}")
    return "\n\n".join(lines)


def parse_history(text: str) -> list[tuple[str, str]]:
    """Return questions and answers of a text that ``format_history`` made, answers as they stand there."""
    heads: list[re.Match[str]] = []
    for head in TURN_HEAD.finditer(text):
        # Turns are counted from 1: another number is an answer's own words.
        if int(head[1]) == len(heads) + 1:
            heads.append(head)
    ends = [head.start() for head in heads[1:]] + [len(text)]
    return [(head[2], text[head.end() : end].strip()) for head, end in zip(heads, ends, strict=False)]


def extract_points(answer: str) -> str:
    """Return the bullet points of an older answer, or its first lines when it has none.

    The line that says that a turn was recalled stays in front of them.
    """
    lines = [line.strip() for line in answer.splitlines() if line.strip()]
    marks = [line for line in lines[:1] if line in FROM_MEMORY.values()]
    lines = lines[len(marks) :]
    bullets = [line for line in lines if line.startswith("- ")]
    return "\n".join([*marks, *(bullets or [f"- {shorten(line, 200)}" for line in lines[:3]])])
