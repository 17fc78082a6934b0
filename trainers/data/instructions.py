"""Instructions shown to a model before the question: one file per name, version and language.

A change is a new file with the next version number. ``search_r1`` is the planner's own text, so that a prompt of a
parquet file and a rollout through the planner show a model the same bytes; a test compares them.
"""

from __future__ import annotations

import re
from importlib import resources

from fathom.core.errors import NotFound

# The names of instruction files, such as search_r1.v2.en.md; anything else in the folder is no instruction.
FILE = re.compile(r"(?P<name>[a-z_0-9]+)\.v(?P<version>\d+)\.(?P<language>en|zh)\.md")
HEADER = re.compile(r"\A---\n.*?\n---\n", re.DOTALL)
QUESTION = {"en": "Question: ", "zh": "问题："}
MARK = {"en": "?", "zh": "？"}
ENDINGS = ("?", "？", ".", "。", "!", "！")


def instruction(name: str, language: str, version: int | None = None) -> str:
    """Return the text of that version, or of the newest; raises ``NotFound`` with the available names."""
    files = {entry.name: entry for entry in resources.files("fathom.trainers.data").joinpath("prompts").iterdir()}
    found = {
        int(match["version"]): match.string
        for match in map(FILE.fullmatch, files)
        if match and (match["name"], match["language"]) == (name, language)
    }
    chosen = version if version is not None else max(found, default=0)
    if chosen not in found:
        wanted = f"{name}.v{version or 1}.{language}"
        raise NotFound("instruction", wanted, sorted(file for file in files if FILE.fullmatch(file)))
    return HEADER.sub("", files[found[chosen]].read_text(encoding="utf-8")).strip()


def format_question(question: str, name: str, language: str, version: int | None = None) -> str:
    """Build the user message: the instruction, then the question with a closing punctuation mark."""
    return f"{instruction(name, language, version)}\n\n{QUESTION[language]}{punctuate(question, language)}\n"


def punctuate(question: str, language: str) -> str:
    """Strip the question and add a question mark unless it already ends in punctuation."""
    text = question.strip()
    return text if text.endswith(ENDINGS) else text + MARK[language]
