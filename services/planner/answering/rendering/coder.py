"""Model calls that repair figures and read statements as typed claims, through the policy service."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from fathom.core.errors import InvalidField
from fathom.domain.chat.messages import Completion, Message, Role, Sampling, ToolSpec
from fathom.domain.chat.quoting import quote
from fathom.domain.chat.tolerant import read_object
from fathom.services.planner.answering.rendering.material import list_material
from fathom.services.planner.answering.verification.claims import Sentence
from fathom.services.planner.answering.verification.typed.claim import TypedClaim, read_claims
from fathom.services.planner.model.episode import Episode, Material, MaterialKind
from fathom.services.planner.model.interfaces import Policy
from fathom.services.planner.model.view import View

# A figure's cell and the claims of an answer are short; the limits stop a model that rambles.
CODE_TOKENS, JUDGE_TOKENS = 1_500, 8_000
# Enough for titles, columns and units, which is what a repair needs; rows would only cost time.
MATERIAL_TOKENS = 2_000
# A quotation can only be made of a document that is shown whole.
JUDGE_MATERIAL_TOKENS = 8_000
# Statements of one request: their claims must fit into the reply.
MOST_STATEMENTS = 10
# What is listed of a table's columns, and of their names.
MOST_COLUMNS, MOST_NAMES = 40, 3
UNMEASURED = frozenset({"date", "string", "timestamp[us]", "timestamp[ns]", "date32[day]"})
# The code block of a reply; models also write prose around it, which is ignored.
FENCED = re.compile(r"```(?:python|py)?[ \t]*\n(.*?)```", re.DOTALL | re.IGNORECASE)
NO_TOOLS: tuple[ToolSpec, ...] = ()


@dataclass(frozen=True)
class PolicyCoder:
    """Code repair by the role ``coder`` with the prompt ``mend``."""

    policy: Policy
    prompt: str

    async def mend(self, request_id: str, episode: Episode, code: str, traceback: str) -> str:
        """Return the code block of the reply; "" when there is none. Raises ``FathomError``."""
        said = (
            f"# Material\n{list_material(episode.material, MATERIAL_TOKENS).text}\n\n"
            f"# Code\n```python\n{code}\n```\n\n# Traceback\n{traceback[-4_000:]}"
        )
        completion = await complete_as_role(self.policy, request_id, episode, "coder", (self.prompt, said), CODE_TOKENS)
        found = FENCED.search(completion.text)
        return found.group(1).strip("\n") if found else ""


@dataclass(frozen=True)
class PolicyJudge:
    """Judge of the role ``judge`` that translates statements into typed claims."""

    policy: Policy
    prompt: str
    material_tokens: int = JUDGE_MATERIAL_TOKENS

    async def read_claims(
        self, episode: Episode, markdown: str, statements: Sequence[Sentence]
    ) -> list[TypedClaim] | None:
        """Return the claims of sentences of a text, numbered from 1; None when no reply can be read.

        A long answer is read in parts, at the same time. Raises ``FathomError``.
        """
        starts = range(0, len(statements), MOST_STATEMENTS)
        parts = [statements[start : start + MOST_STATEMENTS] for start in starts]
        readings = [self._read_part(episode, markdown, part, start) for start, part in zip(starts, parts, strict=True)]
        found = await asyncio.gather(*readings)
        read = [claims for claims in found if claims is not None]
        return [claim for claims in read for claim in claims] if read or not parts else None

    async def _read_part(
        self, episode: Episode, markdown: str, statements: Sequence[Sentence], start: int
    ) -> list[TypedClaim] | None:
        """Return the claims of some statements, with the numbers that they have among all."""
        request_id = f"{episode.task.run_id}-judge-{len(episode.steps)}-{start}"
        said = describe_statements(episode.material, markdown, statements, self.material_tokens)
        completion = await complete_as_role(
            self.policy, request_id, episode, "judge", (self.prompt, said), JUDGE_TOKENS
        )
        try:
            claims = read_claims(read_object(completion.text) or {})
        except InvalidField:
            return None
        own = [claim for claim in claims if 1 <= claim.statement <= len(statements)]
        return [replace(claim, statement=claim.statement + start) for claim in own]


def describe_statements(
    material: Sequence[Material], markdown: str, statements: Sequence[Sentence], tokens: int
) -> str:
    """Return statements with the material that they cite, as the judge reads them."""
    cited = {number for statement in statements for number in statement.cited}
    known = [item for item in material if item.number in cited]
    columns = "\n".join(line for item in known for line in describe_columns(item))
    # As written: a citation within a sentence says which part rests on what.
    texts = [" ".join(markdown[one.start : one.start + len(one.text)].split()) for one in statements]
    # A citation behind the full stop stands in the text of the next sentence.
    texts = [
        text + "".join(f" [{number}]" for number in one.cited if f"[{number}]" not in text)
        for text, one in zip(texts, statements, strict=True)
    ]
    numbered = "\n".join(f"{number}. {text}" for number, text in enumerate(texts, start=1))
    return (
        f"# Material\n{quote(list_material(known, tokens).text)}\n\n# Columns\n{quote(columns or 'none')}\n\n"
        f"# Statements\n{quote(numbered)}"
    )


def describe_columns(material: Material) -> list[str]:
    """Return a line for each column with values of a table: what a formula calls it, its unit and what it measures."""
    if material.kind is not MaterialKind.SHEET:
        return []
    return [
        f"column({material.number}, {column.name!r}): {column.unit or 'no unit'};"
        f" {', '.join([*column.entity_names[:MOST_NAMES], *column.indicator_names[:MOST_NAMES]])}"
        for column in material.item.columns[:MOST_COLUMNS]
        if column.type not in UNMEASURED
    ]


async def complete_as_role(
    policy: Policy, request_id: str, episode: Episode, role: str, said: tuple[str, str], max_tokens: int
) -> Completion:
    """Return one completion of a role's model, outside of the episode's conversation."""
    # Any version: the trained policy's version says nothing about a role's model.
    task = replace(episode.task, model=role, policy_version=0)
    view = View((Message(Role.SYSTEM, said[0]), Message(Role.USER, said[1])))
    return await policy.generate(request_id, task, view, NO_TOOLS, Sampling(max_tokens=max_tokens))
