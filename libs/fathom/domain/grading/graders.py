"""Graders: pure functions from an answer and its references to a score, in [0, 1] except for ``code``.

Normalisation and exact match follow SQuAD, as Search-R1 uses them (arXiv 2503.09516); the combination of format and
outcome follows its format variant, the tag-spam guard its port to verl.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from fathom.domain.grading import code_style as codestyle
from fathom.domain.grading.brevity import brevity
from fathom.domain.grading.mathematics import same_value
from fathom.domain.grading.model import Grader, Item, Parameter, Score, ToolStep
from fathom.domain.grading.tags import contents, fault, is_spam, last_answer
from fathom.domain.grading.text import normalize_spelling, normalize_text, numbers, tokens
from fathom.domain.grading.tools import tool_choice, tool_steps

__all__ = ["GRADERS", "Grader", "Item", "Parameter", "Score", "ToolStep"]

# As in Search-R1's port to verl.
SPAM_DIVISOR = 4.0


def matches(answer: str, references: Sequence[str]) -> bool:
    """Return True if the normalised answer equals a reference; an empty answer matches nothing."""
    given = normalize_text(answer)
    return bool(given) and any(given == normalize_text(reference) for reference in references)


def exact_match(item: Item) -> Score:
    """Score 1 when the normalised answer equals a reference, else 0."""
    return Score(float(matches(item.answer, item.references)))


def contains(item: Item) -> Score:
    """Score 1 when a normalised reference is part of the normalised answer, else 0."""
    answer = normalize_text(item.answer)
    wanted = [normalize_text(reference) for reference in item.references]
    return Score(float(any(reference and reference in answer for reference in wanted)))


def tolerant_match(item: Item) -> Score:
    """Score 1 when the answer equals a reference after loose normalisation, or both are one number within tolerance."""
    given = normalize_spelling(item.answer)
    if given and any(given == normalize_spelling(reference) for reference in item.references):
        return Score(1.0)
    own = numbers(item.answer)
    # Only a lone number: of several nobody knows which one is the answer.
    if len(own) != 1:
        return Score(0.0)
    found = (numbers(reference) for reference in item.references)
    rel_tol, abs_tol = item.parameters["rel_tol"], item.parameters["abs_tol"]
    return Score(
        float(any(len(one) == 1 and abs(own[0] - one[0]) <= tolerance(one[0], rel_tol, abs_tol) for one in found))
    )


def mathematical(item: Item) -> Score:
    """Score 1 when the final value of response or answer equals a reference's.

    Values are compared by math-verify: numbers, LaTeX, symbols, sets, intervals.
    """
    given = item.answer or item.response
    return Score(float(any(same_value(given, reference) for reference in item.references)))


def short_thinking(item: Item) -> Score:
    """Score the length of the thought in ``response``; correctness is exact match of its last answer tag."""
    answer = item.answer or last_answer(item.response) or ""
    thought = " ".join(contents(item.response, "think"))
    length, right = len(tokens(thought)), matches(answer, item.references)
    value = brevity(length, right, target=item.parameters["target"], most=item.parameters["most"])
    return Score(value, {"thinking_tokens": float(length), "correct": float(right)})


def token_f1(item: Item) -> Score:
    """Score the best token-overlap F1 over the references, with its precision and recall."""
    answer = tokens(item.answer)
    best = max((overlap(answer, tokens(reference)) for reference in item.references), default=(0.0, 0.0, 0.0))
    return Score(best[0], {"precision": best[1], "recall": best[2]})


def overlap(answer: Sequence[str], reference: Sequence[str]) -> tuple[float, float, float]:
    """Return F1, precision and recall of the token multisets."""
    common = sum((Counter(answer) & Counter(reference)).values())
    if not common:
        return 0.0, 0.0, 0.0
    precision, recall = common / len(answer), common / len(reference)
    return 2 * precision * recall / (precision + recall), precision, recall


def number_match(item: Item) -> Score:
    """Score 1 when the answer's last number is within ``rel_tol`` or ``abs_tol`` of the last number of a reference."""
    given = numbers(item.answer)
    if not given:
        return Score(0.0, reason="the answer has no number")
    rel_tol, abs_tol = item.parameters["rel_tol"], item.parameters["abs_tol"]
    wanted = [found[-1] for reference in item.references if (found := numbers(reference))]
    return Score(float(any(abs(given[-1] - number) <= tolerance(number, rel_tol, abs_tol) for number in wanted)))


def tolerance(reference: float, rel_tol: float, abs_tol: float) -> float:
    """Return the larger of the two tolerances, both ends inclusive."""
    # Relative to the reference alone, so that a large answer does not widen its own tolerance. The last term absorbs
    # the rounding of decimal figures stored as floats.
    return max(rel_tol * abs(reference), abs_tol) + 1e-12 * abs(reference)


def format_only(item: Item) -> Score:
    """Score 1 when the response is well formed, else 0 with the fault as reason."""
    found = fault(item.response, thoughts=bool(item.parameters["thoughts"]))
    return Score(float(not found), reason=found)


def search_r1(item: Item) -> Score:
    """Score outcome and format of a response; its answer is the content of the last answer tag.

    Correct and well formed: 1. Correct only: 1 - ``structure_weight``. Well formed only: ``structure_weight``, plus
    ``retrieval_weight`` when an information block contains a reference. Neither: ``final_weight``. No answer: 0. More
    than ten answer tags divide a correct answer's score by four.
    """
    structure, final, retrieval = (item.parameters[f"{name}_weight"] for name in ("structure", "final", "retrieval"))
    answer, found = last_answer(item.response), fault(item.response, thoughts=bool(item.parameters["thoughts"]))
    correct, valid, spam = answer is not None and matches(answer, item.references), not found, is_spam(item.response)
    seen = valid and is_retrieved(item)
    if correct:
        value = (1.0 if valid else 1.0 - structure) / (SPAM_DIVISOR if spam else 1.0)
    elif valid:
        value = min(1.0, structure + (retrieval if seen else 0.0))
    else:
        value = 0.0 if answer is None else final
    parts = {"correct": float(correct), "valid": float(valid), "retrieved": float(seen)}
    return Score(value, parts, "answer tags are spammed" if spam else found)


def is_retrieved(item: Item) -> bool:
    """Return True if a normalised reference occurs in an information block."""
    blocks = [normalize_text(block) for block in contents(item.response, "information")]
    wanted = [normalize_text(reference) for reference in item.references]
    return any(reference and reference in block for block in blocks for reference in wanted)


def code_style(item: Item) -> Score:
    """Score the functional style of the cell in ``response``; its problems are the reason."""
    style = codestyle.check(item.response)
    return Score(style.reward, reason="; ".join(style.problems))


def code_length(item: Item) -> Score:
    """Score the number of statements in called functions of the cell in ``response``."""
    return Score(codestyle.length_reward(item.response), {"statements": float(codestyle.length(item.response))})


def code_execution(item: Item) -> Score:
    """Score 1 when the cell in ``response`` finished and printed output of its own, which is ``answer``."""
    return Score(codestyle.execution_reward(item.response, bool(item.parameters["finished"]), item.answer))


def code(item: Item) -> Score:
    """Score a cell by ``execution · (style·s + length·f) − hack·[any hack flag]``, from -1 to 1."""
    parts = codestyle.code_reward(item.response, bool(item.parameters["finished"]), item.answer)
    style, length, hack = (item.parameters[f"{name}_weight"] for name in ("style", "length", "hack"))
    value = parts.total(style=style, length=length, hack=hack)
    components = {"style": parts.style, "length": parts.length, "execution": parts.execution}
    flags = {f"hack_{flag.replace('-', '_')}": 1.0 for flag in sorted(parts.hacks)}
    return Score(value, components | flags, ", ".join(sorted(parts.hacks)))


FINISHED = {"finished": Parameter(0.0, 1.0)}
CODE_WEIGHTS = {f"{name}_weight": Parameter(0.5, 1.0) for name in ("style", "length", "hack")}
THOUGHTS = {"thoughts": Parameter(0.0, 1.0)}
WEIGHTS = {
    "structure_weight": Parameter(0.2, 1.0),
    "final_weight": Parameter(0.0, 1.0),
    "retrieval_weight": Parameter(0.0, 1.0),
}
GRADERS: Mapping[str, Grader] = {
    "em": Grader(exact_match, "1 when the answer equals a reference after SQuAD normalisation (arXiv 2503.09516)"),
    "sub_em": Grader(contains, "1 when a reference is part of the answer after SQuAD normalisation"),
    "f1": Grader(token_f1, "SQuAD's token F1 (arXiv 1606.05250); Chinese characters are tokens"),
    "number": Grader(
        number_match,
        "1 when the answer's last number is within rel_tol (0.01) of a reference's, or within abs_tol (0)",
        {"rel_tol": Parameter(0.01), "abs_tol": Parameter(0.0)},
        numeric=True,
    ),
    "em_tolerant": Grader(
        tolerant_match,
        "em, also where only blanks in Chinese, digits as 二〇二四 or units of a lone number (rel_tol 1e-4) differ",
        {"rel_tol": Parameter(1e-4), "abs_tol": Parameter(0.0)},
    ),
    "math": Grader(
        mathematical,
        "1 when the last boxed, named or tagged value equals a reference: numbers, LaTeX, symbols, sets, intervals",
    ),
    "tool_choice": Grader(
        tool_choice, "F1 of the tools that were used and those that fit", references=False, tools=True
    ),
    "tool_steps": Grader(
        tool_steps,
        "Mean over tool calls of 1 for a result, 0 for an error or a call made before, less cost per call",
        {"cost": Parameter(0.0, 1.0)},
        references=False,
    ),
    "short_thinking": Grader(
        short_thinking,
        "0.5 for a thought of target tokens to -0.5 for one of most; at most 0 for a wrong answer (arXiv 2501.12599)",
        {"target": Parameter(64.0), "most": Parameter(1024.0)},
    ),
    "format": Grader(
        format_only,
        "1 when the response's Search-R1 tags are well formed; thoughts=1 demands a think tag before each action",
        THOUGHTS,
        references=False,
    ),
    "search_r1": Grader(
        search_r1,
        "Search-R1's exact match and form of tags (arXiv 2503.09516, format variant), composed by weights",
        {**WEIGHTS, **THOUGHTS},
    ),
    "code_style": Grader(code_style, "Functional style of the cell in response, 1 when it has it", references=False),
    "code_length": Grader(code_length, "Statements in called functions, on a plateau from 6 to 40", references=False),
    "code_execution": Grader(
        code_execution, "1 when the cell finished=1 and its output, the answer, is its own", FINISHED, references=False
    ),
    "code": Grader(
        code,
        "execution * (style_weight * style + length_weight * length) - hack_weight for any hack flag",
        {**CODE_WEIGHTS, **FINISHED},
        references=False,
    ),
}
