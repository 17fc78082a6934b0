"""The grammar of programs over the words of a question, in llguidance's dialect of Lark.

A model that is guided by it writes nothing but programs that the automaton allows, whose quotes are words of the
question. Which earlier steps there are is left to ``check_program``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

from fathom.core.errors import InvalidField
from fathom.domain.programs.asking import SERIES, find_strange_words
from fathom.domain.programs.automaton import NAMED, STARTS, State
from fathom.domain.programs.language import (
    GROUPS,
    MOST_STEPS,
    NO_SERIES,
    SIGNATURES,
    SPAN,
    SPECIAL,
    WORDS,
    Call,
    list_actions,
    split_signature,
)

VALUES = "LPNRX"
# What JSON writes with a backslash is copied by no rule: words on both sides of it are quoted by themselves.
ESCAPED = re.compile(r'["\\\x00-\x1f]+')
AND_MORE = '(", " {0})*'


def write_grammar(question: str) -> str:
    """Return the grammar of the programs of a question."""
    rules = {
        "start": f'step ("\\n" step){{0,{MOST_STEPS - 1}}}',
        "step": list_choices(State().next_tokens),
        "quote": r'"\"" (' + " | ".join(list_words(question)) + r') "\""',
        "earlier": " | ".join(json.dumps(f"_{step}") for step in range(1, MOST_STEPS + 1)),
        "members": f'"members(" quote ", " ({join_literals(GROUPS)}) ")"',
        SERIES: f'"series(" quote {AND_MORE.format("quote")} (", {NO_SERIES}")? ")"',
    }
    rules |= {f"kind_{kind.lower()}": join_literals(words) for kind, words in WORDS.items()}
    rules |= {f"kind_{kind.lower()}": f"{list_choices(STARTS[kind])} | earlier" for kind in VALUES}
    rules |= {f"call_{name}": write_call(name) for name in SIGNATURES}
    rules |= {f"call_{name}": f'"{name}(" (quote {AND_MORE.format("quote")})? ")"' for name in SPECIAL}
    return "\n".join(f"{name}: {rule}" for name, rule in rules.items())


def list_words(question: str) -> list[str]:
    """Return a rule for any part of each stretch of a question that is quoted as it stands."""
    parts = [part for part in ESCAPED.split(question) if part.strip()]
    if not parts:
        raise InvalidField("question", "has no words")
    return [f"%regex {json.dumps({'substring_chars': part}, ensure_ascii=False)}" for part in parts]


def list_choices(tokens: Iterable[str]) -> str:
    """Return the rule of what may begin with one of some tokens."""
    found = []
    for token in sorted(tokens):
        if token in NAMED:
            found.append(token.removesuffix("("))
        elif token.endswith("("):
            found.append(f"call_{token[:-1]}")
        else:
            found.append("quote" if token == SPAN else json.dumps(token.removeprefix("#")))
    return " | ".join(found)


def write_call(name: str) -> str:
    """Return the rule of a call with its arguments."""
    kinds = [f"kind_{kind[0].lower()}" if kind[0] != "S" else "quote" for kind in split_signature(name)]
    if name == "portfolio":
        # Shares and what they are held in, in turn, at least two of each.
        pair = f'{kinds[0]} ", " {kinds[1]}'
        return f'"portfolio(" {pair} (", " {pair})+ (", " {kinds[2]})? ")"'
    arguments = ""
    for place, (kind, written) in enumerate(zip(kinds, split_signature(name), strict=True)):
        if written.endswith("*"):
            arguments += f"{kind} {AND_MORE.format(kind)}"
        else:
            one = kind if not place else f'", " {kind}'
            arguments += f" ({one})?" if written.endswith("?") else f" {one}"
    return f'"{name}(" {arguments} ")"'


def join_literals(texts: Iterable[str]) -> str:
    return " | ".join(json.dumps(text) for text in sorted(texts))


def check_program(steps: Iterable[Call], question: str) -> None:
    """Raise ``InvalidField("program")`` for a program that the automaton does not allow, or with other words."""
    calls, state = tuple(steps), State()
    for action in list_actions(calls):
        if action.token not in state.next_tokens:
            raise InvalidField("program", f"{action.token!r} may not stand there")
        state = state.push(action.token)
    if strange := find_strange_words(calls, [question]):
        raise InvalidField("program", f"{strange[0]!r} does not stand in the question")
