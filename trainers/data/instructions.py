"""What a model is told before the question (row SR35): files of one version and language, like planner's prompts.

A change is a new file with the next number. ``search_r1`` is the same text as planner's own, so that a prompt of a
parquet file and a rollout through planner show a model the same bytes; a test compares them.
"""

from __future__ import annotations

import re
from importlib import resources

from fathom.errors import NotFound

FILE = re.compile(r"(?P<name>[a-z_0-9]+)\.v(?P<version>\d+)\.(?P<language>en|zh)\.md")
HEADER = re.compile(r"\A---\n.*?\n---\n", re.DOTALL)
QUESTION = {"en": "Question: ", "zh": "问题："}
MARK = {"en": "?", "zh": "？"}
ENDINGS = ("?", "？", ".", "。", "!", "！")


def instruction(name: str, language: str, version: int | None = None) -> str:
    """The text of that version, or of the newest; raises ``NotFound`` with the names that there are."""
    files = {entry.name: entry for entry in resources.files("trainers.data").joinpath("prompts").iterdir()}
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


def asked(question: str, name: str, language: str, version: int | None = None) -> str:
    """The user message: instruction, then the question, which ends in a mark."""
    return f"{instruction(name, language, version)}\n\n{QUESTION[language]}{marked(question, language)}\n"


def marked(question: str, language: str) -> str:
    """The question stripped; one that ends in no mark gets a question mark."""
    text = question.strip()
    return text if text.endswith(ENDINGS) else text + MARK[language]
