"""New questions of the reference policy, composed of subjects, measures, years and aims, and how hard a question is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

import yaml

from fathom.core.ids import content_hash
from fathom.domain.text.language import language_of
from fathom.domain.text.shingles import make_shingles, measure_jaccard

# More would not fit into a reply of 2,048 tokens, and a cut one cannot be read.
MOST = 15
# Places of an aim's question that are filled in.
EMPTY = {"measure": "", "subject": "", "other": "", "year": "", "before": ""}


@dataclass(frozen=True)
class Intent:
    """An aim with a measure: its label, and the form of a question that has it."""

    label: str
    measure: str
    form: str


@cache
def load_parts() -> Mapping[str, Any]:
    """Return the kinds, with their subjects, measures and years, and the aims."""
    text = resources.files("fathom.services.policy.backends.rules").joinpath("composition.yaml").read_text("utf-8")
    loaded: Mapping[str, Any] = yaml.safe_load(text)
    return loaded


@cache
def list_intents(kind: str, language: str) -> tuple[Intent, ...]:
    """Return each aim of a kind with each of its measures once, neighbours differing in both."""
    parts = load_parts()
    aims = [aim for aim in parts["aims"] if kind in aim.get("kinds", parts["kinds"])]
    measures = [measure[language] for measure in parts["kinds"][kind]["measures"]]
    return tuple(
        Intent(aim["intent"][language].format(measure=measure), measure, aim["question"][language])
        for shift in range(len(measures))
        for place, aim in enumerate(aims)
        for measure in [measures[(place + shift) % len(measures)]]
    )


def compose_questions(shown: Mapping[str, str]) -> dict[str, Any]:
    """Write questions with the intents behind the newest known one, about the seed's subject where it names one."""
    seed = shown.get("Question", "")
    # Whoever asks lists them without case.
    known = [line.removeprefix("- ").casefold() for line in shown.get("Known intents", "").splitlines()]
    count = min(int(shown.get("Count", "1")), MOST)
    language = "zh" if language_of(seed) == "zh" else "en"
    kind = find_kind(seed, language)
    intents = list_intents(kind, language)
    places = {intent.label.casefold(): place for place, intent in enumerate(intents)}
    passed = [places[label] for label in known if label in places]
    # The list shows the newest intents alone: where none is of this kind, older ones may be anywhere.
    start = passed[-1] + 1 if passed else pick([seed, *known], len(intents))
    turned = [*intents[start:], *intents[:start]]
    fresh = [intent for intent in turned if intent.label.casefold() not in known][:count]
    return {"questions": list(write_each(fresh or turned[:count], kind, seed, language, start))}


def find_kind(seed: str, language: str) -> str:
    """Return the kind whose measures and subjects are named most in a seed; any, by its hash, for a seed without."""
    kinds = load_parts()["kinds"]
    # By letters, since a long name that contains a short one of another kind is the closer one.
    named: dict[str, int] = {
        kind: sum(len(name) for name in list_names(kind, language) if is_named(name, seed)) for kind in kinds
    }
    order = sorted(named, key=lambda kind: -named[kind])
    return order[0] if named[order[0]] else order[pick([seed], len(order))]


def list_names(kind: str, language: str) -> list[str]:
    """Return the names of a kind's measures and subjects."""
    parts = load_parts()["kinds"][kind]
    return [one[language] for one in (*parts["measures"], *parts["subjects"])]


def is_named(name: str, text: str) -> bool:
    """Return whether a text has a name, with or without the article that it has within a sentence."""
    return name.casefold().removeprefix("the ") in text.casefold()


def write_each(intents: Sequence[Intent], kind: str, seed: str, language: str, start: int) -> Iterator[dict[str, str]]:
    """Yield a question for each intent."""
    parts = load_parts()["kinds"][kind]
    subjects = [one[language] for one in parts["subjects"]]
    named = [name for name in subjects if is_named(name, seed)]
    for place, intent in enumerate(intents, start):
        subject = named[0] if named else subjects[place % len(subjects)]
        year = parts["years"][place % len(parts["years"])]
        others = [name for name in subjects if name != subject] or [subject]
        question = intent.form.format(
            measure=intent.measure,
            subject=subject,
            other=others[place % len(others)],
            year=year,
            before=year - 1,
        )
        yield {"intent": intent.label, "question": question}


def pick(parts: Sequence[str], count: int) -> int:
    """Return a number below ``count`` that follows from texts."""
    return int(content_hash(list(parts))[:8], 16) % count


def judge_difficulty(shown: Mapping[str, str]) -> dict[str, str]:
    """Label a question as the aim whose form is nearest by words; medium when it is near to none."""
    text = shown.get("Question", "")
    language = "zh" if language_of(text) == "zh" else "en"
    # Pairs of Chinese characters are about words.
    length = 2 if language == "zh" else 1
    words = make_shingles(text, length)
    near = {
        aim["question"][language]: (
            measure_jaccard(words, make_shingles(aim["question"][language].format(**EMPTY), length)),
            aim["level"],
        )
        for aim in load_parts()["aims"]
    }
    form, (similarity, level) = max(near.items(), key=lambda item: item[1][0])
    if not similarity:
        return {"rationale": "by rules: it is like none of the known forms", "difficulty": "medium"}
    return {"rationale": f"by rules: its form is nearest to {form!r} ({similarity:.2f})", "difficulty": level}
