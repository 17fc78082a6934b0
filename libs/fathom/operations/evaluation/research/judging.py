"""Grading of reports by a language model behind the policy service: by criteria, and citation by citation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from fathom.api.policy.v1 import policy_pb2 as policy
from fathom.clients import Clients
from fathom.clients.completions import read_completion
from fathom.core.errors import DependencyFailed, FathomError
from fathom.core.ids import new_id
from fathom.domain.chat.messages import Message, Role
from fathom.domain.chat.proto import message_to_proto
from fathom.domain.text.markup import CITATION
from fathom.operations.evaluation.research import citing, criteria
from fathom.operations.evaluation.research.citing import Report, Verdict
from fathom.operations.evaluation.research.tasks import DIMENSIONS, ReportTask

T = TypeVar("T")
# A reply that cannot be read is sent back with its fault once.
ROUNDS, MAX_TOKENS, REPLY_S = 2, 4_000, 600.0
REFERENCE_POLICY = "rules"


@dataclass(frozen=True)
class Judge:
    """Language model that grades; ``model`` is its own name and no role's."""

    clients: Clients
    model: str

    async def score_criteria(self, task: ReportTask, report: Report) -> dict[str, float]:
        """Return the scores of a report by dimension and in all; raise ``FathomError``."""
        # The authors grade a report without its citations, which FACT is about.
        text, scores = CITATION.sub("", report.answer), dict[str, list[criteria.Entry]]()
        for dimension in DIMENSIONS:
            parse = partial(
                criteria.parse_scores,
                count=len(task.rubric.criterions[dimension]),
                is_compared=bool(task.reference),
            )
            prompt = criteria.make_prompt(task, dimension, text)
            scores[dimension] = await self._ask(criteria.make_system(task), prompt, parse)
        return criteria.weigh_scores(task.rubric, scores)

    async def check_citations(self, report: Report) -> list[Verdict]:
        """Return the verdicts on all pairs of a statement and a source that it cites; raise ``FathomError``."""
        found: list[Verdict] = []
        for number, statements in citing.pair_sources(report).items():
            source = report.sources[number]
            if not source:
                found += ["unknown"] * len(statements)
                continue
            for start in range(0, len(statements), citing.BATCH):
                part = statements[start : start + citing.BATCH]
                parse = partial(citing.parse_verdicts, count=len(part))
                found += await self._ask(citing.SYSTEM, citing.make_prompt(source, part), parse)
        return found

    async def _ask(self, system: str, text: str, parse: Callable[[str], T | str]) -> T:
        messages, wrong = [Message(Role.SYSTEM, system), Message(Role.USER, text)], ""
        for attempt in range(ROUNDS):
            request = policy.GenerateRequest(
                request_id=new_id("judge"),
                model=self.model,
                messages=[message_to_proto(message) for message in messages],
                sampling=policy.Sampling(max_tokens=MAX_TOKENS, seed=1 + attempt),
                without_deltas=True,
            )
            said = await read_completion(self.clients, request, lambda one: one.text, timeout_s=REPLY_S)
            found = parse(said)
            if not isinstance(found, str):
                return found
            wrong = found
            # The model sees its reply and the fault, as it repeats the mistake otherwise.
            fault = f"That cannot be read: {wrong}. Reply with the JSON object alone."
            messages = [*messages, Message(Role.ASSISTANT, said), Message(Role.USER, fault)]
        raise DependencyFailed("judge", f"no reply could be read in {ROUNDS}: {wrong}")


async def find_judge(clients: Clients, name: str) -> Judge | str:
    """Return the judge behind the name of a model or role, or the reason why there is none."""
    try:
        found = (await clients.policy.get_model(policy.GetModelRequest(model=name))).model
    except FathomError as error:
        return error.message
    if found.engine == REFERENCE_POLICY:
        return f"{name!r} is the reference policy, which is no language model"
    return Judge(clients, found.name)
