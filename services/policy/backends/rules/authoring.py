"""The reference policy as a writer and checker of training data, so that every step can be tried without a model.

A request is recognised by the title of its response schema. What is written follows from the quoted text alone: figures
and years that stand in it, sentences of it, words that it shares with the material. It is no substitute for a model's
judgement, and says so in its reasons.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import resources
from types import MappingProxyType
from typing import Any

import yaml

from fathom.domain.chat.messages import Message, Role
from fathom.domain.chat.quoting import read_sections
from fathom.domain.text.language import language_of
from fathom.domain.text.markup import CITATION, show_plain
from fathom.domain.text.terms import list_sentences, list_words
from fathom.domain.tool_results import parse_object
from fathom.services.policy.backends.rules.composing import compose_questions, judge_difficulty
from fathom.services.policy.backends.rules.judging import NUMBER, score

PREFIX = "fathom.data."
Sections = Mapping[str, str]
# Not within a longer number, which is an amount or a code and no year.
YEAR = re.compile(r"(?<!\d)(?:19|20)\d\d(?!\d)")
ENDS = "?？.。!！ "
# Words of a sentence without which it says nothing about anybody.
LEAST_WORDS = 3
# Characters of an earlier question that a follow-up repeats.
MOST_REPEATED = 200


@cache
def load_wording() -> Mapping[str, Any]:
    """Return the questions that are written, by kind and language."""
    text = resources.files("fathom.services.policy.backends.rules").joinpath("wording.yaml").read_text("utf-8")
    loaded: Mapping[str, Any] = yaml.safe_load(text)
    return loaded


def write_reply(schema_json: str, messages: Sequence[Message]) -> str | None:
    """Return the reply to a request for training data; None when the schema is none of these."""
    title = str((parse_object(schema_json) or {}).get("title", ""))
    work = WRITERS.get(title.removeprefix(PREFIX)) if title.startswith(PREFIX) else None
    if work is None:
        return None
    # A correction has its material in the turn before.
    shown: dict[str, str] = {}
    for message in messages:
        shown |= read_sections(message.content) if message.role is Role.USER else {}
    faults = [message.content for message in messages if message.role is Role.ASSISTANT]
    if faults:
        # The first reply is the list of faults; later ones are attempts that could not be read.
        shown["Faults"] = faults[0]
    return json.dumps(work(shown), ensure_ascii=False)


def follow_question(shown: Sections) -> dict[str, Any]:
    """Ask for another year where the earlier question has one, else for the reason."""
    text = shown.get("Question", "").strip()
    language, wording = language_of(text), load_wording()
    years = YEAR.findall(text)
    if years:
        # A year earlier and not later, since the next one may have no figures yet.
        other = str(int(years[-1]) - 1)
        at = text.rindex(years[-1])
        rewritten = text[:at] + other + text[at + len(other) :]
        return {"question": point_back(shown) + wording["yearly"][language].format(year=other), "rewritten": rewritten}
    return {
        "question": point_back(shown) + wording["why"][language],
        "rewritten": wording["reason"][language].format(text=text.rstrip(ENDS)),
    }


def follow_answer(shown: Sections) -> dict[str, Any]:
    """Ask about the first sentence of the answer that states a figure, else about its first sentence."""
    language, wording = language_of(shown.get("Question", "")), load_wording()
    answer = shown.get("Answer", "")
    sentences = [part.strip() for part in list_sentences(answer) if len(list_words(part)) >= LEAST_WORDS]
    # Citations are numbers as well, and state nothing.
    stated = [part for part in sentences if NUMBER.search(CITATION.sub("", part))]
    span = (stated or sentences or [answer.strip()])[0]
    text = show_plain(span).rstrip(ENDS)
    return {
        "span": span,
        "question": point_back(shown) + wording["doubt"][language],
        "rewritten": wording["source"][language].format(text=text),
    }


def point_back(shown: Sections) -> str:
    """Return the words that say which question a follow-up means; "" where it is the last one."""
    # Without them follow-ups to several turns would be the same words with different meanings.
    if not shown.get("Questions since", "").strip():
        return ""
    text = shown.get("Question", "").strip()
    repeated: str = load_wording()["back"][language_of(text)].format(text=text.rstrip(ENDS)[:MOST_REPEATED])
    return repeated


def judge_wording(shown: Sections) -> dict[str, Any]:
    """Judge a rewriting or a plan by the figures and words that it shares with what it was made from."""
    made = shown.get("Rewriting") or shown.get("Plan", "")
    given = " ".join(text for name, text in shown.items() if name not in ("Rewriting", "Plan"))
    # A follow-up may ask for another year, which its rewriting has, too.
    invented = set(NUMBER.findall(made)) - set(NUMBER.findall(given))
    if invented:
        return {"reason": f"by rules: {', '.join(sorted(invented))} is named by nobody", "verdict": "wrong"}
    if not set(list_words(made)) & set(list_words(given)):
        return {"reason": "by rules: it shares no word with what it was made from", "verdict": "unsure"}
    return {"reason": "by rules: its figures and words are those of what it was made from", "verdict": "right"}


def stage(shown: Sections) -> dict[str, Any]:
    """Leave out the sub-questions with unknown subjects, and search for what they are about instead."""
    queries = json.loads(shown.get("Plan") or "[]")
    unknown = [line.rpartition(" (")[0] for line in shown.get("Unknown subjects", "").splitlines()]
    first = [query for query in queries if query["subquery"] not in unknown]
    # Without any search nobody would find out who the unknown ones are.
    if not any(query["tool"] == "search" for query in first):
        first.append({"tool": "search", "subquery": shown.get("Question", "")})
    return {"first": first, "later": [query for query in queries if query["subquery"] in unknown]}


def check_missing(shown: Sections) -> dict[str, Any]:
    """Judge by whether the passages have every word and figure of a query."""
    words, passages = set(list_words(shown.get("Query", ""))), set(list_words(shown.get("Passages", "")))
    lacking = sorted(words - passages)
    said = f"by rules: the passages lack {', '.join(lacking[:5])}" if lacking else "by rules: the passages have it all"
    return {"reason": said, "is_missing": bool(lacking)}


def find_other(shown: Sections) -> dict[str, Any]:
    """Ask for the words of the question that the passage lacks; for nothing when it has them all."""
    passages = set(list_words(shown.get("Passages", "")))
    lacking = [word for word in list_words(shown.get("Question", "")) if word not in passages]
    return {"query": " ".join(dict.fromkeys(lacking))}


def compare(shown: Sections) -> dict[str, Any]:
    """Score two answers by figures of the material, words of the question, length and citations."""
    sides = [rate(shown.get(f"{name} answer", ""), shown) for name in ("First", "Second")]
    sums = [sum(side.values()) for side in sides]
    verdict = "even" if sums[0] == sums[1] else "first" if sums[0] > sums[1] else "second"
    scores = {name: {"first": sides[0][name], "second": sides[1][name]} for name in sides[0]}
    return {"reason": "by rules: counts of figures, words and citations", **scores, "verdict": verdict}


def rate(answer: str, shown: Sections) -> dict[str, int]:
    """Return a score from 0 to 10 in each of four dimensions."""
    figures = set(NUMBER.findall(show_plain(answer)))
    held = set(NUMBER.findall(shown.get("Material", "")))
    sentences = [part for part in list_sentences(answer) if part.strip()]
    cited = [part for part in sentences if CITATION.search(part)]
    words = list_words(show_plain(answer))
    # Of an answer that repeats itself the distinct words are few.
    distinct = len(set(words)) / len(words) if words else 0.0
    return {
        # Nothing stated is nothing right, so that an answer cannot win by avoiding figures.
        "accuracy": round(10 * len(figures & held) / len(figures)) if figures else 0,
        "logic": score(answer, shown.get("Question", ""), ""),
        "professionalism": round(10 * distinct),
        "citation": round(10 * len(cited) / len(sentences)) if sentences else 0,
    }


def find_faults(shown: Sections) -> dict[str, Any]:
    """List the sentences with a year or a figure that the material does not have."""
    held = set(NUMBER.findall(shown.get("Material", "")))
    faults = []
    for sentence in list_sentences(shown.get("Answer", "")):
        lacking = [figure for figure in NUMBER.findall(CITATION.sub("", sentence)) if figure not in held]
        if lacking:
            # Years alone are a fault of time; together with another figure the sentence states a wrong value.
            kind = "time" if all(YEAR.fullmatch(figure) for figure in lacking) else "number"
            faults.append({"kind": kind, "quote": sentence.strip(), "why": f"{lacking[0]} is not in the material"})
    # As many as the schema of the reply takes.
    return {"faults": faults[:50]}


def correct(shown: Sections) -> dict[str, Any]:
    """Take the faulty sentences out of the answer."""
    answer = shown.get("Answer", "")
    for fault in (parse_object(shown.get("Faults", "")) or {}).get("faults", []):
        answer = answer.replace(fault["quote"], "")
    lines = [line.rstrip() for line in answer.splitlines()]
    # An answer of which nothing is left stays: an empty one would correct nothing.
    return {"answer": "\n".join(lines).strip() or shown.get("Answer", "")}


def evolve(shown: Sections) -> dict[str, Any]:
    """Put the question into the form of an operation."""
    text = shown.get("Question", "").strip()
    known = load_wording()["evolved"]
    forms = known.get(shown.get("Operation", "").strip(), known["deepen"])
    return {"question": forms[language_of(text)].format(text=text.rstrip(ENDS))}


WRITERS: Mapping[str, Callable[[Sections], dict[str, Any]]] = MappingProxyType(
    {
        "follow_up_question": follow_question,
        "follow_up_answer": follow_answer,
        "verdict": judge_wording,
        "staged_plan": stage,
        "missing": check_missing,
        "other_query": find_other,
        "comparison": compare,
        "faults": find_faults,
        "corrected": correct,
        "evolved": evolve,
        "intents": compose_questions,
        "difficulty": judge_difficulty,
    }
)
