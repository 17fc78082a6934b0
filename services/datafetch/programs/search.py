"""Beam search for the likeliest program under the automaton of allowed tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fathom.domain.programs.automaton import State
from fathom.domain.programs.language import BEGIN, CLOSE, END, INDEX, NO_SERIES, SPAN, TOKENS, Action
from fathom.services.datafetch.programs.conversation import Stretch

BEAM = 4
# Tokens of the longest program that is searched for; the longest example has 110.
MOST_TOKENS = 120
# Programs that are finished before the search may end.
LEAST_DONE = 4
# How much length counts when finished programs are compared: by sums alone (0) the shorter one wins, leaving parts
# of a question out. Chosen on 150 questions that the reader had not seen.
LENGTH_POWER = 0.8
# Nothing that is so much less likely than the best finished program is followed further.
MARGIN = 4.0
# What may follow next differs by some hundred cases; one takes up to 8 KB, with its names.
REMEMBERED = 512
# Functions that relate two things, which are never the same: a currency has no rate in itself.
RELATING = frozenset({
    "rate", "corr", "levels_corr", "beta", "pct", "minus", "over", "share", "days", "months", "years",
})  # fmt: skip

Floats = NDArray[np.float32]


class Decoder(Protocol):
    """The network reading one question: it holds the states of the rows that are being written."""

    def advance(self, parents: Sequence[int], tokens: Sequence[int], quoted: Sequence[Stretch | None]) -> Floats:
        """Write a token behind some of the rows; return the log probabilities [rows, tokens] of the next one."""
        ...

    def find_words(self, row: int) -> tuple[float, Stretch] | None:
        """Return the words that a row quotes next and their log probability; None where there are none."""
        ...

    def link(self, row: int, stretches: Sequence[Stretch]) -> tuple[str | None, float]:
        """Return the id of the series that words of a row mean, None for none, and its probability."""
        ...


@dataclass(frozen=True)
class Path:
    """A program that is being written, or a finished one; ``score`` is the sum of its log probabilities.

    ``quoted`` are the words of the series that is being named, ``link`` is the probability of the least sure series.
    """

    score: float = 0.0
    actions: tuple[Action, ...] = ()
    state: State = field(default_factory=State)
    quoted: tuple[Stretch, ...] = ()
    link: float = 1.0

    @property
    def confidence(self) -> float:
        """Return the geometric mean of the probabilities of the tokens, with the end's."""
        return float(np.exp(self.score / (len(self.actions) + 1)))

    @property
    def merit(self) -> float:
        """Return the score by which finished programs of different lengths are compared."""
        return float(self.score / (len(self.actions) + 1) ** LENGTH_POWER)

    @property
    def repeats(self) -> bool:
        """Return whether the last finished step is one of the others: a question asks for nothing twice."""
        steps = split_steps(self.actions)
        return len(steps) > 1 and steps[-1] in steps[:-1]

    @property
    def relates_to_itself(self) -> bool:
        """Return whether the last token closes a call that relates a thing to itself."""
        name, arguments = split_last_call(self.actions)
        return name in RELATING and len(arguments) > 1 and arguments[0] == arguments[1]


@lru_cache(maxsize=REMEMBERED)
def index_tokens(allowed: frozenset[str]) -> NDArray[np.int64]:
    """Return the places of tokens, in their order."""
    return np.array(sorted(INDEX[token] for token in allowed), np.int64)


def search(decoder: Decoder, beam: int = BEAM, most: int = MOST_TOKENS) -> list[Path]:
    """Return finished programs, the likeliest first; [] when none was finished in time."""
    paths, done = [Path()], list[Path]()
    scores = decoder.advance([0], [INDEX[BEGIN]], [None])
    for _ in range(most):
        written, parents, tokens = [], [], []
        for score, row, token in choose(paths, scores, beam):
            if TOKENS[token] == END:
                done.append(replace(paths[row], score=score))
            elif (path := extend(decoder, paths[row], row, TOKENS[token], score)) is not None:
                written.append(path)
                parents.append(row)
                tokens.append(token)
        paths = written
        if not paths or is_over(paths, done):
            break
        quoted = [path.quoted[-1] if token == INDEX[SPAN] else None for path, token in zip(paths, tokens, strict=True)]
        scores = decoder.advance(parents, tokens, quoted)
    return sorted(done, key=lambda path: -path.merit)


def is_over(paths: Sequence[Path], done: Sequence[Path]) -> bool:
    """Return whether enough are finished, or no open one can become better than the best of them."""
    best = max((one.score for one in done), default=-np.inf)
    return len(done) >= LEAST_DONE or max(one.score for one in paths) < best - MARGIN


def choose(paths: Sequence[Path], scores: Floats, beam: int) -> list[tuple[float, int, int]]:
    """Return the likeliest steps of all paths as the score behind it, the path and the token, best first."""
    found = []
    for row, path in enumerate(paths):
        allowed = index_tokens(path.state.next_tokens)
        if not len(allowed):
            continue
        values = scores[row, allowed]
        best = np.argsort(-values, kind="stable")[:beam]
        found += [(path.score + float(values[at]), row, int(allowed[at])) for at in best]
    return sorted(found, reverse=True)[:beam]


def extend(decoder: Decoder, path: Path, row: int, token: str, score: float) -> Path | None:
    """Return the path behind a token, with the words or the series that it needs; None without such words."""
    action, quoted, link = Action(token), path.quoted, path.link
    if token.endswith("("):
        quoted = ()
    elif token == SPAN:
        found = decoder.find_words(row)
        if found is None:
            return None
        score, action, quoted = score + found[0], Action(token, found[1].text), (*quoted, found[1])
    elif token == CLOSE and path.state.stack[-1][0] == "series":
        target, chance = decoder.link(row, quoted)
        action, link = Action(token, target=target or NO_SERIES), min(link, chance)
    new = Path(score, (*path.actions, action), path.state.push(token), quoted, link)
    if token == CLOSE and (new.relates_to_itself or (not new.state.stack and new.repeats)):
        return None
    return new


def split_steps(actions: Sequence[Action]) -> list[tuple[Action, ...]]:
    """Return the finished steps of a program, each with its actions."""
    steps, depth, start = [], 0, 0
    for at, action in enumerate(actions):
        depth += action.token.endswith("(") - (action.token == CLOSE)
        if not depth:
            steps.append(tuple(actions[start : at + 1]))
            start = at + 1
    return steps


def split_last_call(actions: Sequence[Action]) -> tuple[str, list[list[Action]]]:
    """Return the function of the call that the last token closes, and its arguments; series are known by their ids."""
    depth, at = 1, len(actions) - 1
    while depth:
        at -= 1
        depth += (actions[at].token == CLOSE) - actions[at].token.endswith("(")
    arguments: list[list[Action]] = []
    depth = 0
    for action in name_series(actions[at + 1 : -1]):
        if not depth:
            arguments.append([])
        arguments[-1].append(action)
        depth += action.token.endswith("(") - (action.token == CLOSE)
    return actions[at].token[:-1], arguments


def name_series(actions: Sequence[Action]) -> list[Action]:
    """Return the actions without the words that name a series whose id is known."""
    found: list[Action] = []
    for action in actions:
        if action.target not in (None, NO_SERIES):
            while found[-1].token == SPAN:
                found.pop()
        found.append(action)
    return found
