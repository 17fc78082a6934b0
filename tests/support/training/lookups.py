"""A small verifiable search task over a closed vocabulary: the value of an entity's attribute, stated in a document.

The answer is not in the question, so a search is required: a query of attribute and entity finds the document, whose
digit is the answer. Held-out questions combine words seen in other combinations. Does not import torch.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fathom.domain.chat.tags import information_block
from fathom.trainers.data.comparison import SYSTEM_PROMPT, Task

ATTRIBUTES = ("price", "volume", "margin", "yield", "rating", "growth")
ENTITIES = ("amber", "birch", "cedar", "delta", "ember", "fjord", "grove", "heron")
DIGITS = tuple("0123456789")
SHOWN = 3
"""Documents per search, the number that the planner requests."""


@dataclass(frozen=True)
class Lookup:
    """A fact, from which a document, a question and a query are derived."""

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
        """Return the document's full text."""
        # Retrieval never shows the whole of a document, so there must be more than the sentence.
        return f"{self.sentence} The register says nothing else of it."

    @property
    def task(self) -> Task:
        return Task(self.id, f"what is {self.attribute} of {self.entity}", (self.value,))

    @property
    def query(self) -> str:
        return f"{self.attribute} {self.entity}"


def lookups(seed: int = 7) -> list[Lookup]:
    """Draw a value for each attribute of each entity with ``seed``: 48 facts."""
    chooser = random.Random(seed)
    return [Lookup(attribute, entity, chooser.choice(DIGITS)) for attribute in ATTRIBUTES for entity in ENTITIES]


def format_documents(facts: Sequence[Lookup]) -> str:
    """Format documents as the planner's search_r1 protocol shows them."""
    return "\n".join(f"Doc {number}(Title: {fact.title}) {fact.sentence}" for number, fact in enumerate(facts, start=1))


def find_documents(query: str, facts: Sequence[Lookup]) -> list[Lookup]:
    """Return the best documents by number of shared words, like a lexical index; ties keep the order of ``facts``."""
    words = set(query.split())
    # Sorting is stable: equal numbers of words keep the order of the facts, as a snapshot's index keeps its documents'.
    ranked = sorted(facts, key=lambda fact: -len(words & {fact.attribute, fact.entity}))
    return [fact for fact in ranked if words & {fact.attribute, fact.entity}][:SHOWN]


def vocabulary() -> list[str]:
    """Return every word of questions, documents and answers, split at whitespace."""
    # The tokenizer splits at whitespace alone, so that punctuation belongs to the word before it.
    words = {SYSTEM_PROMPT, *["what", "is", "of"], *ATTRIBUTES, *ENTITIES, *DIGITS, "<information>Doc", "Doc", "."}
    words |= {f"{entity})" for entity in ENTITIES} | {f"{number}(Title:" for number in range(1, SHOWN + 1)}
    words |= {".</information>", "<information></information>"}
    return [*sorted(words), "<answer>", "</answer>", "<search>", "</search>"]


Message = Mapping[str, str]


def build_search(fact: Lookup, facts: Sequence[Lookup], given: str = "") -> list[Message]:
    """Build a conversation that searches and answers correctly; its search begins with the context ``given``."""
    return [
        *opening(fact),
        {"role": "assistant", "content": f"<search> {fact.query} </search>", "given": given},
        {"role": "user", "content": information_block(format_documents(find_documents(fact.query, facts)))},
        {"role": "assistant", "content": f"<answer> {fact.value} </answer>"},
    ]


def build_guess(fact: Lookup, digit: str) -> list[Message]:
    """Build a conversation that answers without searching."""
    return [*opening(fact), {"role": "assistant", "content": f"<answer> {digit} </answer>"}]


def opening(fact: Lookup) -> list[Message]:
    """Return the system prompt and the question."""
    return [{"role": "system", "content": SYSTEM_PROMPT}, {"role": "user", "content": fact.task.question}]


def lessons(ids: Sequence[str], count: int, seed: int, share: float = 0.15) -> list[list[Message]]:
    """Generate conversations for a warm start.

    Half of them teach searching and reading, given the beginning of a search as context. The others react to the
    question itself: with probability ``share`` they search, otherwise they guess uniformly. A model that imitates them
    is able to do the task but rarely does, so searching remains to be learned from reward. Only facts in ``ids`` are
    asked for.
    """
    chooser, known = random.Random(seed), set(ids)
    given = []
    for number in range(count):
        # Values differ between lessons, so that there is nothing to memorise.
        world = lookups(seed * 1_000_003 + number)
        fact = chooser.choice([fact for fact in world if fact.id in known])
        if number % 2:
            given.append(build_search(fact, world, "<search>"))
        elif chooser.random() < share:
            given.append(build_search(fact, world))
        else:
            given.append(build_guess(fact, chooser.choice(DIGITS)))
    return given
