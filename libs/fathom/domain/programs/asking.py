"""Prompt that asks a language model for the program of a question, and the text that it is to write.

Training rows and requests of the policy service are both made here, so that a model is served what it has learnt.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fathom.domain.programs.language import NO_SERIES, Call, Node, Quote, parse, render, walk

# A sentence in place of the functions' description: a small model learns them by examples, and every token of a prompt
# is paid for with each question. Its absence would not do, since templates put a sentence of their own there.
SYSTEM = "Write the calculation."
SERIES = "series"


def write_program(program: str) -> str:
    """Return the text of a program as a model is to write it; raise ``InvalidField("program")`` for what is none.

    Series are without their ids, which no model need know: datafetch finds them by their words. That words name no
    series stays.
    """
    return render([omit_id(step) for step in parse(program)])


def read_program(text: str) -> tuple[Call, ...]:
    """Parse what ``write_program`` returns or a model writes; raise ``InvalidField("program")`` for what is none."""
    return parse(text, are_ids_omitted=True)


def omit_id(step: Call) -> Call:
    """Return a call whose series are without ids."""
    arguments: list[Node] = [omit_id(one) if isinstance(one, Call) else one for one in step.arguments]
    target = "" if step.name == SERIES and step.target != NO_SERIES else step.target
    return replace(step, arguments=tuple(arguments), target=target)


def find_strange_words(steps: Sequence[Call], texts: Sequence[str]) -> list[str]:
    """Return the quoted words that stand in none of the texts, so that no model could copy them."""
    quoted = [one.text for step in steps for one in walk(step) if isinstance(one, Quote)]
    return [words for words in dict.fromkeys(quoted) if not words.strip() or not any(words in text for text in texts)]
