"""Model calls that repair figures and read statements as typed claims, through the policy service."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from fathom.core.errors import InvalidField
from fathom.domain.chat.messages import Completion, Message, Role, Sampling, ToolSpec
from fathom.domain.chat.tolerant import read_object
from fathom.services.planner.answering.rendering.material import list_material
from fathom.services.planner.answering.verification.typed.claim import TypedClaim, read_claims
from fathom.services.planner.model.episode import Episode
from fathom.services.planner.model.interfaces import Policy
from fathom.services.planner.model.view import View

# A figure's cell and the claims of an answer are short; the limits stop a model that rambles.
CODE_TOKENS, JUDGE_TOKENS = 1_500, 4_000
# Enough for titles, columns and units, which is what a repair needs; rows would only cost time.
MATERIAL_TOKENS = 2_000
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
    material_tokens: int = MATERIAL_TOKENS

    async def read_claims(self, episode: Episode, statements: Sequence[str]) -> list[TypedClaim]:
        """Return the claims of statements that there are; [] when the reply cannot be read. Raises ``FathomError``."""
        numbered = "\n".join(f"{index}. {statement}" for index, statement in enumerate(statements, start=1))
        said = f"# Material\n{list_material(episode.material, self.material_tokens).text}\n\n# Statements\n{numbered}"
        request_id = f"{episode.task.run_id}-judge-{len(episode.steps)}"
        completion = await complete_as_role(
            self.policy, request_id, episode, "judge", (self.prompt, said), JUDGE_TOKENS
        )
        try:
            claims = read_claims(read_object(completion.text) or {})
        except InvalidField:
            return []
        return [claim for claim in claims if 1 <= claim.statement <= len(statements)]


async def complete_as_role(
    policy: Policy, request_id: str, episode: Episode, role: str, said: tuple[str, str], max_tokens: int
) -> Completion:
    """Return one completion of a role's model, outside of the episode's conversation."""
    # Any version: the trained policy's version says nothing about a role's model.
    task = replace(episode.task, model=role, policy_version=0)
    view = View((Message(Role.SYSTEM, said[0]), Message(Role.USER, said[1])))
    return await policy.generate(request_id, task, view, NO_TOOLS, Sampling(max_tokens=max_tokens))
