"""The functional-style check and the rewards of code, on cells as models write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fathom.domain.grading import code_style
from fathom.domain.grading.code_style import (
    LengthBand,
    check,
    code_reward,
    execution_reward,
    hacks,
    length,
    length_reward,
)

GOOD = """
import numpy as np

def growth(frame):
    \"\"\"Yearly growth of revenue.\"\"\"
    ordered = frame.sort_values('year')
    ratio = ordered['revenue'].pct_change()
    clean = ratio.dropna()
    return clean.mean()

print(growth(sheet_1))
"""

STYLES = [
    ("good", GOOD, ""),
    ("assign, then print", "def f(a):\n    return a + 1\nx = f(1)\nprint(x)", ""),
    ("three drivers", "def f(a):\n    return a\nx = f(1)\ny = f(2)\nprint(x, y)", ""),
    ("keyword call", "def f(a=1):\n    return a\nprint(f(a=2))", ""),
    ("handed over", "def f(a):\n    return a * 2\nprint(sheet_1['x'].map(f)); print(list(map(f, [1])))", ""),
    ("async function", "async def f():\n    return 1\nx = f()\nprint(x)", ""),
    ("figure shown", "def draw(f):\n    return px.line(f)\nfig = draw(sheet_1)\nfig.show()", ""),
    ("display", "def f():\n    return sheet_1.sum()\ndisplay(f())", ""),
    ("f-string", "def f():\n    return sheet_1.x.sum()\nprint(f'total {f():.2f}')", ""),
    ("docstring and pass", "'''What it is for.'''\npass\ndef f():\n    return 2 ** 8\nprint(f())", ""),
    ("nested function", "def f(x):\n    def g(y):\n        return y\n    return g(x)\nprint(f(1))", ""),
    ("no function", "print(sheet_1.head())", "0 functions"),
    ("two functions", "def f():\n    return 1\ndef g():\n    return f()\nprint(g())", "2 functions"),
    ("four drivers", "def f(a):\n    return a\na = f(1)\nb = f(2)\nc = f(3)\nprint(a, b, c)", "4 statements"),
    ("never called", "def f():\n    return 1\nprint(2)", "never called"),
    ("no print", "def f():\n    return 1\nx = f()", "no result is printed"),
    ("bare result", "def f():\n    return 1\nf()", "no result is printed"),
    ("empty print", "def f():\n    return 1\nf()\nprint()", "no result is printed"),
    ("loop outside", "def f(a):\n    return a\nfor i in range(3):\n    print(f(i))", "outside the function"),
    ("branch outside", "def f(a):\n    return a\nif True:\n    print(f(1))", "outside the function"),
    ("with outside", "def f(a):\n    return a\nwith open('x') as h:\n    print(f(h))", "outside the function"),
    ("class", "class A:\n    pass\nprint(A())", "0 functions"),
    ("syntax error", "def f(:", "no valid Python"),
    ("empty", "", "0 functions"),
    ("only a comment", "# nothing", "0 functions"),
    ("magic", "%timeit f()", "no valid Python"),
    ("null byte", "print(1)\0", "no valid Python"),
    ("print inside only", "def f():\n    print(1 + 1)\nf()", "no result is printed"),
]


@pytest.mark.parametrize(("code", "problem"), [row[1:] for row in STYLES], ids=[row[0] for row in STYLES])
def test_style(code: str, problem: str) -> None:
    style = check(code)
    assert style.ok is (problem == "")
    assert problem in style.correction
    assert style.reward == 1.0 if style.ok else style.reward <= code_style.MOST_WITHOUT_STYLE


def test_the_nearer_the_more_it_earns() -> None:
    near = check("def f(a):\n    return a\nx = f(1)\nfor i in range(3):\n    x += i\nprint(x)").reward
    assert 0 < check("def f(a):\n    return a\nx = 1\ny = 2\nz = 3\nprint(f(x))").reward < near <= 0.9
    assert check("x = 1\nprint(x)").reward == 0


def body(statements: int) -> str:
    lines = "\n".join(f"    x{i} = sheet_1.a.sum() + {i}" for i in range(statements - 1))
    return (
        f"def f():\n{lines}\n    return x0 * 2\nprint(f())"
        if statements > 1
        else "def f():\n    return 1 + 1\nprint(f())"
    )


@pytest.mark.parametrize(
    ("statements", "reward"), [(1, 0.0), (2, 0.2), (6, 1.0), (40, 1.0), (60, 0.5), (80, 0.0), (200, 0.0)]
)
def test_length_is_a_plateau(statements: int, reward: float) -> None:
    assert length(body(statements)) == statements
    assert length_reward(body(statements)) == pytest.approx(reward)


def test_length_rises_then_stays_then_falls() -> None:
    rewards = [length_reward(body(statements)) for statements in range(1, 100)]
    top = rewards.index(1.0)
    assert rewards[: top + 1] == sorted(rewards[: top + 1])
    assert rewards[40:] == sorted(rewards[40:], reverse=True)


def test_padding_does_not_count() -> None:
    padded = GOOD.replace(
        "    return clean", "    pass\n    'text'\n" + "    clean = ratio.dropna()\n" * 20 + "    return clean"
    )
    assert length(padded) == length(GOOD) == 4
    assert length(GOOD + "\ndef unused():\n" + "    x = 1\n    y = x\n" * 9) == 4


@pytest.mark.parametrize(
    ("code", "flags"),
    [
        (GOOD, set()),
        ("print(sheet_1.head())", {"no-function-called", "dataframe-only"}),
        ("def show(f):\n    print(f.head())\nshow(sheet_1)", {"dataframe-only"}),
        ("def show(f):\n    return f.tail(3)\nprint(show(sheet_1))", {"dataframe-only"}),
        ("def show(f):\n    return f['close'].describe()\nprint(show(sheet_1))", {"dataframe-only"}),
        ("def f():\n    return 1\nprint('done')", {"no-function-called", "constant-print"}),
        ("def f(x):\n    y = x * 2\n    return 'ok'\nf(3)\nprint('done')", {"constant-print"}),
        ("def f(x):\n    return x.mean()\nprint(f(sheet_1.close))", set()),
        ("no python at all", set()),
    ],
)
def test_hacks(code: str, flags: set[str]) -> None:
    assert hacks(code) == flags


@pytest.mark.parametrize(
    ("code", "finished", "stdout", "reward"),
    [
        (GOOD, True, "0.12\n", 1.0),
        (GOOD, False, "0.12\n", 0.0),
        (GOOD, True, "  \n", 0.0),
        ("print(sheet_1.head())", True, "   a\n0  1", 0.0),
    ],
)
def test_execution(code: str, finished: bool, stdout: str, reward: float) -> None:
    assert execution_reward(code, finished, stdout) == reward


def test_a_cell_that_only_looks_earns_next_to_nothing() -> None:
    look = code_reward("print(sheet_1.head())", True, "   a\n0  1")
    assert look.total() <= 0
    good = code_reward(GOOD, True, "0.12")
    assert good.total() > 0.75
    assert code_reward(GOOD, False, "").total() == 0


@pytest.mark.parametrize("band", [(0, 0, 1, 2), (2, 1, 3, 4), (0, 1, 3, 3)])
def test_a_band_that_makes_no_sense_is_refused(band: tuple[int, int, int, int]) -> None:
    with pytest.raises(ValueError, match="band"):
        LengthBand(*band)


@given(st.text(max_size=300))
def test_any_text_can_be_judged(code: str) -> None:
    reward = code_reward(code, True, "x")
    assert all(0 <= value <= 1 for value in (reward.style, reward.length, reward.execution))


def test_deep_nesting_is_no_crash() -> None:
    assert check("(" * 100_000).problems == ("the cell is no valid Python",)
    assert check("x = " + "-" * 20_000 + "1").reward == 0
