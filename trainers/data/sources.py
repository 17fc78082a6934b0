"""Graders of published data sets by their ``data_source``, as verl and Search-R1 dispatch their rewards."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

MATHEMATICS = (
    "openai/gsm8k", "lighteval/MATH", "DigitalLearningGmbH/MATH-lighteval", "HuggingFaceH4/MATH-500", "math_dapo",
    "math", "math_dapo_reasoning", "hiyouga/geometry3k", "numina_aops_forum", "numina_synthetic_math",
    "numina_amc_aime", "numina_synthetic_amc", "numina_cn_k12", "numina_olympiads",
)  # fmt: skip
PROGRAMS = ("codecontests", "apps", "codeforces", "taco")
# Search-R1's rows name the set; verl's copy of them puts its own prefix before it.
QUESTIONS = ("nq", "triviaqa", "popqa", "hotpotqa", "2wikimultihopqa", "musique", "bamboogle")
SEARCH_PREFIX, CONTEST_PREFIX = "searchR1_", "aime"
GRADERS_BY_SOURCE: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(MATHEMATICS, "math"),
        **dict.fromkeys(PROGRAMS, "code_tests"),
        **dict.fromkeys(QUESTIONS, "em"),
    }
)


def find_grader(source: str, has_targets: bool) -> str:
    """Return the grader of a data source; of an unknown one "em" for ``targets`` as Search-R1 writes them, else ""."""
    known = GRADERS_BY_SOURCE.get(source.removeprefix(SEARCH_PREFIX))
    if known is None and source.startswith(CONTEST_PREFIX):
        return "math"
    return known or ("em" if has_targets else "")
