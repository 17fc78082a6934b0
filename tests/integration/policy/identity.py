"""Random conversations with tools, played as the planner plays them: ids go back verbatim, masks and log-probs add up."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from fathom.core.ids import new_id
from fathom.domain.chat.messages import Completion, Message, Role, Sampling, ToolFormat, ToolSpec
from fathom.services.policy.engine import Engine
from fathom.services.policy.model import Request

WORDS = ("fox", "hen", "the", "引号", "la", "search", "</tool_call>", "<|im_end|>", "🦊", "ten\n", "é", "den")
TOOLS = (ToolSpec("search", "finds documents", '{"type": "object"}'), ToolSpec("finish", "ends", "{}"))
SCORED_AT_ONCE = 16


@dataclass
class Trajectory:
    """One conversation as a trainer gets it; ``turns`` are the completions by the seeds that sampled them."""

    temperature: float
    ids: list[int] = field(default_factory=list)
    mask: list[int] = field(default_factory=list)
    log_probs: list[float] = field(default_factory=list)
    turns: dict[int, Completion] = field(default_factory=dict)


@dataclass(frozen=True)
class Agreement:
    """Measure how well recomputed log-probabilities agree with those of the sampling, over all sampled ids."""

    conversations: int
    sampled: int
    greatest: float
    mean: float
    ambiguous: int
    """Conversations whose text has other ids when it is encoded again."""


async def converse(engine: Engine, seed: int) -> Trajectory:
    """A conversation of two to four turns; everything about it follows from the seed."""
    chance = random.Random(seed)
    trajectory = Trajectory(chance.choice((0.7, 1.6, 2.0)))
    messages = [Message(Role.SYSTEM, draw_words(chance))] if chance.random() < 0.5 else []
    messages.append(Message(Role.USER, chance.choice(("short", "call", "tag", draw_words(chance)))))
    tools, covered = TOOLS if chance.random() < 0.5 else (), 0
    for turn in range(chance.randint(2, 4)):
        sampling = Sampling(
            temperature=trajectory.temperature,
            top_p=chance.choice((1.0, 0.95)),
            max_tokens=chance.randint(3, 24),
            stop=chance.choice(((), ("</search>", "en"))),
            seed=1 + seed * 8 + turn,
        )
        request = Request(
            new_id("identity"), "", tuple(messages), tuple(trajectory.ids), covered, tools,
            chance.choice((ToolFormat.HERMES, ToolFormat.TAGS)), sampling,
        )  # fmt: skip
        completion = [item async for item in engine.generate(request, lambda: None)][-1]
        assert isinstance(completion, Completion)
        trajectory.turns[sampling.seed] = completion
        rendered, sampled = completion.prompt_token_ids, completion.sampled_token_ids
        trajectory.ids += [*rendered, *sampled]
        trajectory.mask += [0] * len(rendered) + [1] * len(sampled)
        trajectory.log_probs += [0.0] * len(rendered) + list(completion.log_probs)
        messages.append(Message(Role.ASSISTANT, completion.text, completion.tool_calls))
        covered = len(messages)
        answers = [Message(Role.TOOL, draw_words(chance), tool_call_id=call.id) for call in completion.tool_calls]
        messages += answers or [Message(chance.choice((Role.USER, Role.TOOL)), draw_words(chance))]
    return trajectory


def draw_words(chance: random.Random) -> str:
    return " ".join(chance.choice(WORDS) for _ in range(chance.randint(1, 8)))


async def conversations(engine: Engine, count: int, at_once: int) -> list[Trajectory]:
    """``count`` conversations, ``at_once`` at a time."""
    gate = asyncio.Semaphore(at_once)

    async def one(seed: int) -> Trajectory:
        async with gate:
            return await converse(engine, seed)

    return list(await asyncio.gather(*(one(seed) for seed in range(count))))


async def agreement(engine: Engine, trajectories: Sequence[Trajectory]) -> Agreement:
    """Scores every trajectory anew, at its temperature, and compares where the mask is 1."""
    differences: list[float] = []
    ambiguous = 0
    for temperature in sorted({item.temperature for item in trajectories}):
        alike = [item for item in trajectories if item.temperature == temperature]
        for start in range(0, len(alike), SCORED_AT_ONCE):
            part = alike[start : start + SCORED_AT_ONCE]
            scores, _ = await engine.score("", [item.ids for item in part], temperature)
            for item, row in zip(part, scores, strict=True):
                known = zip(row, item.log_probs, item.mask, strict=True)
                differences += [abs(score - own) for score, own, masked in known if masked]
                again = await engine.tokenize("", (), (), False, await engine.detokenize("", item.ids))
                ambiguous += again != item.ids
    mean = sum(differences) / len(differences)
    return Agreement(len(trajectories), len(differences), max(differences), mean, ambiguous)
