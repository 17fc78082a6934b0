"""Training examples of the classifiers, and the groupings in which their labels are asked for."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from fathom.core.errors import CorruptData
from fathom.core.ids import content_hash

FOLDER = Path(__file__).parent / "examples"
ROUTE, CHART, TOOL, CLAUSE, FORM, MEASURE = "route", "chart", "tool", "clause", "form", "measure"
FACT, SUBJECT = "fact", "subject"
HEADS = (ROUTE, CHART, TOOL, CLAUSE)
FILES: Mapping[str, tuple[str, ...]] = {
    "heads.json": HEADS,
    "form.json": (FORM,),
    "measure.json": (MEASURE,),
    "fact.json": (FACT,),
    "subject.json": (SUBJECT,),
}
"""Heads by the file of their weights."""
# Files of examples by the end of their names: the first ones, those of more styles, of answers, and of other authors.
PARTS = ("", "_styles", "_registers", "_answers", "_authors")
# Clauses of answers are what the head reads, patterns are not: each counts as often as a pattern's variants, about.
WEIGHTS = {"_answers": 3}
BRACES = re.compile(r"\{(\w+)\}")
# Stands for a number or a date, of which no classifier needs to know the digits.
GAP = "…"
VARIANTS = 4
# Events and motives are an open class: their patterns are filled more often.
VARIANTS_OF = {CLAUSE: 8}
LASTING = "lasting"
ROUTED, EVIDENCE, KIND, SUPPORT, LAYOUT, ABOUT = "routed", "evidence", "kind", "support", "layout", "about"
QUANTITY, PREMISE = "quantity", "premise"
# What could support a clause: a table or a calculation, a document only, or nothing but the answer itself.
MEASURED, EXPLAINED, OWN = "measured", "explained", "own"
REPORT, BRIEF = "report", "answer"
# Labels of sentences that say nothing lasting, and of those that say anything else than a preference.
NO_FACT, STATEMENT, REQUEST = "none", "statement", "request"
FACTS = (
    NO_FACT,
    STATEMENT,
    REQUEST,
    "currency",
    "units",
    "language",
    "depth_quick",
    "depth_deep",
    "colours",
    "decimals",
)
# Subject of a question: the data that there are, the program and its accounts, or what the data are about.
DATA, PRODUCT, OTHER = "data", "product", "other"
# Questions are what most sentences are: so many of the router's stand for them.
EVERY_NTH_QUESTION = 4
NEEDED, NOT_NEEDED, NO_CHART = "needed", "not_needed", "none"

SCENES = {
    "data_query": "data_query",
    "table_query": "table_query",
    "customer_service": "customer_service",
    **dict.fromkeys(("chat", "term", "edit", "coverage", "research", "follow_up"), "question_answering"),
}
MODES = {
    **dict.fromkeys(("data_query", "table_query", "customer_service", "chat", "term", "edit"), "direct"),
    "coverage": "workflow",
    "research": "research",
    # What stands behind a fragment is known once it is made whole; by itself it takes the agent.
    "follow_up": "research",
}
# Scene and mode are chosen together: added up apart, the halves of two answers can win over a look-up.
ROUTES = {label: f"{scene} {MODES[label]}" for label, scene in SCENES.items()}
# Greetings, general terms, work on the previous answer and questions of the product are answered without a source.
NEEDS = {
    **dict.fromkeys(("chat", "term", "edit", "customer_service"), NOT_NEEDED),
    **dict.fromkeys(("data_query", "table_query", "coverage", "research", "follow_up"), NEEDED),
}
# What moved is one quantity, whichever way the question says that it went.
QUANTITIES = {
    **dict.fromkeys(("return", "rise", "fall", "change"), "return"),
    **dict.fromkeys(("max", "min"), "extreme"),
    **{name: name for name in ("cagr", "max_drawdown", "volatility", "sharpe", "correlation", "beta")},
    **{name: name for name in ("crossover", "portfolio", "real", "mean", "spread", "growth", "count", "recovery")},
    **{name: name for name in ("level", "none", "other")},
}
# A clause on a fall takes it for granted that there was one.
PREMISES = {"rise": "rise", "fall": "fall"}
GROUPS: Mapping[str, Mapping[str, Mapping[str, str]]] = {
    ROUTE: {ROUTED: ROUTES, EVIDENCE: NEEDS, KIND: {label: label for label in SCENES}},
    CHART: {},
    TOOL: {},
    MEASURE: {QUANTITY: QUANTITIES, PREMISE: {label: PREMISES.get(label, "") for label in QUANTITIES}},
    FORM: {LAYOUT: {label: label for label in (REPORT, BRIEF)}},
    SUBJECT: {ABOUT: {label: label for label in (DATA, PRODUCT, OTHER)}},
    FACT: {LASTING: {label: label for label in (*FACTS, "watch_list")}},
    CLAUSE: {SUPPORT: {label: label for label in (MEASURED, EXPLAINED, OWN)}},
}
"""Groupings by head; a head without any has one, in which each label is its own group."""
PRECISION = {
    # Of the requests below its threshold no more than half are right, seen by an author who is left out.
    ROUTED: 0.905,
    EVIDENCE: 0.985,
    KIND: 0.95,
    SUPPORT: 0.985,
    LAYOUT: 0.98,
    QUANTITY: 0.88,
    PREMISE: 0.96,
    # A fact that nobody said is worse than one that has to be said again.
    LASTING: 0.9,
    # A question of the market that is handed off gets no answer at all.
    ABOUT: 0.95,
}
"""Share of sure outcomes that are right on held-out examples. An answer without evidence that needed some is worse
than a look-up too many; so is a report in seven sections for who asked for a number."""

IDLE: Mapping[str, tuple[str, float]] = {LASTING: (NO_FACT, 0.8), ABOUT: (OTHER, 0.9)}
"""Label by grouping after which nothing is done, and its share of what is read where the examples have another one:
then the other outcomes are what must be right."""
BY_AUTHOR = (FACT,)
"""Heads whose held-out examples are by authors that they have not seen: a fold of the same voice flatters them."""


@dataclass(frozen=True)
class Example:
    """A text with its label; those of one ``source``, a pattern or a text, are never on both sides of a fold.

    ``author`` is the end of the name of its file.
    """

    text: str
    label: str
    language: str
    source: str
    author: str = field(default="", compare=False)


def load_examples(head: str) -> list[Example]:
    """Return the examples of a head; raise ``CorruptData`` for a file that is not label, language, list of texts."""
    found: list[Example] = []
    for part in PARTS:
        name, before = f"{head}{part}", len(found)
        if not part or (FOLDER / f"{name}.yaml").exists():
            texts = [Example(text, label, language, text) for label, language, text in read_texts(f"{name}.yaml")]
            found += texts * WEIGHTS.get(part, 1)
        if (FOLDER / f"{name}_patterns.yaml").exists():
            patterns = read_texts(f"{name}_patterns.yaml")
            found += [
                one
                for place, row in enumerate(patterns)
                for one in fill_pattern(place, *row, VARIANTS_OF.get(head, VARIANTS))
            ]
        found[before:] = [replace(one, author=part) for one in found[before:]]
    if head == CLAUSE:
        found += split_measured(found)
    if head == FACT:
        asked = [one for one in load_examples(ROUTE) if one.source == one.text]
        found += [replace(one, label=NO_FACT) for one in asked[::EVERY_NTH_QUESTION]]
    if head == SUBJECT:
        routed = [(one, PRODUCT if one.label == "customer_service" else OTHER) for one in load_examples(ROUTE)]
        found += [replace(one, label=label) for one, label in routed]
    if head == CHART:
        # Most questions ask for no chart: those of the router show what such questions look like.
        files = [f"{ROUTE}{part}_charts.yaml" for part in PARTS]
        drawn = {source: label for file in files if (FOLDER / file).exists() for label, _, source in read_texts(file)}
        found += [replace(one, label=drawn.get(one.source, NO_CHART)) for one in load_examples(ROUTE)]
    return found


def split_measured(examples: Sequence[Example]) -> list[Example]:
    """Return the parts between the gaps of clauses that a table supports: it supports each of them as well."""
    parts = [
        replace(one, text=part.strip())
        for one in examples
        if one.label == MEASURED and GAP in one.text
        for part in one.text.split(GAP)
    ]
    return list(dict.fromkeys(one for one in parts if len(one.text) > 1))


def read_texts(name: str) -> list[tuple[str, str, str]]:
    """Return label, language and text of each entry of a file."""
    data = load_file(name)
    rows = []
    for label, by_language in data.items():
        for language, texts in by_language.items():
            wrong = next((text for text in texts if not isinstance(text, str) or not text.strip()), None)
            if wrong is not None:
                raise CorruptData(name, f"{label}.{language}: {wrong!r} is no text")
            rows += [(label, language, text) for text in texts]
    return rows


def load_file(name: str) -> dict[str, Any]:
    """Return the data of a file of this folder; raise ``CorruptData`` unless it is a map."""
    data = yaml.safe_load((FOLDER / name).read_text(encoding="utf-8"))
    if not isinstance(data, dict):
        raise CorruptData(name, "is no map of labels")
    return data


def fill_pattern(place: int, label: str, language: str, pattern: str, variants: int) -> list[Example]:
    """Return a pattern with its words in braces filled in several ways, others for each ``place``."""
    fills = load_fills()
    parts = BRACES.split(pattern)
    found = []
    for variant in range(variants if BRACES.search(pattern) else 1):
        texts = list(parts)
        for number, at in enumerate(range(1, len(parts), 2)):
            choices = fills[parts[at]][language]
            # Steps without a common divisor with the lengths, so that combinations differ.
            texts[at] = choices[(place * 7 + variant * 11 + number * 5) % len(choices)]
        found.append(Example("".join(texts), label, language, pattern))
    return found


@cache
def load_fills() -> Mapping[str, Mapping[str, list[str]]]:
    """Return what stands for the words in braces, by word and language."""
    return load_file("fills.yaml")


def hash_examples(heads: Sequence[str] = HEADS) -> str:
    """Return a hash of all examples of some heads; it changes with every label and text."""
    return content_hash([[one.text, one.label] for head in heads for one in load_examples(head)])


def list_groups(head: str, labels: tuple[str, ...]) -> Mapping[str, Mapping[str, str]]:
    """Return the groupings of a head's labels by name."""
    return GROUPS[head] or {KIND: {label: label for label in labels}}
