"""Instructions shown to a model before the question: one file per name, version and language.

A change is a new file with the next version number. ``search_r1`` is the planner's own text, so that a prompt of a
parquet file and a rollout through the planner show a model the same bytes; a test compares them.
"""

from __future__ import annotations

import re
from importlib import resources
from importlib.resources.abc import Traversable

from fathom.core.errors import NotFound

# The names of instruction files, such as search_r1.v2.en.md; anything else in the folder is no instruction.
FILE = re.compile(r"(?P<name>[a-z_0-9]+)\.v(?P<version>\d+)\.(?P<language>en|zh)\.md")
HEADER = re.compile(r"\A---\n.*?\n---\n", re.DOTALL)
QUESTION = {"en": "Question: ", "zh": "问题："}
MARK = {"en": "?", "zh": "？"}
ENDINGS = ("?", "？", ".", "。", "!", "！")


def instruction(name: str, language: str, version: int | None = None) -> str:
    """Return the text of that version, or of the newest; raises ``NotFound`` with the available names."""
    file = f"{name_instruction(name, language, version)}.md"
    return HEADER.sub("", open_folder().joinpath(file).read_text(encoding="utf-8")).strip()


def name_instruction(name: str, language: str, version: int | None = None) -> str:
    """Return name, version and language of an instruction, as rows name it; raises ``NotFound``."""
    files = [entry.name for entry in open_folder().iterdir() if FILE.fullmatch(entry.name)]
    found = {
        int(match["version"])
        for match in map(FILE.fullmatch, files)
        if match and (match["name"], match["language"]) == (name, language)
    }
    chosen = version if version is not None else max(found, default=0)
    if chosen not in found:
        raise NotFound("instruction", f"{name}.v{version or 1}.{language}", sorted(files))
    return f"{name}.v{chosen}.{language}"


def open_folder() -> Traversable:
    """Return the folder of the instruction files."""
    return resources.files("fathom.trainers.data").joinpath("prompts")


def format_question(question: str, name: str, language: str, version: int | None = None) -> str:
    """Build the user message: the instruction, then the question with a closing punctuation mark."""
    return f"{instruction(name, language, version)}\n\n{QUESTION[language]}{punctuate(question, language)}\n"


def punctuate(question: str, language: str) -> str:
    """Strip the question and add a question mark unless it already ends in punctuation."""
    text = question.strip()
    return text if text.endswith(ENDINGS) else text + MARK[language]
