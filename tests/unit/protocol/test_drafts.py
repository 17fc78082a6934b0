"""The answer while it is sampled: the same characters wherever the text is cut, and never more than the call holds."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fathom.domain.chat import drafts
from fathom.domain.chat.drafts import WRITTEN_TAIL, ArgumentDraft, ProseDraft, written_head
from fathom.domain.chat.hermes import format_tool_call, parse_tool_calls

ANSWER = 'Apple rose 12.5% [1].\n\n| a | b |\n"quoted" \\ back\ttab 苹果 😀 <figure> {{table:sheet_1}} </tool_call>'
FINISH = {"intent": "to end", "restated_question": "why?", "answer": ANSWER}


def draft_text(text: str, seed: int, reader: ArgumentDraft | ProseDraft | None = None) -> str:
    # Cut at random into pieces of one to nine characters, as tokens cut a stream: by seed, so that failures come again.
    reader, out, random_ = reader or ArgumentDraft("finish", "answer"), [], random.Random(seed)
    while text:
        cut = random_.randint(1, 9)
        out.append(reader.feed(text[:cut]))
        text = text[cut:]
    return "".join(out)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("ascii_only", [False, True])
def test_the_draft_is_the_argument_wherever_the_text_is_cut(seed: int, ascii_only: bool) -> None:
    # With and without \u escapes, which a cut may split.
    body = json.dumps({"name": "finish", "arguments": FINISH}, ensure_ascii=ascii_only)
    text = f"Now I know.\n<tool_call>\n```json\n{body}\n```\n</tool_call>"
    assert draft_text(text, seed) == ANSWER
    assert parse_tool_calls(text)[1][0].name == "finish"


@pytest.mark.parametrize(
    "text",
    [
        # Other tools, a second call, a nested answer, a name that comes too late, text for arguments, brackets without
        # end.
        format_tool_call("think", {"intent": "x", "answer": "no"}),
        format_tool_call("data", {"question": "q"}) + "\n" + format_tool_call("finish", FINISH),
        format_tool_call("finish", {"intent": "x", "nested": {"answer": "no"}, "list": [{"answer": "no"}, 1, None]}),
        '<tool_call>{"arguments": {"answer": "before its name"}, "name": "finish"}</tool_call>',
        '<tool_call>{"name": "finish", "arguments": "{\\"answer\\": \\"as text\\"}"}</tool_call>',
        "<tool_call>" + "[" * 5_000,
        '<tool_call>{"name": "finish", "arguments": {"answer" "no colon"}}',
        '<tool_call>{"name": "finish", "arguments": ' + '{"a":' * 5_000,
        "prose only",
        "",
    ],
)
def test_what_is_no_answer_of_a_first_call_gives_nothing(text: str) -> None:
    for seed in range(3):
        assert draft_text(text, seed) == ""


@pytest.mark.parametrize("seed", range(5))
def test_a_cut_off_or_broken_answer_gives_what_was_written(seed: int) -> None:
    text = format_tool_call("finish", FINISH)
    # At every length: a draft may be short of the answer, never beside it.
    for end in range(len(text)):
        assert ANSWER.startswith(draft_text(text[:end], seed))
    # Half a surrogate and an escape that is none.
    assert draft_text('<tool_call>{"name":"finish","arguments":{"answer":"a\\ud800b"}}', seed) == "a"
    assert draft_text('<tool_call>{"name":"finish","arguments":{"answer":"a\\u00zzb"}}', seed) == "a"


@pytest.mark.parametrize("seed", range(5))
def test_line_breaks_inside_and_between_strings_are_read(seed: int) -> None:
    text = '<tool_call>\n{\n "name": "finish",\n "arguments": {"answer": "one\ntwo\t\\"three\\""}\n}\n</tool_call>'
    assert draft_text(text, seed) == 'one\ntwo\t"three"'


@pytest.mark.parametrize("seed", range(5))
def test_a_repeated_key_takes_nothing_back(seed: int) -> None:
    # What was shown cannot be taken back.
    text = '<tool_call>{"name": "finish", "arguments": {"answer": "first", "answer": "other"}}</tool_call>'
    assert draft_text(text, seed) == "first"


def test_native_calls_are_read_as_they_would_be_written() -> None:
    text = written_head("finish") + json.dumps(FINISH) + WRITTEN_TAIL
    assert draft_text(text, 1) == ANSWER
    assert parse_tool_calls(text)[1][0].arguments_json == json.dumps(FINISH, ensure_ascii=False)


@pytest.mark.parametrize("seed", range(10))
def test_prose_ends_where_a_call_begins(seed: int) -> None:
    assert draft_text("It is 5 < 6. <tool_call>{}", seed, ProseDraft()) == "It is 5 < 6. "
    # The beginning of a tag is held back, for it may become one.
    assert draft_text("It is <tool", seed, ProseDraft()) == "It is "
    assert draft_text('{"name": "x", "arguments": {}}', seed, ProseDraft()) == ""


# Signs that matter to JSON and to tags, line separators, and characters of four bytes.
TEXTS = st.text(st.sampled_from('ab "\\\n\t{}[]:,/<>`苹😀\u2028') | st.characters(codec="utf-8"), max_size=60)
VALUES = st.recursive(
    TEXTS | st.none() | st.booleans() | st.floats(allow_nan=False) | st.integers(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(TEXTS | st.sampled_from(["answer", "name"]), inner, max_size=3)
    ),
    max_leaves=6,
)
SPACE = st.sampled_from(["", " ", "\n  ", " \n"])


@st.composite
def calls(draw: st.DrawFn) -> tuple[str, str]:
    """Draw a written call of ``finish`` and its answer: other arguments around it in any order, any spacing."""
    others = draw(st.dictionaries(TEXTS.filter(lambda key: key != "answer"), VALUES, max_size=3))
    answer = draw(TEXTS)
    items = [*others.items()]
    items.insert(draw(st.integers(0, len(items))), ("answer", answer))
    separators = (f"{draw(SPACE)},{draw(SPACE)}", f"{draw(SPACE)}:{draw(SPACE)}")
    arguments = draw(st.sampled_from(["arguments", "parameters"]))
    first = draw(st.dictionaries(st.sampled_from(["id", "type"]), VALUES))
    body = json.dumps(
        {**first, "name": "finish", arguments: dict(items)}, ensure_ascii=draw(st.booleans()), separators=separators
    )
    if draw(st.booleans()):  # as models write them: line breaks inside of strings
        body = re.sub(r"(?<!\\)((?:\\\\)*)\\n", lambda found: found[1] + "\n", body)
    return f"{draw(st.sampled_from(['', 'Now I know.']))}<tool_call>{draw(SPACE)}{body}\n</tool_call>", answer


def cut(text: str, places: list[int]) -> list[str]:
    ends = sorted({min(place, len(text)) for place in places} | {0, len(text)})
    return [text[start:end] for start, end in pairwise(ends)]


@settings(max_examples=300, deadline=None)
@given(calls(), st.lists(st.integers(0, 400), max_size=60))
@example(('<tool_call>{"name":"finish","arguments":{"answer":"\\ud83d\\ude00"}}', "😀"), list(range(80)))
def test_every_cut_of_a_call_gives_the_answer_of_the_whole(call: tuple[str, str], places: list[int]) -> None:
    text, answer = call
    reader = ArgumentDraft("finish", "answer")
    assert "".join([reader.feed(piece) for piece in cut(text, places)]) == answer


@settings(max_examples=300, deadline=None)
@given(
    st.text(st.sampled_from(list('<tool_call>{}"\\:,ud83e0n \n`')) | st.sampled_from("ax")),
    st.sampled_from(["", '<tool_call>{"name": "finish", "arguments": {', format_tool_call("finish", FINISH)[:60]]),
    st.lists(st.integers(0, 200), max_size=40),
)
def test_every_cut_of_a_malformed_text_gives_the_draft_of_the_whole(text: str, head: str, places: list[int]) -> None:
    for make in (lambda: ArgumentDraft("finish", "answer"), ProseDraft):
        whole, pieces = make(), make()
        assert "".join([pieces.feed(piece) for piece in cut(head + text, places)]) == whole.feed(head + text)


class CountedPattern:
    """A pattern that adds the length of each text it is applied to."""

    def __init__(self, pattern: re.Pattern[str], lengths: list[int]) -> None:
        self._pattern, self._lengths = pattern, lengths

    def search(self, text: str) -> re.Match[str] | None:
        self._lengths.append(len(text))
        return self._pattern.search(text)

    def match(self, text: str, start: int) -> re.Match[str] | None:
        found = self._pattern.match(text, start)
        # A match ends before what it does not cover, which the next one reads.
        self._lengths.append(len(found[0]) if found else 1)
        return found


def count_characters_read(patch: pytest.MonkeyPatch, text: str) -> int:
    """Return the characters that a draft of the text, in pieces of two, gives to the parser and to the patterns."""
    lengths: list[int] = []
    compile_key = drafts.compile_key

    def loads(text: str, **options: Any) -> Any:
        lengths.append(len(text))
        return json.loads(text, **options)

    with patch.context() as counted:
        counted.setattr(drafts, "json", SimpleNamespace(loads=loads, dumps=json.dumps))
        counted.setattr(drafts, "DECODABLE", CountedPattern(drafts.DECODABLE, lengths))
        counted.setattr(drafts, "compile_key", lambda argument: CountedPattern(compile_key(argument), lengths))
        reader = ArgumentDraft("finish", "answer")
        for place in range(0, len(text), 2):
            reader.feed(text[place : place + 2])
    return sum(lengths)


@pytest.mark.parametrize(
    "write",
    [
        lambda n: {"intent": "to end", "answer": 'A "line".\n😀 ' * n},
        lambda n: {"notes": "a long note\n" * n, "answer": "short"},
        lambda n: {"list": [{"answer": "nested"}] * n, "answer": "not tried, as too many keys stand before it"},
    ],
    ids=["answer", "note", "nested"],
)
@pytest.mark.parametrize("raw", [False, True])
def test_twice_the_text_is_twice_the_work(
    monkeypatch: pytest.MonkeyPatch, write: Callable[[int], dict[str, Any]], raw: bool
) -> None:
    texts = [format_tool_call("finish", write(n)) for n in (1_000, 2_000)]
    once, twice = (count_characters_read(monkeypatch, text.replace("\\n", "\n") if raw else text) for text in texts)
    assert 0 < once <= twice <= 2.1 * once


def test_an_answer_behind_a_nested_object_with_the_same_key_is_previewed() -> None:
    arguments = {"list": [{"answer": "no"}], "answer": "yes"}
    assert draft_text(format_tool_call("finish", arguments), 1) == "yes"


def test_prose_keeps_its_spaces_and_stops_at_the_call_for_good() -> None:
    reader = ProseDraft()
    pieces = [" ", "\n", "It", " is", " <to", "p> <tool", "_call>", "{}", "</tool_call> more"]
    assert [reader.feed(piece) for piece in pieces] == ["", "", " \nIt", " is", " ", "<top> ", "", "", ""]
