"""Selection of the operation for a question, and the answer written by its script."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from fathom.domain.chat.negation import find_denials, find_exclusions
from fathom.services.policy.backends.rules.findings import collect
from fathom.services.policy.backends.rules.operations import comparing, converting, events, hops, splitting, sweep
from fathom.services.policy.backends.rules.operations.ask import Ask
from fathom.services.policy.backends.rules.operations.script import Call, Desk, Play, Script, advance
from fathom.services.policy.backends.rules.operations.series import (
    changes,
    crossing,
    extremes,
    pairs,
    relations,
    turning,
)
from fathom.services.policy.backends.rules.passages import query_of
from fathom.services.policy.backends.rules.prose.missing import not_understood
from fathom.services.policy.backends.rules.prose.writing import endings
from fathom.services.policy.backends.rules.question import read_question
from fathom.services.policy.backends.rules.reading import Reading

# Special operations before general ones: each looks for the words that it alone understands.
OPERATIONS: tuple[Callable[[Ask], Script | None], ...] = (
    sweep.recognise,
    pairs.recognise,
    turning.recognise,
    relations.recognise,
    crossing.recognise,
    converting.recognise,
    events.recognise,
    changes.recognise,
    extremes.recognise,
    comparing.recognise,
)


def single(ask: Ask) -> Script | None:
    """Return the script of the first operation that recognises the question."""
    return next((script for recognise in OPERATIONS if (script := recognise(ask)) is not None), None)


def one_of(ask: Ask) -> Script | None:
    """Return the script of a chain of operations or of a single one."""
    return hops.recogniser(single)(ask) or single(ask)


def script_of(ask: Ask) -> Script | None:
    """Return the script for a question: sub-questions, a chain of dependent operations, or a single operation."""
    # Operations understand neither exclusions nor denied comparisons and would answer the opposite. ``data`` gets such
    # a question verbatim and reports what it does not understand.
    if find_exclusions(ask.rest) or find_denials(ask.rest):
        return None
    script = splitting.recogniser(one_of)(ask) or one_of(ask)
    return None if script is None else lambda desk: with_documents(desk, script)


def with_documents(desk: Desk, script: Script) -> Play[None]:
    """Run the script; if it found nothing, look for a document that names the question's subjects."""
    yield from script(desk)
    if not desk.found and not desk.quotes:
        names = [name for name in desk.ask.names() if name.kind != "statement"]
        yield from desk.document(query_of(desk.ask.question), " ".join(desk.label(name) for name in names))


def played(reading: Reading, tools: Sequence[str]) -> Call | None:
    """Return the next call of an operation; None when no operation applies, or it found nothing and lacks nothing."""
    ask = Ask(read_question(reading.question))
    script = script_of(ask)
    if script is None:
        return None
    desk = Desk(ask)
    call = advance(reading, tools, script, desk)
    if call is not None:
        return call
    found = collect(reading, ask.question)
    if not (desk.paragraphs or desk.quotes or found.missing or found.not_understood or found.errors):
        return None
    return Call("finish", {"intent": desk.words.intent_finish, "answer": answer(reading, desk)})


def answer(reading: Reading, desk: Desk) -> str:
    """Return the script's paragraphs, then tables, figures, quotes, missing data, errors and caveats."""
    # The script has reported its measures; the general text would call them not computed.
    question = replace(desk.ask.question, aspects=())
    found = collect(reading, question)
    placeholders = [f"{{{{table:{table}}}}}" for table in desk.tables]
    placeholders += [f"{{{{figure:{figure}}}}}" for figure in desk.figures]
    parts = [*desk.paragraphs, *placeholders, *desk.quotes, *desk.caveats]
    strange = not_understood(found.not_understood, desk.words, bool(found.sheets))
    if not desk.found and not desk.quotes and not strange:
        parts.insert(0, desk.words.nothing)
    parts = [*strange, *parts]
    return "\n\n".join([*parts, *endings(found, question, desk.words, desk.found)])
