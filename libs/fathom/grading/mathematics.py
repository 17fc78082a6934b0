"""Extraction and comparison of the final value of a mathematical answer, with support for a subset of LaTeX.

Values are computed exactly with fractions where possible; sizes are bounded, so that no answer can keep a grader busy.
"""

from __future__ import annotations

import ast
import math
import re
import unicodedata
from collections.abc import Callable, Mapping
from fractions import Fraction

from fathom.grading.tags import last_answer

MAX_CHARS, MAX_BITS, MAX_POWER = 400, 2_048, 256
REL_TOL, ABS_TOL = 1e-6, 1e-9
NAMED = re.compile(r"answer\s*(?:is|:|=)+|(?:答案|结果)\s*[是为：:]|####", re.I)
FRACTION = re.compile(r"\\[dt]?frac\s*\{([^{}]*)\}\s*\{([^{}]*)\}")
SHORT_FRACTION = re.compile(r"\\[dt]?frac\s*(\d)\s*(\d)")
ROOT = re.compile(r"\\sqrt\s*\{([^{}]*)\}")
POWER = re.compile(r"\^\s*\{([^{}]*)\}")
WORDS = re.compile(r"\\(?:text|mathrm|mbox|textbf|mathbf)\s*\{([^{}]*)\}")
THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
IMPLIED = re.compile(r"(?<=[\d)])(?=\s*(?:sqrt\(|pi\b|\())")
NAMES: Mapping[str, float] = {"pi": math.pi, "e": math.e}
SIGNS: Mapping[str, str] = {
    "\\cdot": "*", "\\times": "*", "×": "*", "÷": "/", "\\div": "/", "−": "-", "\\pi": " pi", "π": " pi", "\\%": "%",
}  # fmt: skip
Number = Fraction | float
Value = Number | tuple["Value", ...]


def final_answer(text: str) -> str:
    """Return the last boxed text, else the last answer tag, else the text after the last "answer is", else all."""
    boxed = last_boxed(text)
    if boxed is not None:
        return boxed.strip()
    tagged = last_answer(text)
    if tagged is not None:
        return tagged
    named = list(NAMED.finditer(text))
    said = text[named[-1].end() :].strip().partition("\n")[0] if named else text
    return said.strip().rstrip(".。")


def last_boxed(text: str) -> str | None:
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
    """Return True if both end with the same value, or with the same text where one cannot be computed."""
    own, wanted = final_answer(given), final_answer(reference)
    if not own or not wanted:
        return False
    if plain(own) == plain(wanted):
        return True
    first, second = value_of(own), value_of(wanted)
    if first is None or second is None:
        return False
    if equal(first, second):
        return True
    # "50%" and "50" are both said of a share in percent; 0.5 is what the former means.
    percent = "%" in own, "%" in wanted
    if percent[0] == percent[1] or isinstance(first, tuple) or isinstance(second, tuple):
        return False
    return equal(first * 100, second) if percent[0] else equal(first, second * 100)


def equal(first: Value, second: Value) -> bool:
    """Compare exactly for fractions, within rounding for roots and pi, element-wise for tuples."""
    if isinstance(first, tuple) or isinstance(second, tuple):
        both = isinstance(first, tuple) and isinstance(second, tuple)
        return both and len(first) == len(second) and all(map(equal, first, second))  # type: ignore[arg-type]
    if isinstance(first, Fraction) and isinstance(second, Fraction):
        return first == second
    return math.isclose(float(first), float(second), rel_tol=REL_TOL, abs_tol=ABS_TOL)


def plain(text: str) -> str:
    """Normalise a text for comparison where no value can be computed."""
    return re.sub(r"[\s$]|\\[,;!:]|\\left|\\right", "", WORDS.sub(r"\1", text)).lower()


def value_of(text: str) -> Value | None:
    """Return the value of an expression; None for any other text, and if too long or too large."""
    source = expression(text)
    if not source or len(source) > MAX_CHARS:
        return None
    try:
        return evaluated(ast.parse(source, mode="eval").body)
    except (SyntaxError, ValueError, TypeError, ZeroDivisionError, OverflowError, RecursionError, MemoryError):
        return None


def expression(text: str) -> str:
    """Translate a LaTeX or plain expression to Python, without units, currency signs and text before "="."""
    source = WORDS.sub("", unicodedata.normalize("NFKC", text[: 4 * MAX_CHARS]))
    source = re.sub(r"\\left|\\right|\\[,;!: ]|\\displaystyle|[$€£¥]|\\\$|\^\s*(?:\\circ|°)|°", "", source)
    for sign, plain_sign in SIGNS.items():
        source = source.replace(sign, plain_sign)
    for _ in range(8):  # nested, from the inside; bounded
        before = source
        source = SHORT_FRACTION.sub(r"((\1)/(\2))", FRACTION.sub(r"((\1)/(\2))", source))
        source = POWER.sub(r"**(\1)", ROOT.sub(r"sqrt(\1)", source))
        if source == before:
            break
    source = THOUSANDS.sub("", source.rsplit("=", 1)[-1]).replace("^", "**").replace("%", "/100")
    return IMPLIED.sub("*", source).strip().rstrip(".,;")


def evaluated(node: ast.expr) -> Value:
    """Evaluate a tree of numbers, + - * / **, roots and tuples; raise for anything else or too large a value."""
    if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)) and not isinstance(node.value, bool):
        # Decimals are rounded as a rule: only whole numbers, and what is made of them, are exact.
        return bounded(Fraction(node.value)) if isinstance(node.value, int) else node.value
    if isinstance(node, ast.Name):
        return NAMES[node.id] if node.id in NAMES else unknown(node)
    if isinstance(node, (ast.Tuple, ast.List)):
        return tuple(evaluated(item) for item in node.elts)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
        inner = number(evaluated(node.operand))
        return -inner if isinstance(node.op, ast.USub) else inner
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "sqrt"
        and len(node.args) == 1
    ):
        return math.sqrt(number(evaluated(node.args[0])))
    if isinstance(node, ast.BinOp) and type(node.op) in OPERATIONS:
        return bounded(OPERATIONS[type(node.op)](number(evaluated(node.left)), number(evaluated(node.right))))
    return unknown(node)


def unknown(node: ast.expr) -> Value:
    raise ValueError(f"{type(node).__name__} is no number")


def number(value: Value) -> Number:
    if isinstance(value, tuple):
        raise ValueError("a tuple is no number")
    return value


def bounded(value: Number) -> Number:
    """Return the value; raise ``OverflowError`` for one that would make later steps slow."""
    if isinstance(value, Fraction) and max(value.numerator.bit_length(), value.denominator.bit_length()) > MAX_BITS:
        raise OverflowError("too large")
    return value


def power(base: Number, exponent: Number) -> Number:
    """Return the power, exact for whole exponents of bounded size; raise ``ValueError`` for a complex result.

    Raises ``OverflowError`` for an exponent that is too large.
    """
    if isinstance(exponent, Fraction) and exponent.denominator == 1 and isinstance(base, Fraction):
        if abs(exponent) > MAX_POWER:
            raise OverflowError("too large")
        return base ** int(exponent)
    found = float(base) ** float(exponent)
    if isinstance(found, complex):
        raise ValueError("not real")
    return float(found)


OPERATIONS: Mapping[type[ast.operator], Callable[[Number, Number], Number]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: a / b,
    ast.Pow: power,
}
