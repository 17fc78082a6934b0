"""Conversion of the prompt catalogue to the contract."""

from __future__ import annotations

import json

from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.core.errors import InvalidField
from fathom.services.planner.prompts.catalogue import Prompt
from fathom.services.planner.prompts.selection import Prompts


def list_prompts(prompts: Prompts, stage: str = "") -> pb.ListPromptsResponse:
    """Return the prompts of a stage, "" for all, in order; raise ``InvalidField("stage")`` for an unknown one."""
    found = [prompt for prompt in prompts.catalogue if stage in ("", prompt.header.stage)]
    if not found:
        raise InvalidField("stage", "has no prompts")
    found.sort(key=lambda prompt: (*variant_of(prompt), prompt.header.language, prompt.header.version))
    return pb.ListPromptsResponse(
        prompts=[prompt_to_proto(prompt, in_use=is_in_use(prompt, prompts)) for prompt in found]
    )


def variant_of(prompt: Prompt) -> tuple[str, str]:
    """Return stage and variant of a prompt."""
    return prompt.header.stage, prompt.header.name


def is_in_use(prompt: Prompt, prompts: Prompts) -> bool:
    """Return whether runs take this version that name none, in its language and variant."""
    stage, name = variant_of(prompt)
    return prompts.find_usual(stage, prompt.header.language, name).id == prompt.id


def prompt_to_proto(prompt: Prompt, *, in_use: bool) -> pb.PromptFile:
    """Return a prompt as the contract has it."""
    header = prompt.header
    return pb.PromptFile(
        id=prompt.id,
        stage=header.stage,
        name=header.name,
        version=header.version,
        language=header.language,
        output=header.output,
        body=prompt.body,
        sha256=prompt.sha256,
        in_use=in_use,
        issues=header.issues,
        few_shot=header.few_shot,
        output_schema="" if header.output_schema is None else json.dumps(header.output_schema, ensure_ascii=False),
    )
