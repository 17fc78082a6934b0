"""Examples of questions with their programs, and variations of them for training."""

from __future__ import annotations

import json
import random
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fathom.core.errors import CorruptData, InvalidField
from fathom.core.ids import content_hash
from fathom.domain.programs.automaton import State
from fathom.domain.programs.language import (
    CLOSE,
    NO_SERIES,
    OPEN_SERIES,
    REFERENCE,
    SPAN,
    SPECIAL,
    Action,
    list_actions,
    parse,
)
from fathom.services.datafetch.catalog.text import is_chinese

# How often two questions are joined to one, and how often one that is not stays as it is.
JOINED, KEPT = 0.12, 0.35
# How often a stretch of words is left as it is, and the fewest others that may stand in its place.
UNSWAPPED, LEAST_POOL = 0.4, 5
# Actions of a program that is short enough to be joined to another one.
SHORT = 25
PERIODS = frozenset({
    "within", "between", "after", "before", "at", "start", "end", "days", "months", "years", "real",
})  # fmt: skip
NUMBERS = {
    **dict.fromkeys(("count_if", "share_if", "first_if", "last_if", "longest", "neg", "sharpe"), "level"),
    "average": "average", "top": "top", "bottom": "top", "grow": "grow",
}  # fmt: skip
MONTH = re.compile(r"[A-Z][a-z]+ |月")

Kind = tuple[object, ...]


@dataclass(frozen=True)
class Example:
    """Questions of a conversation, of which the last has a program."""

    id: str
    language: str
    texts: tuple[str, ...]
    actions: tuple[Action, ...]


@dataclass(frozen=True)
class Swap:
    """Words of an example that others of their kind may replace; ``target`` is the series that they name."""

    kind: str
    text: str
    target: str | None = None


def load_examples(folder: Path) -> list[Example]:
    """Return the examples of all files of a folder; raise ``CorruptData`` naming file and line of a wrong one."""
    found = []
    for path in sorted(folder.glob("*.jsonl")):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if not line.strip():
                continue
            try:
                found.append(parse_example(json.loads(line)))
            except (ValueError, KeyError, InvalidField) as error:
                raise CorruptData(f"{path.name}:{number}", str(error)) from error
    return found


def parse_example(row: Mapping[str, object]) -> Example:
    """Return an example; raise ``InvalidField("program")`` for a program that the language does not have."""
    turns = row.get("turns") or []
    assert isinstance(turns, list)
    texts = (*map(str, turns), str(row["question"]))
    actions, state = tuple(list_actions(parse(str(row["program"])))), State()
    for action in actions:
        if action.token not in state.next_tokens:
            raise InvalidField("program", f"{action.token!r} may not stand there")
        if action.text is not None and not any(action.text in text for text in texts):
            raise InvalidField("program", f"{action.text!r} is not in the question")
        state = state.push(action.token)
    return Example(str(row.get("id", "")), str(row.get("language", "en")), texts, actions)


def hash_examples(examples: Iterable[Example]) -> str:
    """Return a hash of questions and programs."""
    return content_hash([[*one.texts, *([a.token, a.text, a.target] for a in one.actions)] for one in examples])


def list_swaps(actions: Sequence[Action]) -> Iterator[Swap]:
    """Yield what may be replaced: names of series in one stretch of words, periods and numbers."""
    calls: list[str] = []
    for at, action in enumerate(actions):
        if action.token.endswith("("):
            calls.append(action.token[:-1])
        elif action.token == CLOSE:
            calls.pop()
        elif action.token == SPAN and action.text is not None:
            name = calls[-1]
            if name == "series" and actions[at - 1].token == OPEN_SERIES and actions[at + 1].token == CLOSE:
                yield Swap("series", action.text, actions[at + 1].target)
            elif name in PERIODS:
                yield Swap("period", action.text)
            elif name in NUMBERS:
                yield Swap(f"number-{NUMBERS[name]}", action.text)


class Augmenter:
    """Varies examples: other names, periods and numbers of the same kind, and two short questions as one."""

    def __init__(self, examples: Sequence[Example], currencies: Iterable[str], seed: int = 1) -> None:
        """``currencies`` are the ids of series that are rates of exchange."""
        self._examples, self._currencies, self._random = examples, frozenset(currencies), random.Random(seed)
        self._pool: dict[Kind, list[Swap]] = defaultdict(list)
        for example in examples:
            for swap in list_swaps(example.actions):
                self._pool[self._classify(swap)].append(swap)

    def vary(self, example: Example) -> Example:
        """Return the example or a variation of it."""
        if self._random.random() < JOINED and is_joinable(example):
            other = self._random.choice(self._examples)
            if is_joinable(other) and other.language == example.language:
                return join(example, other)
        if self._random.random() < KEPT:
            return example
        return replace_words(example, self._choose_swaps(example))

    def _choose_swaps(self, example: Example) -> dict[str, Swap]:
        chosen: dict[str, Swap] = {}
        for swap in list_swaps(example.actions):
            text = swap.text
            if text in chosen or self._random.random() < UNSWAPPED:
                continue
            is_single = sum(one.count(text) for one in example.texts) == 1
            if not is_single or any(text in other or other in text for other in chosen):
                continue
            pool = self._pool[self._classify(swap)]
            if len(pool) >= LEAST_POOL:
                new = self._random.choice(pool)
                if not any(new.text in one for one in example.texts):
                    chosen[text] = new
        return chosen

    def _classify(self, swap: Swap) -> Kind:
        """Return what words that may replace each other have in common."""
        text = swap.text
        if swap.kind == "series":
            target = swap.target or NO_SERIES
            group = (
                NO_SERIES if target == NO_SERIES
                else "currency" if target in self._currencies
                else "traded" if target.isupper()
                else "statistic"
            )  # fmt: skip
            return swap.kind, group, is_chinese(text), len(text.split()) > 2
        if swap.kind == "period":
            form = re.sub(r"\d+", "0", text) if len(text) < 8 else "long"
            return swap.kind, is_chinese(text), form, bool(MONTH.search(text))
        return swap.kind, is_chinese(text), any(char.isdigit() for char in text)


def is_joinable(example: Example) -> bool:
    """Return whether another question may stand beside an example: it is short and needs nothing around it."""
    tokens = [action.token for action in example.actions]
    is_plain = not any(REFERENCE.fullmatch(token) or token[:-1] in SPECIAL for token in tokens)
    return is_plain and len(example.texts) == 1 and len(tokens) < SHORT


def join(first: Example, second: Example) -> Example:
    """Return two questions as one."""
    # Two questions in one message are two programs, one behind the other.
    between = "" if first.language == "zh" else " "
    text = first.texts[0] + between + second.texts[0]
    return Example(first.id, first.language, (text,), (*first.actions, *second.actions))


def replace_words(example: Example, swaps: Mapping[str, Swap]) -> Example:
    """Return an example with other words; itself where they would be cut out of longer ones."""
    quoted = {action.text for action in example.actions if action.text is not None}
    if any(old in text and old != text for old in swaps for text in quoted):
        return example
    texts = example.texts
    for old, new in swaps.items():
        texts = tuple(text.replace(old, new.text) for text in texts)
    actions, target = [], None
    for action in example.actions:
        if action.text is not None and action.text in swaps:
            swap = swaps[action.text]
            target = swap.target
            actions.append(Action(action.token, swap.text))
        elif action.token == CLOSE and action.target is not None:
            actions.append(Action(CLOSE, target=target or action.target))
            target = None
        else:
            target = None if action.token == OPEN_SERIES else target
            actions.append(action)
    # A new name may hold another word that was to be replaced.
    if not all(action.text is None or any(action.text in text for text in texts) for action in actions):
        return example
    return Example(example.id, example.language, texts, tuple(actions))
