"""Graders: pure functions from an answer and its references to a score.

Normalisation and exact match are SQuAD's, as Search-R1 uses them (arXiv 2503.09516); the tag-spam guard and the
composition of format and outcome follow its later version.
"""

from __future__ import annotations

import math
import re
import string
import unicodedata
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

ARTICLES = re.compile(r"\b(a|an|the)\b")
CJK = re.compile(r"[\u4e00-\u9fff]")
PUNCTUATION = str.maketrans("", "", string.punctuation + "。，、；：？！“”‘’（）《》")
NUMBER = re.compile(
    r"[-+]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?\s*(%|万亿|亿|万|千|[kmbt]n?\b|million|billion|thousand)?", re.IGNORECASE
)
SCALES = {"%": 0.01, "千": 1e3, "万": 1e4, "亿": 1e8, "万亿": 1e12, "k": 1e3, "thousand": 1e3, "m": 1e6, "mn": 1e6,
          "million": 1e6, "b": 1e9, "bn": 1e9, "billion": 1e9, "t": 1e12, "tn": 1e12}  # fmt: skip
ANSWER = re.compile(r"<answer>(.*?)</answer>", re.DOTALL)
TAG = re.compile(r"</?(think|search|information|answer)>")
MAX_ANSWER_TAGS = 10


@dataclass(frozen=True)
class Item:
    """What is graded. ``response`` is the whole response, for graders that look at its form."""

    answer: str
    references: Sequence[str]
    parameters: Mapping[str, float] = field(default_factory=dict)
    response: str = ""


@dataclass(frozen=True)
class Score:
    """A finite value and its parts."""

    value: float
    components: Mapping[str, float] = field(default_factory=dict)
    reason: str = ""


def normalised(text: str) -> str:
    """Lower case, without punctuation and articles, single spaces; widths folded (NFKC)."""
    lowered = unicodedata.normalize("NFKC", text).lower().translate(PUNCTUATION)
    return " ".join(ARTICLES.sub(" ", lowered).split())


def exact_match(item: Item) -> Score:
    """1 when the normalised answer equals a reference, else 0."""
    answer = normalised(item.answer)
    return Score(float(bool(answer) and any(answer == normalised(reference) for reference in item.references)))


def contains(item: Item) -> Score:
    """1 when a normalised reference is part of the normalised answer, else 0."""
    answer = normalised(item.answer)
    wanted = [normalised(reference) for reference in item.references]
    return Score(float(any(reference and reference in answer for reference in wanted)))


def tokens(text: str) -> list[str]:
    """Words; each Chinese character is one."""
    return CJK.sub(lambda match: f" {match.group()} ", normalised(text)).split()


def token_f1(item: Item) -> Score:
    """The best F1 of token overlap over the references."""
    return Score(max((f1(tokens(item.answer), tokens(reference)) for reference in item.references), default=0.0))


def f1(answer: Sequence[str], reference: Sequence[str]) -> float:
    """Harmonic mean of precision and recall of the token multisets."""
    common = sum((Counter(answer) & Counter(reference)).values())
    if not common:
        return 0.0
    precision, recall = common / len(answer), common / len(reference)
    return 2 * precision * recall / (precision + recall)


def numbers(text: str) -> list[float]:
    """Numbers with their scale: 1,234.5, 12%, 3.2亿, 5 million."""
    found = []
    for match in NUMBER.finditer(unicodedata.normalize("NFKC", text)):
        digits = match.group().removesuffix(match.group(1) or "").strip().replace(",", "")
        found.append(float(digits) * SCALES.get((match.group(1) or "").lower(), 1.0))
    return found


def number_match(item: Item) -> Score:
    """1 when the answer's last number is within ``rel_tol`` (default 0.01) or ``abs_tol`` (0) of a reference's."""
    given = numbers(item.answer)
    if not given:
        return Score(0.0, reason="the answer has no number")
    rel_tol, abs_tol = item.parameters.get("rel_tol", 0.01), item.parameters.get("abs_tol", 0.0)
    wanted = [number for reference in item.references for number in numbers(reference)[-1:]]
    return Score(float(any(math.isclose(given[-1], number, rel_tol=rel_tol, abs_tol=abs_tol) for number in wanted)))


def well_formed(response: str) -> bool:
    """True when tags are balanced, thoughts precede actions, and exactly one answer ends the response."""
    state, open_tag = "start", ""
    for match in TAG.finditer(response):
        name, closing = match.group(1), match.group().startswith("</")
        if closing:
            if open_tag != name:
                return False
            open_tag, state = "", name
        elif open_tag or not allowed(state, name):
            return False
        else:
            open_tag = name
    tail = response.rpartition("</answer>")[2]
    return state == "answer" and not open_tag and not tail.strip()


def allowed(state: str, tag: str) -> bool:
    """Which tag may open after which has closed; a response may also answer or search without a thought."""
    return {
        "start": tag in ("think", "search", "answer"),
        "think": tag in ("search", "answer"),
        "search": tag == "information",
        "information": tag in ("think", "search", "answer"),
    }.get(state, False)


def last_answer(response: str) -> str | None:
    """The last answer tag's content in the response alone; None without one."""
    found = ANSWER.findall(response)
    return found[-1].strip() if found else None


def format_only(item: Item) -> Score:
    """1 when the response is well formed, else 0."""
    return Score(float(well_formed(item.response)))


def search_r1(item: Item) -> Score:
    """Outcome and form: correct and valid 1, correct only 1 - ``structure_weight``, valid only
    ``structure_weight``, an answer that is neither ``final_weight``, no answer 0. More than ten answer tags
    divide a correct score by four.
    """
    structure = item.parameters.get("structure_weight", 0.2)
    final = item.parameters.get("final_weight", 0.0)
    answer, valid = last_answer(item.response), well_formed(item.response)
    correct = answer is not None and bool(exact_match(Item(answer, item.references)).value)
    value = (1.0 if valid else 1.0 - structure) if correct else structure if valid else final if answer else 0.0
    spam = max(item.response.count("<answer>"), item.response.count("</answer>")) > MAX_ANSWER_TAGS
    if correct and spam:
        value /= 4
    return Score(value, {"correct": float(correct), "valid": float(valid)}, "answer tags are spammed" if spam else "")


@dataclass(frozen=True)
class Grader:
    """A grader with what it says of itself."""

    grade: Callable[[Item], Score]
    description: str
    parameters: tuple[str, ...] = ()
    references: bool = True


GRADERS: Mapping[str, Grader] = {
    "em": Grader(exact_match, "Exact match after SQuAD normalisation"),
    "sub_em": Grader(contains, "A reference is part of the answer"),
    "f1": Grader(token_f1, "Token F1; Chinese characters are tokens"),
    "number": Grader(number_match, "Numbers within a tolerance", ("rel_tol", "abs_tol")),
    "format": Grader(format_only, "Search-R1's tags are well formed", references=False),
    "search_r1": Grader(search_r1, "Exact match and form of tags", ("structure_weight", "final_weight")),
}
