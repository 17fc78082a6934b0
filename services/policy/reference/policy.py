"""The next call of the reference policy: a calculation, tables, documents or a refusal, as the data tool reads it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

from fathom.domain.chat.tolerant import items
from fathom.domain.text.terms import is_chinese, is_small_talk
from fathom.services.policy.reference.answer import Findings, cite, compose, mend
from fathom.services.policy.reference.calculation import Calculation
from fathom.services.policy.reference.conversation import Call, Conversation, Step
from fathom.services.policy.reference.documents import Quote, choose_hit, list_quotes
from fathom.services.policy.reference.preferences import ask_preferred
from fathom.services.policy.reference.programs import Program, Written, read_program
from fathom.services.policy.reference.reading import is_reason, load_table, read_step, say
from fathom.services.policy.reference.tables import Sheet, list_columns

# As many as one run may delegate by default.
MOST_PARTS = 4
MOST_OPEN, OPEN_CHARS = 20, 120
CITATION = re.compile(r"\s*\[[\d, ]+\]")


class Walk:
    """The walk through the tools for one conversation, as far as its results say that it has come."""

    def __init__(self, conversation: Conversation, tools: Sequence[str], written: Written | None = None) -> None:
        self._conversation, self._tools, self._written = conversation, frozenset(tools), written
        self._is_zh = conversation.is_zh
        asked = [step for step in conversation.of("data") if "question" in step.arguments]
        first = asked[0] if asked else Step("data", {}, {}, "")
        # The second one asks the same in the user's own currency or unit; where that cannot be had, the first counts.
        self._is_converted = len(asked) > 1 and asked[1].is_ok
        self._asked = asked[1] if self._is_converted else first
        self._reading = read_step(self._asked)
        self._program = read_program(first)
        if self._program is not None and written is not None:
            self._program = written.judge(self._program) if written.text else None

    def next(self) -> Call:
        """Return the next call, ``finish`` when nothing is left to try or only that is allowed."""
        intents, draft = load_table("texts")["intent"], mend(self._conversation)
        for step in () if self._conversation.is_last_round or draft is not None else self._list_steps():
            call = step()
            if call is not None and call.tool in self._tools:
                return Call(call.tool, {"intent": intents[call.tool][self._is_zh], **call.arguments})
        text, is_shortened = draft or (self._compose(), False)
        # What the planner's checks took away is open, and a reader must not take the rest for the whole answer.
        left = [*self._list_open(), *([say("removed", self._is_zh)] if is_shortened else [])]
        left = list(dict.fromkeys(text[:OPEN_CHARS] for text in left if text))[:MOST_OPEN]
        stated = {"reading": {"open": left}} if left else {}
        return Call("finish", {"intent": intents["finish"][self._is_zh], "answer": text, **stated})

    def _list_steps(self) -> list[Callable[[], Call | None]]:
        question = self._conversation.question
        if not self._asked.head:
            return [self._ask] if is_small_talk(question) else [self._ask, self._search, self._read]
        if is_small_talk(question) or self._is_quoted:
            return []
        if self._conversation.has_own_documents and self._calculation is None:
            # Before what the tables lack is said to be missing.
            return [self._search, self._read, *self._list_look_ups()]
        return self._list_look_ups()

    def _list_look_ups(self) -> list[Callable[[], Call | None]]:
        """Return the steps that look for series, and for documents where these give reasons or all there is."""
        question = self._conversation.question
        if self._gaps:
            return []
        one = self._calculation
        steps = [one.fetch, one.compute, one.draw] if one is not None else [self._convert, self._look_up]
        # Documents have reasons, and what the tables do not have.
        return steps + ([self._search, self._read] if is_reason(question) or not (one or self._sheets) else [])

    @cached_property
    def _surely(self) -> Program | None:
        """Return the program if it says with all names, periods and numbers of the question what that asks for."""
        program = self._program
        if program is None or not program.is_sure or is_small_talk(self._conversation.question):
            return None
        # A follow-up's words are only a part of what is asked.
        is_part = self._conversation.is_follow_up
        return None if not is_part and program.leaves_out(self._reading, self._conversation.question) else program

    @cached_property
    def _calculation(self) -> Calculation | None:
        program = self._surely
        if program is None or not program.is_computable or "python" not in self._tools or self._is_looked_up(program):
            return None
        return Calculation(self._conversation, program, self._reading)

    def _is_looked_up(self, program: Program) -> bool:
        """Return whether the table of the question itself is the one value that a program looks up."""
        series, sheets = program.lookup, self._asked.head.get("sheets", ())
        if series is None or len(sheets) != 1 or sheets[0].get("rows") != 1:
            return False
        return [column.get("indicator") for column in list_columns(sheets[0])] == [series.indicator]

    @property
    def _sheets(self) -> list[Sheet]:
        """Return the tables of the question; none for one that asks for texts."""
        is_for_texts = self._surely is not None and self._surely.kind == "documents" and "search" in self._tools
        return list(self._asked.head.get("sheets", ())) if self._asked.is_ok and not is_for_texts else []

    @property
    def _is_quoted(self) -> bool:
        """Return whether the user's own documents say what is asked, so that no series is looked for."""
        return self._conversation.has_own_documents and self._calculation is None and bool(self._quotes)

    @property
    def _gaps(self) -> list[tuple[str, str]]:
        """Return what the question asks for and is not here, each with the words that say so; none to go on."""
        program, question = self._surely, self._conversation.question[:200]
        if program is not None and program.kind == "outside":
            return [(question, say("outside", self._is_zh, f"“{question}”"))]
        # What is known of several series can be answered.
        if program is None or program.kind != "calculation" or program.series:
            return []
        # Words with a meaning of their own are no unknown name.
        unknown = [one["words"].casefold() for one in program.missing if one.get("reason") == "UNKNOWN_SERIES"]
        known = [one for kind, one, _ in self._reading.mentions if kind in ("entity", "indicator", "measure")]
        pairs = [(text.casefold(), words) for text in known for words in unknown]
        # "What is maximum drawdown?" has no name, though "drawdown" may be taken for one.
        is_known = any(text in words or words in text for text, words in pairs)
        return [] if is_known else [(one.get("words", ""), write_gap(one, self._is_zh)) for one in program.missing]

    @cached_property
    def _quotes(self) -> list[Quote]:
        return list_quotes(self._conversation, self._reading)

    def _list_open(self) -> list[str]:
        """Return what of the question stays open."""
        if self._is_quoted:
            return []
        if self._gaps or self._calculation is not None:
            return [words for words, _ in self._gaps] if self._calculation is None else self._calculation.list_open()
        items = [item for item in self._reading.missing if item.get("reason") == "NOT_UNDERSTOOD"]
        left = [*self._reading.texts("unknown"), *(str(item.get("subject", "")) for item in items)]
        if left or is_small_talk(self._conversation.question):
            return left
        if self._sheets:
            return [] if self._surely is not None else [say("doubtful", self._is_zh)]
        return [] if self._quotes else [self._conversation.question]

    def _compose(self) -> str:
        conversation, reading, one = self._conversation, self._reading, self._calculation
        if self._is_quoted:
            # What the data tool made of the question's words was no answer to it.
            read = tuple(step for step in conversation.steps if step.tool in ("search", "fetch"))
            conversation, reading = replace(conversation, steps=read), replace(reading, missing=())
            return compose(Findings(conversation, reading, (), self._quotes))
        if self._gaps:
            texts = dict.fromkeys(text for _, text in self._gaps)
            return (
                ("；" if self._is_zh else "; ").join(texts)
                + cite(self._asked.material)
                + ("。" if self._is_zh else ".")
            )
        if one is None:
            if self._is_converted:
                # The table in the other currency was only a way to this one.
                first = next(step for step in conversation.of("data") if "question" in step.arguments)
                conversation = replace(conversation, steps=tuple(s for s in conversation.steps if s is not first))
            found = Findings(conversation, reading, self._sheets, self._quotes, is_converted=self._is_converted)
            return compose(found)
        # What the data tool made of the question's words is not what is computed.
        steps = tuple(step for step in conversation.steps if step is not self._asked)
        conversation, reading = replace(conversation, steps=steps), replace(reading, missing=())
        return compose(Findings(conversation, reading, one.used_sheets, self._quotes, one.write_paragraphs()))

    def _ask(self) -> Call:
        given = {"program": self._written.text} if self._written is not None and self._written.text else {}
        return Call("data", {"question": self._conversation.question[:2000], **given})

    def _convert(self) -> Call | None:
        """Ask once more in the currency or the unit that the user prefers."""
        asked = [step for step in self._conversation.of("data") if "question" in step.arguments]
        if len(asked) > 1:
            return None
        question, held = self._conversation.question[:1900], self._conversation.memory
        preferred = ask_preferred(question, held, self._reading, self._sheets)
        return Call("data", {"question": preferred}) if preferred else None

    def _look_up(self) -> Call | None:
        """Ask the catalogue for words that the data tool does not know, when it knows no other."""
        unknown = " ".join(self._reading.texts("unknown"))
        has_names = any(kind in ("entity", "indicator") for kind, _, _ in self._reading.mentions)
        is_done = has_names or self._sheets or self._conversation.of("catalogue")
        return Call("catalogue", {"query": unknown[:500]}) if unknown and not is_done else None

    def _search(self) -> Call | None:
        is_done = bool(self._conversation.of("search"))
        return None if is_done else Call("search", {"query": self._conversation.question[:2000]})

    def _read(self) -> Call | None:
        chosen = "" if self._quotes else choose_hit(self._conversation)
        return Call("fetch", {"id": chosen}) if chosen else None


def write_gap(gap: Mapping[str, str], is_zh: bool) -> str:
    """Return why words of a question cannot be used."""
    words = str(gap.get("words", ""))
    if gap.get("reason") == "UNKNOWN_SERIES":
        return say("no_series", is_zh, words)
    return say("no_period", is_zh, words, str(gap.get("detail", "")).rstrip("."))


def next_call(conversation: Conversation, tools: Sequence[str], written: Written | None = None) -> Call:
    """Return the next call of the reference policy; the questions of a list are given to researchers of their own.

    ``written`` is a program of the question that a model has written, in place of that of the data tool.
    """
    parts = [text for text in items(conversation.question) if text.endswith(("?", "？"))][:MOST_PARTS]
    if "delegate" not in tools or len(parts) < 2 or mend(conversation) is not None:
        return Walk(conversation, tools, written).next()
    results = conversation.of("delegate")
    if not results and not conversation.is_last_round:
        intent = load_table("texts")["intent"]["delegate"][is_chinese(conversation.question)]
        first, *others = [Call("delegate", {"intent": intent, "question": part}) for part in parts]
        return replace(first, beside=tuple(others))
    return answer_parts(conversation, tools, results)


def answer_parts(conversation: Conversation, tools: Sequence[str], results: Sequence[Step]) -> Call:
    """Return the answers of the researchers under their questions; the first one that failed is answered here."""
    texts = [f"### {step.arguments.get('question', '')}\n\n{step.body}" for step in results if step.is_ok]
    failed = next((step for step in results if not step.is_ok), None)
    intent = load_table("texts")["intent"]["finish"][is_chinese(conversation.question)]
    arguments: Mapping[str, object] = {"intent": intent}
    if failed is not None:
        own = tuple(step for step in conversation.steps if step.tool != "delegate")
        part = str(failed.arguments.get("question", ""))
        call = Walk(replace(conversation, question=part, steps=own), tools).next()
        if call.tool != "finish":
            return call
        arguments = call.arguments
        texts += [f"### {part}\n\n{call.arguments['answer']}"]
        texts += [say("failed", is_chinese(part), f"delegate: {failed.head.get('error', '')}")]
    # What every researcher says, such as the date of the data, is said once.
    paragraphs = {CITATION.sub("", text): text for text in reversed("\n\n".join(texts).split("\n\n")) if text.strip()}
    return Call("finish", {**arguments, "answer": "\n\n".join(reversed(paragraphs.values()))})
