"""The tolerant reader of tool calls: one table, one row per way in which models err."""

import json

import pytest

from fathom.domain.chat.hermes import format_tool_call, parse_tool_calls

GOOD = '{"name": "search", "arguments": {"query": "q"}}'
SEARCH = ("search", {"query": "q"})

CASES = [
    ("plain", f"<tool_call>\n{GOOD}\n</tool_call>", "", [SEARCH]),
    ("one line", f"<tool_call>{GOOD}</tool_call>", "", [SEARCH]),
    ("prose before", f"I look it up.\n<tool_call>{GOOD}</tool_call>", "I look it up.", [SEARCH]),
    ("prose after", f"<tool_call>{GOOD}</tool_call>\ndone", "done", [SEARCH]),
    ("two tags", f"<tool_call>{GOOD}</tool_call>\n<tool_call>{GOOD}</tool_call>", "", [SEARCH, SEARCH]),
    ("two objects in one tag", f"<tool_call>\n{GOOD}\n{GOOD}\n</tool_call>", "", [SEARCH, SEARCH]),
    ("a list in one tag", f"<tool_call>[{GOOD}, {GOOD}]</tool_call>", "", [SEARCH, SEARCH]),
    ("numbered objects", f"<tool_call>1. {GOOD}\n2. {GOOD}</tool_call>", "", [SEARCH, SEARCH]),
    ("fenced in tag", f"<tool_call>\n```json\n{GOOD}\n```\n</tool_call>", "", [SEARCH]),
    ("unclosed at end", f"ok <tool_call>\n{GOOD}", "ok", [SEARCH]),
    ("unclosed before next", f"<tool_call>{GOOD}\n<tool_call>{GOOD}</tool_call>", "", [SEARCH, SEARCH]),
    ("trailing comma", '<tool_call>{"name": "search", "arguments": {"query": "q",},}</tool_call>', "", [SEARCH]),
    ("full-width signs", "<tool_call>｛“name”：“search”，“arguments”：｛“query”：“q”｝｝</tool_call>", "", [SEARCH]),
    ("full-width colon", '<tool_call>{"name"："search"，"arguments"：{"query"："q"}}</tool_call>', "", [SEARCH]),
    ("arguments as string", r'<tool_call>{"name":"search","arguments":"{\"query\":\"q\"}"}</tool_call>', "", [SEARCH]),
    ("empty arguments string", '<tool_call>{"name":"think","arguments":""}</tool_call>', "", [("think", {})]),
    ("parameters", '<tool_call>{"name":"search","parameters":{"query":"q"}}</tool_call>', "", [SEARCH]),
    ("no arguments", '<tool_call>{"name":"think"}</tool_call>', "", [("think", {})]),
    ("python literals", "<tool_call>{'name': 'f', 'arguments': {'a': True, 'b': None}}</tool_call>", "",
     [("f", {"a": True, "b": None})]),
    ("raw newline in string", '<tool_call>{"name":"python","arguments":{"code":"a\nb"}}</tool_call>', "",
     [("python", {"code": "a\nb"})]),
    ("closing tag in a string", '<tool_call>{"name":"f","arguments":{"a":"</tool_call>"}}</tool_call>x', "x",
     [("f", {"a": "</tool_call>"})]),
    ("opening tag in a string", '<tool_call>{"name":"f","arguments":{"a":"<tool_call>"}}</tool_call>', "",
     [("f", {"a": "<tool_call>"})]),
    ("full-width text is kept", '<tool_call>{"name":"f","arguments":{"a":"甲，乙：“丙”"}}</tool_call>', "",
     [("f", {"a": "甲，乙：“丙”"})]),
    ("prose inside the tag", f"<tool_call>call: {GOOD} please</tool_call>", "", [SEARCH]),
    ("bare object", GOOD, "", [SEARCH]),
    ("bare fenced object", f"```json\n{GOOD}\n```", "", [SEARCH]),
    ("name with spaces", '<tool_call>{"name":" search ","arguments":{"query":"q"}}</tool_call>', "", [SEARCH]),
    ("prose only", "The answer is 4.", "The answer is 4.", []),
    ("empty", "", "", []),
    ("object in prose is none", 'See {"name": "x", "arguments": {}} there.',
     'See {"name": "x", "arguments": {}} there.', []),
    ("object without arguments is none", '{"name": "Apple"}', '{"name": "Apple"}', []),
    ("no name stays prose", '<tool_call>{"arguments":{}}</tool_call>', '<tool_call>{"arguments":{}}</tool_call>', []),
    ("garbage stays prose", "<tool_call>not json</tool_call>", "<tool_call>not json</tool_call>", []),
    ("list as arguments stays prose", '<tool_call>{"name":"f","arguments":[1]}</tool_call>',
     '<tool_call>{"name":"f","arguments":[1]}</tool_call>', []),
    ("empty tag", "<tool_call></tool_call>", "<tool_call></tool_call>", []),
    ("cut inside", '<tool_call>{"name":"f","arguments":{"a":"b', '<tool_call>{"name":"f","arguments":{"a":"b', []),
    ("bad then good", f"<tool_call>oops</tool_call><tool_call>{GOOD}</tool_call>", "<tool_call>oops</tool_call>",
     [SEARCH]),
]  # fmt: skip


@pytest.mark.parametrize(("text", "prose", "calls"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_what_models_write_is_read(text: str, prose: str, calls: list[tuple[str, dict[str, object]]]) -> None:
    read_prose, read_calls = parse_tool_calls(text)
    assert [(call.name, json.loads(call.arguments_json)) for call in read_calls] == calls
    assert read_prose == prose


def test_a_formatted_call_reads_back() -> None:
    arguments = {"intent": "算一算", "code": 'print("</tool_call>")\n', "n": 3}
    prose, calls = parse_tool_calls("先想。" + format_tool_call("python", arguments))
    assert prose == "先想。"
    assert json.loads(calls[0].arguments_json) == arguments


def test_ids_depend_on_place_and_content_only() -> None:
    text = format_tool_call("a", {"x": 1}) * 2
    first, second = parse_tool_calls(text)[1], parse_tool_calls(text)[1]
    assert first == second
    assert first[0].id != first[1].id


@pytest.mark.parametrize("text", ["<tool_call>" * 50, "<tool_call>" + "[" * 5000, "<tool_call>{" + '"a":{' * 3000])
def test_hostile_text_neither_raises_nor_loops(text: str) -> None:
    assert parse_tool_calls(text)[1] == ()
