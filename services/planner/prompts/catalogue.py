"""Prompt registry: one file per stage, name, version and language; a change is a new version.

A file is ``<stage>[.<name>].v<version>.<language>.md`` with a YAML header. Its body may hold blocks of examples; a
render draws some of them by a seed. Equal seeds give equal bytes, so that engines can cache the prefix.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from fathom.core.errors import CorruptData, InvalidField, NotFound
from fathom.core.ids import sha256
from fathom.domain.text.numerals import ONE_TO_TEN

Language = Literal["en", "zh"]
# `answer.conclusion.v1.en.md`: stage, optional variant, version, language.
FILE = re.compile(r"(?P<stage>[a-z_0-9]+)(?:\.(?P<name>[a-z_0-9]+))?\.v(?P<version>\d+)\.(?P<language>en|zh)\.md")
# YAML between two lines of three dashes at the beginning of the file.
HEADER = re.compile(r"\A---\n(.*?)\n---\n", re.DOTALL)
# Blocks of examples, from which a render picks some.
EXAMPLES = re.compile(r'<examples name="([^"]+)" pick="(\d+)">\n(.*?)\n</examples>', re.DOTALL)
# One example of a block.
EXAMPLE = re.compile(r'<example case="(good|bad)" layout="([a-z]+)">\n(.*?)\n</example>', re.DOTALL)
AUTO_NUMBER = re.compile(r"^#\. ", re.MULTILINE)
# Drawn at random, so that a model does not take one style for part of the task.
NUMBERINGS = ("{n}. ", "({n}) ", "{n}) ", "（{zh}）")


class PromptHeader(BaseModel):
    """YAML header of a prompt file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    stage: str
    name: str = ""
    """Variant of a stage that has several."""
    version: int = Field(ge=1)
    language: Language
    output: Literal["json", "xml", "tool_calls", "tags", "markdown"]
    """Output format expected of the model."""
    few_shot: bool = False
    """True when the body holds examples; ``lint`` allows them in certain stages only."""
    issues: tuple[str, ...] = ()
    """Links to production issues that this version fixes."""
    output_schema: dict[str, Any] | None = Field(default=None, alias="schema")
    """JSON schema of a ``json`` output."""


@dataclass(frozen=True)
class Example:
    """One example; ``case`` is "good" or "bad", ``layout`` its format."""

    case: str
    layout: str
    text: str


@dataclass(frozen=True)
class Prompt:
    """A prompt file."""

    header: PromptHeader
    body: str

    @property
    def id(self) -> str:
        """Return the id, e.g. ``answer.conclusion.v1.en``."""
        return format_prompt_id(self.header.stage, self.header.name, self.header.version, self.header.language)

    @property
    def sha256(self) -> str:
        return sha256(self.body.encode())

    @property
    def examples(self) -> dict[str, tuple[Example, ...]]:
        """Return the examples by the name of their block."""
        return {
            name: tuple(Example(*found) for found in EXAMPLE.findall(block))
            for name, _, block in EXAMPLES.findall(self.body)
        }

    def render(self, seed: int = 0) -> str:
        """Return the text for a model with examples drawn by ``seed``; equal seeds give equal bytes."""
        # A generator of its own: the global one would give other examples to each render.
        draw = random.Random(f"{self.id}:{seed}")  # noqa: S311 - repeatable by its seed

        def block(match: re.Match[str]) -> str:
            examples = [Example(*found) for found in EXAMPLE.findall(match.group(3))]
            return "\n\n".join(
                draw_example(example, draw) for example in pick_examples(examples, int(match.group(2)), draw)
            )

        return EXAMPLES.sub(block, self.body).strip()


def format_prompt_id(stage: str, name: str, version: int, language: str) -> str:
    return ".".join([stage, *([name] if name else []), f"v{version}", language])


def pick_examples(examples: Sequence[Example], count: int, draw: random.Random) -> list[Example]:
    """Return ``count`` examples in random order: a good and a bad one first, then unused layouts."""
    rest = draw.sample(list(examples), len(examples))
    chosen: list[Example] = []
    for wanted in ("good", "bad"):
        found = next((example for example in rest if example.case == wanted), None)
        if found is not None and len(chosen) < count:
            chosen.append(found)
            rest.remove(found)
    while rest and len(chosen) < count:
        used = {example.layout for example in chosen}
        chosen.append(next((example for example in rest if example.layout not in used), rest[0]))
        rest.remove(chosen[-1])
    return chosen


def draw_example(example: Example, draw: random.Random) -> str:
    """Return the example with a random numbering style."""
    style, count = draw.choice(NUMBERINGS), 0

    def number(match: re.Match[str]) -> str:
        nonlocal count
        count += 1
        return style.format(n=count, zh=ONE_TO_TEN[(count - 1) % len(ONE_TO_TEN)])

    return AUTO_NUMBER.sub(number, example.text)


class Catalogue:
    """Prompts of several folders; a later folder can add prompts but never change existing ones."""

    def __init__(self, prompts: Iterable[Prompt]) -> None:
        self._prompts: dict[str, Prompt] = {}
        for prompt in prompts:
            # A run names its prompts by id; the same id with another text would make its record false.
            known = self._prompts.setdefault(prompt.id, prompt)
            if known.body != prompt.body:
                raise CorruptData(prompt.id, "two files with this id differ; a change is a new version")

    def __iter__(self) -> Iterator[Prompt]:
        return iter(self._prompts.values())

    def get(self, wanted: str) -> Prompt:
        """Return the prompt of an id; raise ``NotFound`` with similar ids."""
        if wanted not in self._prompts:
            near = [known for known in self._prompts if known.split(".")[0] == wanted.split(".")[0]]
            raise NotFound("prompt", wanted, sorted(near or self._prompts))
        return self._prompts[wanted]

    def find(self, stage: str, language: str, name: str = "", version: int = 0) -> Prompt:
        """Return that version, or the newest for 0; in English if the language is missing. Raises ``NotFound``."""
        # English stands in for a language that has no file: models follow instructions in English whatever the
        # question's language.
        for tongue in dict.fromkeys((language, "en")):
            fitting = [
                prompt
                for prompt in self._prompts.values()
                if (prompt.header.stage, prompt.header.name, prompt.header.language) == (stage, name, tongue)
                and version in (0, prompt.header.version)
            ]
            if fitting:
                return max(fitting, key=lambda prompt: prompt.header.version)
        raise NotFound("prompt", format_prompt_id(stage, name, version, language), sorted(self._prompts))

    def names(self, stage: str) -> list[str]:
        """Return the variants of a stage, sorted."""
        return sorted({prompt.header.name for prompt in self._prompts.values() if prompt.header.stage == stage})


def load_catalogue(own: Path | None = None) -> Catalogue:
    """Load the packaged prompts and those of a user's folder.

    Raises ``CorruptData`` with the file's name, and ``InvalidField("prompt_dir")`` for a missing folder.
    """
    if own is not None and not own.is_dir():
        raise InvalidField("prompt_dir", f"{own} is no folder")
    packaged = resources.files("fathom.services.planner.prompts")
    found = {
        entry.name: entry.read_text(encoding="utf-8") for entry in packaged.iterdir() if entry.name.endswith(".md")
    }
    prompts = [read_prompt(name, text) for name, text in sorted(found.items())]
    if own is not None:
        prompts += [read_prompt(file.name, file.read_text(encoding="utf-8")) for file in sorted(own.glob("*.md"))]
    return Catalogue(prompts)


def read_prompt(file: str, text: str) -> Prompt:
    """Parse a prompt file.

    Raise ``CorruptData`` for a missing or invalid header, or one that contradicts the file name.
    """
    header, named = HEADER.match(text), FILE.fullmatch(file)
    if header is None or named is None:
        raise CorruptData(file, "is not <stage>[.<name>].v<version>.<language>.md with a header between two ---")
    try:
        values = yaml.safe_load(header.group(1))
        read = PromptHeader.model_validate(values)
    except (yaml.YAMLError, ValidationError) as error:
        raise CorruptData(file, str(error)) from error
    if format_prompt_id(read.stage, read.name, read.version, read.language) != file.removesuffix(".md"):
        raise CorruptData(file, "the header names another stage, name, version or language than the file")
    return Prompt(read, text[header.end() :].strip())
