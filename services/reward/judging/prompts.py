"""The judge's prompt files: ``judge.<style>.v<version>.<language>.md`` with a YAML header."""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib import resources
from typing import Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from fathom.core.errors import CorruptData, NotFound
from fathom.core.ids import sha256

Language = Literal["en", "zh"]
HEADER = re.compile(r"\A---\n(.*?)\n---\n", re.DOTALL)


class Header(BaseModel):
    """Header of a prompt file; must agree with the file's name."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    stage: Literal["judge"]
    name: str
    version: int = Field(ge=1)
    language: Language
    output: Literal["json"]
    top: int = Field(ge=1)
    """Highest score of its scale."""

    @property
    def id(self) -> str:
        return f"{self.stage}.{self.name}.v{self.version}.{self.language}"


@dataclass(frozen=True)
class Prompt:
    """A prompt file."""

    header: Header
    body: str

    @property
    def version(self) -> str:
        """Return the id and the start of the text's checksum."""
        # With the checksum, cached votes of a prompt that was edited in place are not mixed up.
        return f"{self.header.id}#{sha256(self.body.encode())[:8]}"


class Prompts:
    """The package's prompts; raises ``CorruptData`` naming a malformed file."""

    def __init__(self) -> None:
        entries = resources.files("fathom.services.reward.prompts").iterdir()
        self._prompts = [
            read_prompt(entry.name, entry.read_text(encoding="utf-8"))
            for entry in sorted(entries, key=lambda entry: entry.name)
            # The folder is a package: it holds __init__.py, too.
            if entry.name.endswith(".md")
        ]

    def find(self, name: str, language: Language, version: int = 0) -> Prompt:
        """Return that version, or for 0 the newest; raise ``NotFound``."""
        fitting = [
            prompt
            for prompt in self._prompts
            if (prompt.header.name, prompt.header.language) == (name, language)
            and version in (0, prompt.header.version)
        ]
        if not fitting:
            known = sorted(prompt.header.id for prompt in self._prompts)
            raise NotFound("prompt", f"judge.{name}.v{version}.{language}", known)
        return max(fitting, key=lambda prompt: prompt.header.version)


def read_prompt(file: str, text: str) -> Prompt:
    """Parse a prompt file.

    Raises ``CorruptData`` for a header that is missing, malformed, or contradicts the file's name.
    """
    found = HEADER.match(text)
    try:
        header = Header.model_validate(yaml.safe_load(found.group(1)) if found else None)
    except (yaml.YAMLError, ValidationError) as error:
        raise CorruptData(file, str(error)) from error
    assert found is not None
    # Versions are cited by id; a file renamed without its header would be another prompt under an old name.
    if f"{header.id}.md" != file:
        raise CorruptData(file, f"its header says {header.id}")
    return Prompt(header, text[found.end() :].strip())
