"""The reference policy as an editor of prompts, so that the way from an issue to a new version can be tried offline.

It understands neither the prompt nor the issue: each issue is added as a thing to avoid, for a person to rewrite.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from fathom.domain.chat.messages import Message, Role
from fathom.domain.text.language import language_of
from fathom.domain.tool_results import parse_object
from fathom.services.policy.backends.rules.authoring import load_wording

TITLE = "fathom.prompt.draft"
PROMPT = re.compile(r"^<prompt>\n(.*)\n</prompt>$", re.MULTILINE | re.DOTALL)
# The list of issues, up to the next empty line.
ISSUES = re.compile(r"^What went wrong:\n((?:- .*\n)+)", re.MULTILINE)


def draft_reply(schema_json: str, messages: Sequence[Message]) -> str | None:
    """Return a draft of a prompt that names each issue; None when the schema or the request is no draft's."""
    if (parse_object(schema_json) or {}).get("title") != TITLE:
        return None
    asked = next((message.content for message in messages if message.role is Role.USER), "")
    prompt, listed = PROMPT.search(asked), ISSUES.search(asked)
    if prompt is None or listed is None:
        return None
    body, issues = prompt.group(1), [line.removeprefix("- ") for line in listed.group(1).splitlines()]
    form = load_wording()["avoided"][language_of(body)]
    lines = [form.format(text=issue) for issue in issues]
    reasons = [f"by rules: it is named as a thing to avoid, and nothing else is changed: {issue}" for issue in issues]
    return json.dumps({"prompt": "\n".join([body, *lines]), "reasons": reasons}, ensure_ascii=False)
