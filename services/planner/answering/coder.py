"""The models that mend an answer's figures and judge its events: the policy service under other roles."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from fathom.protocol.messages import Completion, Message, Role, Sampling, ToolSpec
from services.planner.answering.material import listing
from services.planner.model import Episode
from services.planner.window.view import View

if TYPE_CHECKING:
    from services.planner.loop import Policy

CODE_TOKENS, JUDGE_TOKENS = 1_500, 800
MATERIAL_TOKENS = 2_000
FENCED = re.compile(r"```(?:python|py)?[ \t]*\n(.*?)```", re.DOTALL | re.IGNORECASE)
MEND = (
    "You mend Python that draws one plotly figure. The sheets that are listed are pandas DataFrames under their names."
    " Reply with the whole mended cell in one fenced Python block, the figure as its last expression, and nothing else."
)
JUDGE = (
    "You compare statements with material. For each numbered statement say whether the material says that event."
    ' Reply with one JSON object: {"unsupported": [numbers of statements that the material does not say]}.'
)
NO_TOOLS: tuple[ToolSpec, ...] = ()


@dataclass(frozen=True)
class PolicyCoder:
    """Asks the role ``coder`` once."""

    policy: Policy

    async def mend(self, request_id: str, episode: Episode, code: str, traceback: str) -> str:
        """The code inside the reply; "" when there is none. Raises ``FathomError``."""
        said = (
            f"# Material\n{listing(episode.material, MATERIAL_TOKENS).text}\n\n"
            f"# Code\n```python\n{code}\n```\n\n# Traceback\n{traceback[-4_000:]}"
        )
        completion = await ask(self.policy, request_id, episode, "coder", (MEND, said), CODE_TOKENS)
        found = FENCED.search(completion.text)
        return found.group(1).strip("\n") if found else ""


@dataclass(frozen=True)
class PolicyJudge:
    """Asks the role ``judge`` which statements the material does not say."""

    policy: Policy

    async def unsupported(self, episode: Episode, statements: Sequence[str]) -> frozenset[int]:
        """Positions of statements, from 0; empty when the reply cannot be read. Raises ``FathomError``."""
        numbered = "\n".join(f"{index}. {statement}" for index, statement in enumerate(statements, start=1))
        said = f"# Material\n{listing(episode.material, MATERIAL_TOKENS).text}\n\n# Statements\n{numbered}"
        request_id = f"{episode.task.run_id}-judge-{len(episode.steps)}"
        completion = await ask(self.policy, request_id, episode, "judge", (JUDGE, said), JUDGE_TOKENS)
        found = re.search(r"\{.*\}", completion.text, re.DOTALL)
        try:
            named = json.loads(found.group())["unsupported"] if found else []
            return frozenset(int(number) - 1 for number in named if 1 <= int(number) <= len(statements))
        except (ValueError, TypeError, KeyError):
            return frozenset()


async def ask(
    policy: Policy, request_id: str, episode: Episode, role: str, said: tuple[str, str], max_tokens: int
) -> Completion:
    """One completion of a role's model, outside of the episode's own conversation."""
    task = replace(episode.task, model=role, policy_version=0)
    view = View((Message(Role.SYSTEM, said[0]), Message(Role.USER, said[1])))
    return await policy.generate(request_id, task, view, NO_TOOLS, Sampling(max_tokens=max_tokens))
