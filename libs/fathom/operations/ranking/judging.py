"""Judging of pairings by the reward service, a few at a time; what was judged before is not asked again."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from fathom.api.reward.v1 import reward_pb2 as reward
from fathom.clients import Clients
from fathom.core.errors import InvalidField
from fathom.operations.ranking.matches import GRADES, Match, MatchJournal, Pairing

STYLES: Mapping[str, reward.JudgeStyle] = {
    "pairwise": reward.JUDGE_STYLE_PAIRWISE,
    "rubric": reward.JUDGE_STYLE_RUBRIC,
    "direct": reward.JUDGE_STYLE_DIRECT,
}
# Self-principled critique tuning (SPCT) is where the rubric's order is from: principles first, then critiques, scores.
OTHER_NAMES: Mapping[str, str] = {"spct": "rubric"}
# Pairs of one call and calls at a time: what is lost when the process dies is at most this many.
BATCH, AT_ONCE = 8, 4
JUDGE_S = 600.0


@dataclass(frozen=True)
class Rule:
    """Way in which pairs are judged: ``method`` is pairwise, rubric with its other name spct, or direct.

    ``direct`` scores each answer by itself; the grade of a pair follows from the difference. ``votes`` are per order, 0
    for the server's own.
    """

    method: str = "pairwise"
    votes: int = 0

    def __post_init__(self) -> None:
        if self.method not in STYLES and self.method not in OTHER_NAMES:
            raise InvalidField("method", f"{self.method!r} is none of {', '.join([*STYLES, *OTHER_NAMES])}")
        if self.votes < 0:
            raise InvalidField("votes", "is below 0")

    @property
    def style(self) -> reward.JudgeStyle:
        """Return the judge's style."""
        return STYLES[OTHER_NAMES.get(self.method, self.method)]

    @property
    def name(self) -> str:
        # By the style's own name, so that nothing is judged again under another name.
        return f"{OTHER_NAMES.get(self.method, self.method)}/{self.votes}"


@dataclass
class Round:
    """The matches of a round robin, and why pairings were not judged."""

    matches: list[Match] = field(default_factory=list)
    failed: Counter[str] = field(default_factory=Counter)


async def judge_all(clients: Clients, pairings: Sequence[Pairing], rule: Rule, journal: MatchJournal) -> Round:
    """Judge what the journal does not have; return all matches in the order of the pairings.

    An empty answer loses without a judge, and two are even. A pair that the judge could not grade is counted, is not
    guessed, and is asked again next time. Raises ``FathomError`` when the judge is away.
    """
    known, gate, done = journal.read(), asyncio.Semaphore(AT_ONCE), Round()
    # By key, so that a pairing that stands twice in the files is judged once.
    fresh = {pairing.make_key(rule.name): pairing for pairing in pairings}
    open_pairs = [(key, pairing) for key, pairing in fresh.items() if key not in known]

    async def judge(batch: Sequence[tuple[str, Pairing]]) -> None:
        async with gate:
            matches = await judge_batch(clients, batch, rule, done.failed)
        # Before anything else may fail: what is paid for is kept.
        journal.append(matches)
        known.update({match.key: match for match in matches})

    batches = [open_pairs[start : start + BATCH] for start in range(0, len(open_pairs), BATCH)]
    tasks = [asyncio.create_task(judge(batch)) for batch in batches]
    try:
        # Not a task group, which would wrap the error of a judge that is away.
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
    done.matches = [known[key] for key in fresh if key in known]
    return done


async def judge_batch(
    clients: Clients, batch: Sequence[tuple[str, Pairing]], rule: Rule, failed: Counter[str]
) -> list[Match]:
    """Return the matches of a few pairings; count those without a grade by reason."""
    matches, asked = list[Match](), list[tuple[str, Pairing]]()
    for key, pairing in batch:
        if pairing.left_answer and pairing.right_answer:
            asked.append((key, pairing))
            continue
        ahead = bool(pairing.left_answer) - bool(pairing.right_answer)
        grade = {1: GRADES["good"], 0: GRADES["even"], -1: GRADES["bad"]}[ahead]
        reason = "one did not answer" if ahead else "neither answered"
        matches.append(Match(key, pairing.question, pairing.left, pairing.right, grade, reason))
    if not asked:
        return matches
    request = reward.JudgePairsRequest(
        pairs=[
            reward.Pair(question=pairing.question, left=pairing.left_answer, right=pairing.right_answer)
            for _, pairing in asked
        ],
        style=rule.style,
        votes=rule.votes,
    )
    response = await clients.reward.judge_pairs(request, timeout_s=JUDGE_S)
    for (key, pairing), found in zip(asked, response.judgements, strict=True):
        # Not an even grade, which would count as evidence that neither is better.
        if found.grade == reward.GRADE_UNSPECIFIED:
            failed[found.reason or "the judge said nothing"] += 1
            continue
        matches.append(
            Match(
                key, pairing.question, pairing.left, pairing.right, int(found.grade), found.reason,
                response.judge_version,
            )
        )  # fmt: skip
    return matches
