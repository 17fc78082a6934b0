"""Compare what a rewriter is shown of a conversation: all turns, points of all answers, or the last two in full.

``python -m tests.bench histories [FILE]``. FILE is as for ``rewriting``; without one the golden cases run. For each
policy: the share of cases all of whose expected words stand in the prompt, which bounds what any model can restore, and
the mean length of the prompts in tokens, estimated as the planner does. ``FATHOM_BENCH_BLIND_MODEL``, the base URL of an
OpenAI-compatible endpoint, adds the share of cases that it rewrites rightly, with the interval of the difference to the
policy that serves (the last two in full).
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from fathom.clients import Clients
from fathom.domain.chat.pipeline import FULL_TURNS, REWRITE, ask, format_history
from fathom.domain.intervals import bootstrap_mean
from fathom.domain.text.folding import remove_blanks
from fathom.domain.text.language import language_of
from fathom.services.planner.answering.rendering.material import estimate_tokens
from fathom.services.planner.commands.follow_ups import RIGHT, Case, judge, load_gold, read_cases
from fathom.services.planner.episode.llm import complete
from fathom.services.planner.workflow.model_rewriting import read_reply
from fathom.services.planner.workflow.rewriting import MAX_TOKENS, Reading
from fathom.trainers.data.instructions import instruction
from tests.bench.planner.blind import make_models
from tests.bench.planner.questions import local_stack

SERVED = "last two and points"
ALL_TURNS = 1_000
POLICIES: Mapping[str, int] = {"all": ALL_TURNS, "points of all": 0, SERVED: FULL_TURNS}


def make_prompt(case: Case, full_turns: int) -> str:
    """Return the rewriter's prompt of a case with so many turns in full."""
    history = format_history([(turn.question, turn.answer) for turn in case.turns], full_turns)
    return ask(REWRITE, {"history": history, "question": case.follow_up})


def has_expected(case: Case, prompt: str) -> bool:
    """Return whether everything that the rewriting has to name stands in the prompt."""
    text = remove_blanks(prompt)
    return all(any(remove_blanks(part) in text for part in one.split("|")) for one in case.expected_mentions)


async def rewrite(clients: Clients, case: Case, prompt: str) -> float:
    """Return 1.0 when the endpoint rewrites a case rightly, else 0.0."""
    system = instruction(REWRITE, language_of(case.follow_up))
    said = await complete(clients, "endpoint", system, prompt, MAX_TOKENS)
    return float(judge(case, Reading(read_reply(said, case.follow_up).question)) == RIGHT)


def describe(name: str, cases: Sequence[Case], right: Mapping[str, Sequence[float]]) -> str:
    """Return the line of a policy."""
    prompts = [make_prompt(case, POLICIES[name]) for case in cases]
    findable = sum(has_expected(case, prompt) for case, prompt in zip(cases, prompts, strict=True))
    tokens = sum(map(estimate_tokens, prompts)) / len(cases)
    line = f"{name:20} in the prompt {findable} of {len(cases)} = {findable / len(cases):.1%}, {tokens:.0f} tokens"
    if name not in right:
        return line
    share = sum(right[name]) / len(cases)
    low, high = bootstrap_mean([[one - other] for one, other in zip(right[name], right[SERVED], strict=True)])
    return f"{line}, right {share:.1%}, to what serves [{100 * low:+.1f}, {100 * high:+.1f}] points"


async def run(path: str = "") -> None:
    """Print a line per policy."""
    given = read_cases(Path(path)) if path else load_gold()
    cases = [case for case in given if not case.clarify]
    url, right = os.environ.get("FATHOM_BENCH_BLIND_MODEL", ""), dict[str, list[float]]()
    if url:
        async with local_stack(make_models(url)) as (clients, _store):
            for name, full in POLICIES.items():
                right[name] = [await rewrite(clients, case, make_prompt(case, full)) for case in cases]
    for name in POLICIES:
        print(describe(name, cases, right))
