"""A small verifiable tool task over a closed vocabulary: what a document says of an attribute of an entity.

The answer stands nowhere in the question, so that it must be searched: a query of attribute and entity finds the
document, and its digit is the answer. Held-out questions combine words that were seen in other combinations. No
torch here.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fathom.protocol.tags import information_block
from trainers.tasks import SYSTEM_PROMPT, Task

ATTRIBUTES = ("price", "volume", "margin", "yield", "rating", "growth")
ENTITIES = ("amber", "birch", "cedar", "delta", "ember", "fjord", "grove", "heron")
DIGITS = tuple("0123456789")
SHOWN = 3
"""Documents per search, as planner asks for."""


@dataclass(frozen=True)
class Lookup:
    """A fact, which is a document, a question and a query at once."""

    attribute: str
    entity: str
    value: str

    @property
    def id(self) -> str:
        return f"{self.attribute}-{self.entity}"

    @property
    def title(self) -> str:
        return f"{self.attribute} {self.entity}"

    @property
    def sentence(self) -> str:
        return f"{self.attribute} {self.entity} is {self.value} ."

    @property
    def text(self) -> str:
        """What retrieval shows of a document is never the whole of it: there must be more than the sentence."""
        return f"{self.sentence} The register says nothing else of it."

    @property
    def task(self) -> Task:
        return Task(self.id, f"what is {self.attribute} of {self.entity}", (self.value,))

    @property
    def query(self) -> str:
        return f"{self.attribute} {self.entity}"


def lookups(seed: int = 7) -> list[Lookup]:
    """A value for each attribute of each entity, drawn with ``seed``: 48 facts."""
    chooser = random.Random(seed)
    return [Lookup(attribute, entity, chooser.choice(DIGITS)) for attribute in ATTRIBUTES for entity in ENTITIES]


def shown(facts: Sequence[Lookup]) -> str:
    """Documents as planner's search_r1 protocol shows them."""
    return "\n".join(f"Doc {number}(Title: {fact.title}) {fact.sentence}" for number, fact in enumerate(facts, start=1))


def found(query: str, facts: Sequence[Lookup]) -> list[Lookup]:
    """The best documents by words in common, as a word index ranks them; ties in the facts' order."""
    words = set(query.split())
    ranked = sorted(facts, key=lambda fact: -len(words & {fact.attribute, fact.entity}))
    return [fact for fact in ranked if words & {fact.attribute, fact.entity}][:SHOWN]


def vocabulary() -> list[str]:
    """Every word of questions, documents and answers, as a split at blanks gives them."""
    words = {SYSTEM_PROMPT, *["what", "is", "of"], *ATTRIBUTES, *ENTITIES, *DIGITS, "<information>Doc", "Doc", "."}
    words |= {f"{entity})" for entity in ENTITIES} | {f"{number}(Title:" for number in range(1, SHOWN + 1)}
    words |= {".</information>", "<information></information>"}
    return [*sorted(words), "<answer>", "</answer>", "<search>", "</search>"]


Message = Mapping[str, str]


def searched(fact: Lookup, facts: Sequence[Lookup], given: str = "") -> list[Message]:
    """A conversation that searches and answers rightly; ``given`` is what its search begins with as context."""
    return [
        *opening(fact),
        {"role": "assistant", "content": f"<search> {fact.query} </search>", "given": given},
        {"role": "user", "content": information_block(shown(found(fact.query, facts)))},
        {"role": "assistant", "content": f"<answer> {fact.value} </answer>"},
    ]


def guessed(fact: Lookup, digit: str) -> list[Message]:
    """A conversation that answers at once."""
    return [*opening(fact), {"role": "assistant", "content": f"<answer> {digit} </answer>"}]


def opening(fact: Lookup) -> list[Message]:
    """System prompt and question."""
    return [{"role": "system", "content": SYSTEM_PROMPT}, {"role": "user", "content": fact.task.question}]


def lessons(ids: Sequence[str], count: int, seed: int, share: float = 0.15) -> list[list[Message]]:
    """Conversations for a warm start.

    Half teach how to search and to read, once a search has begun. The others show what to do with a question: with
    probability ``share`` to search, else to guess, uniformly. A model that imitates them can do the task, and rarely
    does: to search is what is left to be learnt by reward. Only the facts of ``ids`` are asked for, and each lesson
    has values of its own, so that there is nothing to remember.
    """
    chooser, known = random.Random(seed), set(ids)
    given = []
    for number in range(count):
        world = lookups(seed * 1_000_003 + number)
        fact = chooser.choice([fact for fact in world if fact.id in known])
        if number % 2:
            given.append(searched(fact, world, "<search>"))
        elif chooser.random() < share:
            given.append(searched(fact, world))
        else:
            given.append(guessed(fact, chooser.choice(DIGITS)))
    return given
