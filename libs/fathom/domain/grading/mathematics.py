"""Extraction of the final value of a mathematical answer, and its comparison with a reference by math-verify."""

from __future__ import annotations

import re
import threading
import unicodedata

from fathom.core.extras import name_missing_extra
from fathom.domain.grading.tags import last_answer

# A final value is short. The grammar of LaTeX takes seconds for some thousand characters of nested brackets.
MAX_CHARS = 400
# For each parse and each comparison. Most take milliseconds, an integral up to a second; a tower of powers never ends.
LIMIT_S = 2
NAMED = re.compile(r"answer\s*(?:is|:|=)+|(?:答案|结果)\s*[是为：:]|####", re.I)
WORDS = re.compile(r"\\(?:text|mathrm|mbox|textbf|mathbf)\s*\{([^{}]*)\}")
# "1.5e-3" as programs write it: in LaTeX the e would be Euler's number.
EXPONENT = re.compile(r"(?<=\d)[eE]([-+]?\d{1,3})(?![\w.])")


def final_answer(text: str) -> str:
    """Return the last boxed text, else the last answer tag, else the text after the last "answer is", else all."""
    boxed = find_last_boxed(text)
    if boxed is not None:
        return boxed.strip()
    tagged = last_answer(text)
    if tagged is not None:
        return tagged
    named = list(NAMED.finditer(text))
    said = text[named[-1].end() :].strip().partition("\n")[0] if named else text
    return said.strip().rstrip(".。")


def find_last_boxed(text: str) -> str | None:
    r"""Return the content of the last ``\\boxed{…}`` with balanced braces; None without one."""
    start = text.rfind("\\boxed{")
    if start < 0:
        return None
    depth, begin = 0, start + len("\\boxed")
    for position in range(begin, len(text)):
        depth += {"{": 1, "}": -1}.get(text[position], 0)
        if depth == 0:
            return text[begin + 1 : position]
    return None


def same_value(given: str, reference: str) -> bool:
    """Return True if both end with the same text or the same mathematical value."""
    own, wanted = final_answer(given), final_answer(reference)
    if not own or not wanted:
        return False
    # Four of five right answers are written as the reference is; a comparison of values takes some 20 ms.
    return plain(own) == plain(wanted) or equal(own, wanted)


def plain(text: str) -> str:
    """Normalise a text for comparison character by character."""
    return re.sub(r"[\s$]|\\[,;!:]|\\left|\\right", "", WORDS.sub(r"\1", text)).lower()


def equal(own: str, wanted: str) -> bool:
    """Compare two expressions by value; False for texts that are none, are too long or take too long.

    Raises ``MissingExtra`` without math-verify.
    """
    with name_missing_extra():
        from math_verify import ExprExtractionConfig, LatexExtractionConfig, parse, verify
    if max(len(own), len(wanted)) > MAX_CHARS:
        return False
    # math-verify limits its time by a signal, which only the main thread gets; verifier processes grade there. In
    # another thread, as with ``verify_workers: 0``, nothing can interrupt it.
    limit = LIMIT_S if threading.current_thread() is threading.main_thread() else None
    targets = (LatexExtractionConfig(), ExprExtractionConfig())
    found, expected = (parse(f"${to_latex(text)}$", targets, parsing_timeout=limit) for text in (own, wanted))
    return bool(verify(expected, found, timeout_seconds=limit))


def to_latex(text: str) -> str:
    """Write full-width characters and the powers and exponents of programs as LaTeX has them."""
    return EXPONENT.sub(r"\\times 10^{\1}", unicodedata.normalize("NFKC", text).replace("**", "^"))
