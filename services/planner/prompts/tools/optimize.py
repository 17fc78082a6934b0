"""Model-written drafts of a prompt's next version, based on production issues.

A draft is only a proposal: it must pass the same rules as every prompt and is compared on questions before a person
releases it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import jsonschema

from fathom.core.errors import DependencyFailed, FathomError
from fathom.domain.chat.tolerant import read_object
from fathom.services.planner.prompts.catalogue import Catalogue, Prompt, read_prompt
from fathom.services.planner.prompts.tools.lint import RULES, Problem

# A model that has failed thrice with the problems listed does not succeed later.
ATTEMPTS = 3
# By this title of its schema the reference policy knows a request for a draft.
TITLE = "fathom.prompt.draft"


class Writer(Protocol):
    """Model that completes a system prompt and a user message; raises ``FathomError``."""

    async def __call__(self, system: str, text: str) -> str: ...


@dataclass(frozen=True)
class Draft:
    """A draft as a prompt file; ``problems`` is empty when it follows every rule."""

    file: str
    text: str
    reasons: tuple[str, ...]
    problems: tuple[Problem, ...]


async def optimize(catalogue: Catalogue, prompt: Prompt, issues: Sequence[str], writer: Writer) -> Draft:
    """Draft the next version of ``prompt``.

    Drafts with problems are returned to the model, up to ``ATTEMPTS`` attempts. Raises ``DependencyFailed("policy")``
    when no reply is a draft.
    """
    instruction = catalogue.find("optimize", "en")
    schema = instruction.header.output_schema or {}
    text = format_request(prompt, issues)
    draft: Draft | None = None
    for _ in range(ATTEMPTS):
        reply = read_object(await writer(instruction.render(), text))
        said = next(iter(jsonschema.Draft202012Validator(schema).iter_errors(reply)), None)
        if reply is None or said is not None:
            text += (
                f"\n\nYour last reply was not the JSON object that was asked for: {said.message if said else 'no JSON'}"
            )
            continue
        draft = build_draft(
            catalogue, prompt, str(reply["prompt"]), [str(reason) for reason in reply["reasons"]], issues
        )
        if not draft.problems:
            return draft
        wrong = "\n".join(f"- {problem.rule}: {problem.text}" for problem in draft.problems)
        text += f"\n\nYour last draft breaks these rules; mend them:\n{wrong}"
    # A draft that breaks rules is still returned: a person corrects it.
    if draft is None:
        raise DependencyFailed("policy", f"gave no draft in {ATTEMPTS} attempts")
    return draft


def build_schema(catalogue: Catalogue) -> str:
    """Return the JSON schema of a draft, for engines that guide their sampling by it."""
    schema = catalogue.find("optimize", "en").header.output_schema or {}
    return json.dumps({"title": TITLE, **schema}, sort_keys=True)


def format_request(prompt: Prompt, issues: Sequence[str]) -> str:
    """Return the user message for the model that writes the draft."""
    wrong = "\n".join(f"- {issue}" for issue in issues)
    # The first line of a rule's docstring is what the model reads.
    rules = "\n".join(f"- {(rule.__doc__ or '').splitlines()[0]}" for rule in RULES)
    return f"Prompt {prompt.id}:\n<prompt>\n{prompt.body}\n</prompt>\n\nWhat went wrong:\n{wrong}\n\nRules:\n{rules}"


def build_draft(
    catalogue: Catalogue, prompt: Prompt, body: str, reasons: Sequence[str], issues: Sequence[str]
) -> Draft:
    """Return the file of the next version with its problems; an unreadable draft has its parse error as its problem."""
    header = prompt.header
    # The number after the newest version, not after the improved one: released numbers are never used again.
    version = catalogue.find(header.stage, header.language, header.name).header.version + 1
    fields = header.model_dump(by_alias=True, exclude_defaults=True) | {"version": version, "issues": list(issues)}
    lines = "\n".join(f"{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in fields.items())
    text = f"---\n{lines}\n---\n{body.strip()}\n"
    name = ".".join([header.stage, *([header.name] if header.name else []), f"v{version}", header.language, "md"])
    try:
        made = read_prompt(name, text)
    except FathomError as error:
        return Draft(name, text, tuple(reasons), (Problem(name, "released", error.message),))
    problems = tuple(problem for rule in RULES for problem in rule(made))
    if made.body == prompt.body:
        problems = (*problems, Problem(made.id, "released", "is the same text as before"))
    return Draft(name, text, tuple(reasons), problems)
