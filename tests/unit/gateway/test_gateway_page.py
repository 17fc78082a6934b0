"""The page's files: what they weigh, what they may not do, and its pure modules run under Node."""

from __future__ import annotations

import gzip
import itertools
import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from deploy.web import WEB, find_node
from fathom.core.errors import MissingExtra
from fathom.services.gateway.page import find_page, read_bundle
from tests.e2e.replay import ReplayHouse
from tests.e2e.script import ANSWER, HOSTILE, Script

Runner = Callable[[str, Any], Any]
Trees = Callable[..., list[list[dict[str, Any]]]]
Door = tuple[httpx.AsyncClient, ReplayHouse]
PAGE = find_page()
SOURCES = sorted((*WEB.glob("*.html"), *(path for path in (WEB / "src").rglob("*") if path.is_file())))
# Modules without a document.
PURE = (
    "answer/markdown",
    "answer/figures/series",
    "answer/figures/thinning",
    "answer/tables/tsv",
    "base/dictionary",
    "base/negatives",
    "base/words",
    "composer/picker/trigger",
    "conversation/threads",
    "run/evidence",
    "run/marks",
    "run/run",
    "run/slots",
    "run/suggestions",
    "run/uses",
    "staff/dashboard/run-list",
    "staff/dashboard/summary",
    "staff/dictionary",
    "staff/review/compare",
)
STYLES = WEB / "src" / "styles" / "base.css"
TAGS = {
    "p", "h1", "h2", "h3", "h4", "h5", "h6", "strong", "em", "del", "code", "pre", "blockquote", "ul", "ol", "li", "hr",
    "br", "table", "thead", "tbody", "tr", "th", "td", "span", "a", "x-cite", "x-ref", "x-table",
}  # fmt: skip
KEYS = {"tag", "children", "href", "title", "start", "align", "number", "numbers", "kind", "name"}


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the page's pure modules as Node reads them, each under its own name."""
    target = tmp_path_factory.mktemp("modules")
    program = (
        "import { build } from 'vite';"
        "const [out, ...names] = input;"
        "const entries = Object.fromEntries(names.map((name) => [name, `src/${name}.ts`]));"
        "const rolldownOptions = { input: entries, output: { entryFileNames: '[name].js' } };"
        "await build({ configFile: false, logLevel: 'error', ssr: { noExternal: true },"
        "  build: { ssr: true, outDir: out, rolldownOptions } });"
        "print(names.length);"
    )
    assert run_node(program, [str(target), *PURE]) == len(PURE)
    return target


def run_node(program: str, value: Any) -> Any:
    """Run an ES module that sees ``value`` as ``input`` and calls ``print`` once with a JSON value."""
    node = find_node(WEB)
    assert node is not None, "there is no Node: `make dev` installs one where the machine has none"
    frame = "const print = (value) => process.stdout.write(JSON.stringify(value));"
    source = f"{frame}const input = {json.dumps(value)};{program}"
    done = subprocess.run(
        [node.program, "--input-type=module", "-e", source], cwd=WEB, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def run_module(modules: Path) -> Runner:
    """Return a function that runs a program with an input; ``load`` imports one of the page's modules in it."""
    load = f"const load = (name) => import({json.dumps(modules.as_uri())} + '/' + name + '.js');"
    return lambda program, value: run_node(load + program, value)


@pytest.fixture
def trees(run_module: Runner) -> Trees:
    """Return a function that gives the nodes of each text, all in one run of Node."""
    program = (
        "const { parse } = await load('answer/markdown');"
        "print(input.map((text) => parse(text).flatMap((block) => block.nodes)));"
    )
    return lambda *texts: run_module(program, texts)


def walk(node: Any) -> list[dict[str, Any]]:
    """All elements below and including ``node``."""
    if isinstance(node, str):
        return []
    return [node, *(found for child in node["children"] for found in walk(child))]


def text_of(node: Any) -> str:
    return node if isinstance(node, str) else "".join(text_of(child) for child in node["children"])


def test_markdown_is_read_as_commonmark_has_it(run_module: Runner) -> None:
    """Examples of the specification that are no HTML; the page makes links of bare addresses, as GitHub does."""
    found = run_module((Path(__file__).with_name("commonmark.js")).read_text(encoding="utf-8"), None)
    assert [number for number, _, _ in found["failed"]] == [602, 608, 611], found["failed"]
    assert found["passed"] >= 570, found


def test_chinese_emphasis_needs_no_spaces(trees: Trees) -> None:
    """CommonMark reads ``**`` between a full stop and a character as text; Chinese models write it all the time."""
    [nodes] = trees("**结论：**苹果上涨**12%。**微软也涨了 https://a.cn/x。后面")
    assert [child["tag"] for child in nodes[0]["children"] if not isinstance(child, str)] == ["strong", "strong", "a"]
    assert nodes[0]["children"][-2]["href"] == "https://a.cn/x"


def test_markdown_becomes_the_expected_tree(trees: Trees) -> None:
    [nodes] = trees(
        "# Title\n\nSome **bold**, *it*, `co<de>` and snake_case_name [2, 3].\n\n1. one\n2. two\n   - deep\n"
    )
    assert [node["tag"] for node in nodes] == ["h1", "p", "ol"]
    assert [child["tag"] for child in nodes[1]["children"] if not isinstance(child, str)] == [
        "strong", "em", "code", "x-cite", "x-cite",
    ]  # fmt: skip
    assert "snake_case_name" in text_of(nodes[1])
    assert nodes[2]["children"][1]["children"][-1]["tag"] == "ul"


def test_references_stand_on_their_own_wherever_they_are_written(trees: Trees) -> None:
    [nodes, code] = trees("See {{table:sheet_1}} and {{figure:fig_1}}.", "```\n{{table:sheet_1}}\n```\n`{{figure:x}}`")
    assert [(node["tag"], node.get("kind"), node.get("name")) for node in nodes] == [
        ("p", None, None), ("x-ref", "table", "sheet_1"), ("p", None, None), ("x-ref", "figure", "fig_1"),
    ]  # fmt: skip
    assert code[0]["tag"] == "pre"
    assert text_of(code[0]) == "{{table:sheet_1}}"


def test_tables_of_the_model_are_tables(trees: Trees) -> None:
    # In a cell it has no room: its name stays there, and it stands below the table.
    [table, figure] = trees("| a | b |\n|---|---|\n| Apple [1] | {{figure:fig_1}} |")[0]
    assert (table["tag"], figure["tag"], figure["name"]) == ("x-table", "x-ref", "fig_1")
    assert "x-ref" not in json.dumps(table)
    assert '"tag": "code", "children": ["fig_1"]' in json.dumps(table)
    [answer, words] = trees(ANSWER, "| a | b |\n|---|---|\n| x | y |")
    assert len([node for node in answer if node["tag"] == "x-table"]) == 1
    assert words[0]["tag"] == "x-table"


HOSTILE_TEXTS = [
    HOSTILE,
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "[a](javascript:alert(1)) [b](JaVaScRiPt:alert(1)) [c](data:text/html,x) [d](vbscript:x)",
    "[a](//evil.example) [b](/\\evil.example) [c](\\\\evil.example) [d](http:evil) [e](&#106;avascript:alert(1))",
    "[a](java\nscript:alert(1)) ![x](javascript:alert(1)) <javascript:alert(1)>",
    "[a](https://ok.example\" onmouseover=\"alert(1)) [b](https://ok.example/'onx='1)",
    '{{table:"><script>alert(1)</script>}} {{figure:__proto__}} {{table:constructor}}',
    "[<b onclick=alert(1)>x</b>](https://ok.example) `<b>` **<i>**",
    "| <script> | b |\n|---|---|\n| <img onerror=1> | [x](javascript:1) |",
    "> <svg onload=alert(1)>\n> - <iframe>\n>   ```html\n>   <script>",
    "```<script>\n</code></pre><script>alert(1)</script>",
]


def test_no_markup_of_a_model_becomes_an_element(trees: Trees) -> None:
    for text, nodes in zip(HOSTILE_TEXTS, trees(*HOSTILE_TEXTS), strict=True):
        elements = [element for node in nodes for element in walk(node)]
        assert {element["tag"] for element in elements} <= TAGS, text
        assert {key for element in elements for key in element} <= KEYS, text
        for element in elements:
            if "href" in element:
                assert re.fullmatch(r"https?://[^\s\\]+|/(?![/\\])[^\s\\]*|#[^\s\\]*", element["href"]), text


@pytest.mark.parametrize(
    "text",
    ["*" * 50_000, "[" * 50_000, "`" * 50_001, "_a" * 25_000, "> " * 3_000, "- " * 3_000, "|-" * 20_000, "{{" * 9_000],
)
def test_no_text_takes_long(text: str, trees: Trees) -> None:
    assert trees(text)[0] is not None


def test_every_prefix_of_an_answer_can_be_shown(run_module: Runner) -> None:
    program = (
        "const { parse, settled } = await load('answer/markdown');"
        "const half = [];"
        "for (let i = 0; i <= input.length; i += 1) {"
        "  const text = settled(input.slice(0, i));"
        "  parse(text);"
        "  if (/\\{\\{[^}]*$|\\[\\d*$/.test(text)) half.push(i);"
        "}"
        "print(half);"
    )
    assert run_module(program, ANSWER) == []


def test_a_run_is_the_same_from_its_events_and_from_its_record(run_module: Runner) -> None:
    from google.protobuf.json_format import MessageToDict

    from fathom.api.planner.v1 import planner_pb2 as planner

    script = Script(days=3)
    request = planner.RunRequest(request_id="run_1", question="why?", model="rules")
    events = list(script.events(request))
    options: Any = {"preserving_proto_field_name": True, "always_print_fields_with_no_presence": True}
    record = planner.GetRunResponse(trajectory=script.trajectory(request, events))
    given = {
        "events": [MessageToDict(event, **options) for event in events],
        "record": MessageToDict(record, **options),
    }
    program = (
        "const { Run } = await load('run/run');"
        "const live = new Run('run_1', 'why?');"
        "const twice = [...input.events, ...input.events].map((event) => live.apply(event));"
        "const old = new Run('run_1', 'why?').load(input.record);"
        "const facts = (run) => [run.state, run.text, run.model, [...run.cited], run.items.map((item) => item.number),"
        "  run.calls.map((row) => [row.tool, row.intent, row.status, row.ms]), Boolean(run.sheet('sheet_1'))];"
        "print({ live: facts(live), old: facts(old), taken: twice.filter(Boolean).length, conversation: live.conversation });"
    )
    found = run_module(program, given)
    assert found["live"] == found["old"]
    assert found["taken"] == len(events)
    assert found["conversation"] == "conv_run_1"
    assert [row[2] for row in found["live"][5]] == ["ok", "ok", "ok", "failed", "ok"]


def test_a_draft_is_read_until_it_is_taken_back(run_module: Runner) -> None:
    from google.protobuf.json_format import MessageToDict

    from fathom.api.planner.v1 import planner_pb2 as planner

    script = Script(days=3, drafts=["Wrong by 999.9 %. ", "Better. "])
    request = planner.RunRequest(request_id="run_1", question="why?", model="rules")
    options: Any = {"preserving_proto_field_name": True, "always_print_fields_with_no_presence": True}
    program = (
        "const { Run } = await load('run/run');"
        "const run = new Run('run_1', 'why?');"
        "const seen = input.map((event) => (run.apply(event), [run.text, run.draft]));"
        "print({ seen, replaced: run.rows.filter((row) => row.mark === 'replaced').map((row) => row.why) });"
    )
    found = run_module(program, [MessageToDict(event, **options) for event in script.events(request)])
    texts = [text for text, before in zip(found["seen"], [["", False], *found["seen"]], strict=False) if text != before]
    assert texts[:4] == [["Wrong by 999.9 %. ", True], ["", False], ["Better. ", True], ["", False]]
    assert texts[-1] == [script.answer, False]
    assert found["replaced"] == ["correction", "correction"]


def test_a_question_that_was_made_whole_is_known_before_the_answer_and_from_the_record(run_module: Runner) -> None:
    program = (
        "const { Run } = await load('run/run'); const run = new Run('run_1', 'And Microsoft?');"
        "const event = (sequence, stage) => run.apply({ sequence, time: '2024-01-01T00:00:00Z', staged: { step: 0, stage } });"
        "const seen = [run.understood]; event(1, input); seen.push(run.understood); event(2, { name: 'plan', text: '' });"
        "const kept = new Run('run_1', 'And Microsoft?').load({ trajectory: { understood: input.text, steps: [] } });"
        "const same = new Run('run_1', input.text).load({ trajectory: { understood: input.text, steps: [] } });"
        "print([...seen, run.understood, kept.understood, same.understood]);"
    )
    whole = "What was Microsoft's drawdown?"
    found = run_module(program, {"name": "rewrite", "text": whole, "queries": [], "flaws": []})
    assert found == ["", whole, whole, whole, ""]


def test_copied_cells_stay_cells_and_texts(run_module: Runner) -> None:
    """A tab or a line end in a cell would be another cell, and a spreadsheet would compute what looks like a formula."""
    program = "const { asTsv } = await load('answer/tables/tsv'); print(asTsv(['a', 'b'], input, ['source: x']).split('\\n'));"
    rows = [["x\ty\r\nz", -1.5], ['=HYPERLINK("http://x")', None], ["-1", True]]
    assert run_module(program, rows) == [
        "a\tb", "x y z\t-1.5", "'=HYPERLINK(\"http://x\")\t", "'-1\ttrue", "", "source: x",
    ]  # fmt: skip


def test_negative_numbers_stand_in_parentheses_where_the_reader_wants_it(run_module: Runner) -> None:
    """Shown and copied: spreadsheets take (1.5) for the same number; text and what rounds to nothing stay as they are."""
    program = (
        "const { enclosed, setNegatives } = await load('base/negatives'); const { asCsv, asTsv } = await load('answer/tables/tsv');"
        "const written = () => [...['-1,234.50', '-0.00', '2'].map(enclosed), ...input.map((one) => asTsv(['x'], [[one]], []).slice(2))];"
        "const before = written(); setNegatives('parentheses');"
        "print([before, written(), asCsv(['x'], [[-1e-7]], []).includes('(1e-7)')]);"
    )
    before, after, is_enclosed = run_module(program, [-1234.5, 2, None, "-3"])
    assert before == ["-1,234.50", "-0.00", "2", "-1234.5", "2", "", "'-3"]
    assert after == ["(1,234.50)", "-0.00", "2", "(1234.5)", "2", "", "'-3"]
    assert is_enclosed


def test_other_words_take_the_place_of_a_slot(run_module: Runner) -> None:
    """Places are code points; what only the model stated is added behind the question."""
    question = "📈 of Apple in 2020?"
    start = question.index("Apple")
    slots = [{"start": start, "end": start + 5}, {"start": 0, "end": 0}, {"start": 3, "end": 900}]
    program = (
        "const { reworded } = await load('run/slots');"
        "print(input.slots.map((slot) => reworded(input.question, slot, '微软')));"
    )
    assert run_module(program, {"question": question, "slots": slots}) == [
        "📈 of 微软 in 2020?", f"{question} (微软)", f"{question} (微软)",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("@app", ["@", "app", 0]),
        ("Compare @app", ["@", "app", 8]),
        ("比较@苹", ["@", "苹", 2]),
        ("See #growth of", ["#", "growth of", 4]),
        ("/se", ["/", "se", 0]),
        ("What is 1/2", None),
        ("mail a@b", None),
        ("in C# now", None),
        ("@ apple", None),
        ("@apple. And", None),
        ("/se\nnext", None),
    ],
)
def test_a_sign_begins_a_pick_only_where_a_name_could_begin(run_module: Runner, text: str, found: list[Any]) -> None:
    program = (
        "const { findTrigger } = await load('composer/picker/trigger');"
        "const found = findTrigger(input, input.length);"
        "print(found && [found.sign, found.query, found.start]);"
    )
    assert run_module(program, text) == found


def test_what_is_picked_stands_in_the_place_of_its_sign(run_module: Runner) -> None:
    program = (
        "const { complete, findTrigger } = await load('composer/picker/trigger');"
        "print(input.map(([text, caret]) => complete(text, findTrigger(text, caret), 'Apple (AAPL)')));"
    )
    assert run_module(program, [["Did @ap rise?", 7], ["Did @ap", 7], ["@ap，2020", 3]]) == [
        {"text": "Did Apple (AAPL) rise?", "caret": 16},
        {"text": "Did Apple (AAPL) ", "caret": 17},
        {"text": "Apple (AAPL)，2020", "caret": 12},
    ]


def test_a_conversation_is_shown_one_way_at_a_time(run_module: Runner) -> None:
    """Turn 4 asks 2 otherwise, 5 follows it, 6 follows 3; 7 follows one that is gone."""
    parents = {1: 0, 2: 1, 3: 2, 4: 1, 5: 4, 6: 3, 7: 99}
    turns = [{"number": number, "parent": parent, "run_id": f"run_{number}"} for number, parent in parents.items()]
    program = (
        "const { Threads } = await load('conversation/threads'); const threads = new Threads(); threads.take(input);"
        "const numbers = (turns) => turns.map(({ number }) => number);"
        "print({ paths: [6, 5, 7].map((at) => numbers(threads.pathTo(at))), newest: threads.newest,"
        "  versions: ['run_2', 'run_5', 'run_1'].map((run) => numbers(threads.versionsOf(threads.find(run)))),"
        "  after: [1, 2, 4].map((at) => threads.newestAfter(at)), more: [1, 5].map((at) => threads.hasFollowers(at)) });"
    )
    assert run_module(program, turns) == {
        "paths": [[1, 2, 3, 6], [1, 4, 5], [7]],
        "newest": 7,
        "versions": [[2, 4], [5], [1, 7]],
        "after": [6, 6, 5],
        "more": [True, False],
    }


def read_slots(question: str, *slots: tuple[str, str, str, str]) -> dict[str, Any]:
    """Return a reading of slots of kind, words, value and state, each at its words."""
    placed = [
        {
            "kind": f"MENTION_KIND_{kind}", "text": text, "value": value, "state": f"SLOT_STATE_{state}",
            "start": question.index(text), "end": question.index(text) + len(text),
        }
        for kind, text, value, state in slots
    ]  # fmt: skip
    return {"question": question, "line": "", "slots": placed}


def test_suggestions_come_from_the_record_and_from_nothing_else(run_module: Runner) -> None:
    asked = "How volatile was Apple from 2015 to 2016, and its beta?"
    reading = read_slots(
        asked,
        ("MEASURE", "volatile", "volatility", "FILLED"),
        ("ENTITY", "Apple", "AAPL", "FILLED"),
        ("PERIOD", "from 2015 to 2016", "2015-01-01/2016-12-31", "FILLED"),
        ("MEASURE", "beta", "beta", "OPEN"),
    )
    chinese = "苹果2020年的波动率和贝塔"
    read = read_slots(
        chinese,
        ("MEASURE", "波动率", "volatility", "FILLED"),
        ("ENTITY", "苹果", "AAPL", "FILLED"),
        ("PERIOD", "2020年", "2020-01-01/2020-12-31", "FILLED"),
        ("MEASURE", "贝塔", "beta", "OPEN"),
    )

    def reach(day: str) -> dict[str, Any]:
        return {"number": 2, "sheet": {"columns": [{"as_of": ""}, {"as_of": day}]}}

    missing = {"number": 4, "missing": {"subject": "Appel", "nearest": ["Apple", "Appian"]}}
    runs = [
        {"question": asked, "reading": reading, "items": [reach("2018-12-31")]},
        {"question": asked, "reading": reading, "items": [reach("2018-12-30")]},
        {"question": chinese, "reading": read, "items": [reach("2022-12-31")]},
        {"question": "Did Appel rise?", "reading": None, "items": [missing]},
        {"question": "Did Appel rise more than Apple?", "reading": None, "items": [missing]},
        {"question": "Why?", "reading": None, "items": []},
    ]
    program = (
        "const { suggest } = await load('run/suggestions');"
        "print(input.map((run) => suggest(run).map(({ question, why }) => [why, question])));"
    )
    alone = ["open", "beta of Apple, from 2015 to 2016"]
    assert run_module(program, runs) == [
        [alone, ["later", "How volatile was Apple from 2017 to 2018, and its beta?"]],
        [alone],
        [["open", "苹果2020年的贝塔"], ["later", "苹果2021年的波动率和贝塔"]],
        [["nearest", "Did Apple rise?"]],
        [],
        [],
    ]


def test_a_chip_shows_its_meaning_and_words_of_two_slots_the_more_doubtful_state(run_module: Runner) -> None:
    slots = [
        {"kind": "MENTION_KIND_ENTITY", "text": "Apple", "value": "AAPL", "start": 0, "end": 5, "state": "SLOT_STATE_FILLED"},
        {"kind": "MENTION_KIND_ENTITY", "text": "aapl", "value": "AAPL", "start": 6, "end": 10, "state": "SLOT_STATE_FILLED"},
        {"kind": "MENTION_KIND_PERIOD", "text": "2020", "value": "2020-01-01/2020-12-31", "start": 11, "end": 15},
        {"kind": "MENTION_KIND_PERIOD", "text": "2020-02-03", "value": "2020-02-03", "start": 16, "end": 26},
        {"kind": "MENTION_KIND_MEASURE", "text": "how many", "value": "count", "start": 27, "end": 35, "state": "SLOT_STATE_FILLED"},
        {"kind": "MENTION_KIND_OUTPUT", "text": "how many", "value": "count", "start": 27, "end": 35, "state": "SLOT_STATE_OPEN"},
    ]  # fmt: skip
    program = (
        "const { distinct, meaningOf, stateOf } = await load('run/slots');"
        "print(distinct(input).map((slot) => [slot.text, meaningOf(slot), stateOf(slot)]));"
    )
    assert run_module(program, slots) == [
        ["Apple", "AAPL", "filled"], ["aapl", "", "filled"], ["2020", "2020-01-01 – 2020-12-31", "unsure"],
        ["2020-02-03", "", "unsure"], ["how many", "", "open"],
    ]  # fmt: skip


def test_options_of_a_question_back_leave_the_text_for_buttons(run_module: Runner) -> None:
    program = (
        "const { withoutOptions } = await load('run/run');"
        "print([withoutOptions(input, ['one?', 'two?']), withoutOptions(input, [])]);"
    )
    text = "Which one?\n- one?\n- two?\n- another list"
    assert run_module(program, text) == ["Which one?\n- another list", text]


def test_marks_are_put_in_by_code_points_and_come_out_as_parts(run_module: Runner) -> None:
    """Marks cover what the finding names, whatever stands before it; without them the text is the text."""
    text = "📈 Up 12.3% in *2020* [1]. All of it is **said twice** and goes on. \ue0005\ue002 end"
    findings = [
        {"start": text.index(words), "end": text.index(words) + len(words), "kind": f"FINDING_KIND_{kind}"}
        for words, kind in (
            ("12.3%", "NUMBER"),
            ("All of it is **said twice** and goes on.", "REPEATED"),
            ("end", "TIME"),
            ("Up", "UNCHECKED"),
        )
    ]
    findings += [
        {"start": 90_000, "end": -3, "kind": "FINDING_KIND_TIME"},
        {"start": 0, "end": 5, "kind": "FINDING_KIND_FIGURE"},
    ]
    program = (
        "const { marked, parts, unmarked } = await load('run/marks');"
        "const text = marked(input.text, input.findings);"
        "print({ parts: parts(text), plain: unmarked(text), alone: parts('a \\ue0007\\ue002b') });"
    )
    found = run_module(program, {"text": text, "findings": findings})
    assert found["plain"] == text.replace("\ue000", "\ufffd").replace("\ue002", "\ufffd")
    assert {"index": 0, "text": "12.3%"} in found["parts"]
    assert {"index": 1} in found["parts"]
    assert {"index": 2, "text": "end"} in found["parts"]
    assert {"index": 3, "text": "Up"} in found["parts"]
    assert found["alone"] == ["a ", {"index": 7}, "b"]


def test_what_a_citation_rests_on_is_found(run_module: Runner) -> None:
    rows = [["2015-01-02T00:00:00", 24.532], ["2015-01-05T00:00:00", 23.841]]
    page = {"columns": [{"name": "date"}, {"name": "AAPL.close"}], "rows": rows}
    program = (
        "const { cellsIn, distinctCells, linesBehind, partsBehind, sentencesOf } = await load('run/evidence');"
        "const both = cellsIn(input, 'It fell from 24.53 to 23.84');"
        "print([cellsIn(input, 'On 2015-01-05 it was 23.84'), cellsIn(input, 'On 2015-01-02 it was 23.84'),"
        " cellsIn(input, 'It was 24.5'), cellsIn(input, 'no number'),"
        " distinctCells([[null, both[1]], both, [both[1], null]]), distinctCells([]),"
        " linesBehind(['return 12.3', 'drawdown -38.5'], 'It fell by 38.5%'), linesBehind(['a'], 'b'),"
        " sentencesOf('One. Two!\\n三。四'),"
        " partsBehind('A note. The price return leaves out dividends. With adjusted prices it does not. End.',"
        " 'The price return was 5%'), partsBehind('A note.', 'Nothing alike')]);"
    )
    first = {"day": "2015-01-02", "column": "AAPL.close", "value": 24.532}
    last = {"day": "2015-01-05", "column": "AAPL.close", "value": 23.841}
    assert run_module(program, page) == [
        [last], [None], [first], [], [first, last], [],
        ["drawdown -38.5"],
        [],
        ["One.", "Two!", "三。", "四"],
        ["The price return leaves out dividends. With adjusted prices it does not."],
        [],
    ]  # fmt: skip


def test_every_line_that_a_sentence_rests_on_is_found(run_module: Runner) -> None:
    printed = ["Apple -38.52", "Nvidia -66.36", "rows 1511", "Microsoft -28.04", "Microsoft -28.04"]
    text = (
        "Sales in Europe fell by a tenth. Only Germany grew. Nobody knows why. "
        "The board expects costs of 12.5 million for the closure. It may revise them. An end."
    )
    program = (
        "const { linesBehind, partsBehind } = await load('run/evidence');"
        "print([linesBehind(input.printed, 'Apple fell by 38.5 %, Microsoft by 28.0 %'),"
        " linesBehind(input.printed, 'Apple and others fell'),"
        " partsBehind(input.text, 'Sales in Europe fell and the closure costs 12.5 million'),"
        " linesBehind(Array.from({ length: 9 }, (_, n) => `series ${n}.25`), "
        "  Array.from({ length: 9 }, (_, n) => `${n}.25`).join(' and ')).length]);"
    )
    assert run_module(program, {"printed": printed, "text": text}) == [
        ["Apple -38.52", "Microsoft -28.04"],
        ["Apple -38.52"],
        [
            "Sales in Europe fell by a tenth. Only Germany grew.",
            "The board expects costs of 12.5 million for the closure. It may revise them.",
        ],
        6,
    ]


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)
def test_files_write_no_html_and_name_nothing_outside(path: Any) -> None:
    text = path.read_text(encoding="utf-8")
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function", text)
    outside = set(re.findall(r"https?://[a-z][\w.-]+", text)) - {"http://www.w3.org"}
    assert outside == set()
    assert len(text.splitlines()) < 300


def test_the_page_is_light_and_so_is_what_draws_figures() -> None:
    """Packed as it travels; the library of figures is a file of its own, which is loaded with the first one."""
    files = [path for path in PAGE.rglob("*") if path.is_file()]
    assert files, f"{PAGE} has no page: `make dev` builds it"
    sizes = {path.name: len(gzip.compress(path.read_bytes())) for path in files}
    figures = sum(size for name, size in sizes.items() if name.startswith("plotly-"))
    assert 100_000 < figures < 450_000, sizes
    first = list_first_files(PAGE)
    assert sum(sizes[name] for name in first) < 250_000, {name: sizes[name] for name in first}
    # Each of the others is read when it is wanted, such as a dialog that is opened, or the area of the staff.
    later = {name: size for name, size in sizes.items() if name not in first and not name.startswith("plotly-")}
    assert any(name.startswith("staff-") for name in later), sizes
    assert max(later.values()) < 40_000, later


def list_first_files(folder: Path) -> set[str]:
    """Return the names of what a browser reads before it shows the page: what it names, and what that imports."""
    first, waiting = set[str](), ["index.html"]
    while waiting:
        name = waiting.pop()
        if name in first:
            continue
        first.add(name)
        text = next(folder.rglob(name)).read_text(encoding="utf-8")
        found = r'(?:src|href)="\./static/([^"]+)"' if name.endswith(".html") else r'(?:from|import)\s*"\./([^"]+)"'
        waiting += [Path(path).name for path in re.findall(found, text)]
    return first


def test_a_figure_of_many_points_draws_fewer_and_keeps_its_peaks_its_gaps_and_all_values(run_module: Runner) -> None:
    """Packed numbers too; what a trace has for each point goes with it, and a stack or a short figure is left alone."""
    program = (
        "const { thin } = await load('answer/figures/thinning');"
        "const size = 20000, day = Array.from({ length: size }, (_, place) => place);"
        "const y = Float64Array.from(day, (place) => Math.sin(place / 900)); y[7777] = 50; y[12345] = -50; y[400] = NaN;"
        "const packed = { dtype: 'f8', bdata: Buffer.from(y.buffer).toString('base64') };"
        "const line = { type: 'scatter', x: day, y: packed, customdata: day, name: 'line' };"
        "const cloud = { type: 'scatter', mode: 'markers', x: day.slice(0, 4000), y: day.slice(0, 4000), marker: { color: day.slice(0, 4000), size: 3 } };"
        "const { traces, whole, shown, all } = thin([line, cloud, { type: 'bar', x: [1], y: [2] }]);"
        "const [drawn, dots, bars] = traces;"
        "print({ shown, all, lengths: [drawn.x.length, drawn.y.length, drawn.customdata.length], kept: [400, 7777, 12345, 0, 19999].map((place) => drawn.x.includes(place)),"
        " values: drawn.y[drawn.x.indexOf(7777)], ordered: drawn.x.every((one, place) => !place || one > drawn.x[place - 1]), whole: whole[0].y.length,"
        " dots: [dots.x.length === dots.marker.color.length, dots.marker.size, dots.x.length], bars, name: drawn.name,"
        " none: [thin([{ ...line, stackgroup: 'one' }]), thin([{ ...line, x: day.slice(0, 5000), y: day.slice(0, 5000) }]), thin([{ ...line, x: undefined }])] });"
    )
    found = run_module(program, None)
    assert found["all"] == 24_000
    assert 3_000 < found["shown"] <= 5_000
    assert found["lengths"] == [found["lengths"][0]] * 3
    assert found["kept"] == [True] * 5
    assert (found["values"], found["ordered"], found["whole"], found["name"]) == (50, True, 20_000, "line")
    assert found["dots"] == [True, 3, 833]
    assert found["bars"] == {"type": "bar", "x": [1], "y": [2]}
    assert found["none"] == [None, None, None]


def test_an_answer_uses_a_table_that_it_cites_shows_or_computes_from(run_module: Runner) -> None:
    program = (
        "const { usesDocument, usesSheet } = await load('run/uses');"
        "print(input.map(([text, cited, items]) => ['a', 'b'].map((id) => usesSheet({ text, cited: new Set(cited), items }, id)).concat("
        "usesDocument({ text, cited: new Set(cited), items }, 'memo.pdf'))));"
    )
    a = {"number": 1, "sheet": {"id": "a"}, "variable": "sheet_1"}
    b = {"number": 2, "sheet": {"id": "b"}, "variable": "sheet_10", "computed_from": ["sheet_1"], "computed_by": 3}
    code = {"number": 3, "code": {"code": "sheet_1.mean()", "figures": [{"id": "fig_1"}]}}
    memo = {"number": 4, "passage": {"source": "memo.pdf", "own": True}}
    cases = [
        ["", [1], [a, b]],
        ["{{table:sheet_1}}", [], [a, b]],
        # What is computed from a table rests on it, and not the other way round.
        ["{{table:sheet_10}}", [], [a, b]],
        ["", [3], [a, b, code]],
        ["{{figure:fig_1}}", [], [a, b, code]],
        ["nothing", [4], [a, b, code, memo]],
        ["nothing", [], [a, b, code, memo]],
    ]
    assert run_module(program, cases) == [
        [True, False, False], [True, False, False], [True, True, False], [True, False, False], [True, False, False],
        [False, False, True], [False, False, False],
    ]  # fmt: skip


def test_values_behind_a_figure_are_rows_for_a_spreadsheet(run_module: Runner) -> None:
    """One row per place on the axis, whatever the traces have there; shares have a row per name."""
    program = (
        "const { gridOf } = await load('answer/figures/series'); const { asCsv } = await load('answer/tables/tsv');"
        "print([gridOf(input.lines, 'date'), gridOf(input.pie, 'name'), asCsv(['a', 'b,c'], [[1, '=1+1'], [null, 'x\"y']], ['source: z', '']), gridOf(input.bars, 'date')]);"
    )
    lines = [
        {"name": "A", "x": ["2020-01-01", "2020-01-02"], "y": [1, 2]}, {"x": ["2020-01-02", "2020-01-03"], "y": [5, None]},
    ]  # fmt: skip
    pie = [{"type": "pie", "labels": ["a", "b"], "values": [3, 4]}]
    price = {
        "type": "candlestick",
        "x": ["2020-01-01", "2020-01-02"],
        "open": [1, 2],
        "high": [4, 5],
        "low": [0.5, 1],
        "close": [2, 3],
    }
    grid, shares, text, bars = run_module(
        program, {"lines": lines, "pie": pie, "bars": [{**price, "name": "A"}, lines[0]]}
    )
    assert bars == {
        "header": ["date", "A open", "A high", "A low", "A close", "A"],
        "rows": [["2020-01-01", 1, 4, 0.5, 2, 1], ["2020-01-02", 2, 5, 1, 3, 2]],
    }
    assert grid == {
        "header": ["date", "A", "series 2"],
        "rows": [["2020-01-01", 1, None], ["2020-01-02", 2, 5], ["2020-01-03", None, None]],
    }
    assert shares["rows"] == [["a", 3], ["b", 4]]
    assert text == '\ufeffa,"b,c"\r\n1,\'=1+1\r\n,"x""y"\r\n\r\nsource: z\r\n'


def test_both_languages_have_every_word(run_module: Runner) -> None:
    """The staff's area has words of its own, and where it has none those of the page."""
    program = (
        "const { WORDS, EXAMPLES } = await load('base/dictionary'); const { STAFF_WORDS } = await load('staff/dictionary');"
        "print([...[WORDS, STAFF_WORDS].flatMap(({ en, zh }) => [Object.keys(en), Object.keys(zh)]), EXAMPLES.en.length, EXAMPLES.zh.length]);"
    )
    english, chinese, of_staff, of_staff_chinese, examples, chinese_examples = run_module(program, None)
    # English says some things otherwise of one; Chinese nothing.
    ones = {key for key in english if key.endswith("_one")}
    assert {key.removesuffix("_one") for key in ones} <= set(english)
    assert set(english) - ones == set(chinese)
    assert set(of_staff) == set(of_staff_chinese)
    assert examples == chinese_examples
    pattern = re.compile(r'(?:(word|say)\(|data-(?:word|label|placeholder)=)"(\w+)"')
    counted = re.compile(r'(?:counted|plural)\([^"\n]*"(\w+)"')
    assert {found for path in SOURCES for found in counted.findall(path.read_text(encoding="utf-8"))} <= set(english)
    used = {found for path in SOURCES for found in pattern.findall(path.read_text(encoding="utf-8"))}
    assert {key for name, key in used if name != "say"} <= set(english)
    assert {key for name, key in used if name == "say"} <= {*english, *of_staff}


def test_one_is_said_otherwise_than_many(run_module: Runner) -> None:
    program = (
        "globalThis.navigator ??= { language: 'en' };"
        "const { counted, plural, setLanguage } = await load('base/words');"
        "const say = (language) => { setLanguage(language); return [0, 1, 2].flatMap((n) => [counted(n, 'rows'), plural('tooLong', n)]); };"
        "print([say('en'), say('zh')]);"
    )
    english, chinese = run_module(program, None)
    many = "{over} characters over the limit of {most}"
    assert english == ["0 rows", many, "1 row", "{over} character over the limit of {most}", "2 rows", many]
    assert chinese == [text for n in range(3) for text in (f"{n} 行", "超出上限 {most} 个字符，多 {over} 个")]


def test_lines_far_from_a_change_are_left_out_and_counted(run_module: Runner) -> None:
    program = "const { fold } = await load('staff/review/compare'); print(input.map((given) => fold(...given)));"
    lines = [str(number) for number in range(20)]
    text = "\n".join(lines)
    between, behind, before, short = run_module(
        program, [[text, True, True], [text, True, False], [text, False, True], ["a\nb", True, True]]
    )
    assert between == {"head": "0\n1\n2\n3\n", "lines": 12, "tail": "16\n17\n18\n19"}
    assert behind == {"head": "0\n1\n2\n3\n", "lines": 16, "tail": ""}
    assert before == {"head": "", "lines": 16, "tail": "16\n17\n18\n19"}
    assert short == {"head": "a\nb", "lines": 0, "tail": ""}


def test_an_edit_is_compared_word_by_word_in_both_languages(run_module: Runner) -> None:
    """Parts that stay, go and come make both texts again; texts that share nothing are not compared in pieces."""
    program = "const { compare } = await load('staff/review/compare'); print(input.map(([a, b]) => compare(a, b)));"
    pairs = [
        ("Revenue of AAA in 2020", "Revenue of BBB in 2020"), ("茅台2021年的净利润", "茅台2021年归母净利润"),
        (" ".join(map(str, range(4_000))), " ".join(map(str, range(5_000, 9_000)))), ("", "new"),
    ]  # fmt: skip
    found = run_module(program, pairs)
    for (before, after), parts in zip(pairs, found, strict=True):
        assert "".join(part["value"] for part in parts if not part["added"]) == before
        assert "".join(part["value"] for part in parts if not part["removed"]) == after
    changed = [[part["value"] for part in parts if part["added"] or part["removed"]] for parts in found]
    assert changed[:2] == [["AAA", "BBB"], ["的", "归母"]]
    assert len(changed[2]) == 2


def test_only_the_first_page_of_runs_and_those_with_running_ones_are_read_again(run_module: Runner) -> None:
    def page(*runs: str) -> dict[str, Any]:
        states = {"run": "UNSPECIFIED", "end": "FINISHED"}
        return {
            "runs": [{"run_id": run, "stop_reason": f"STOP_REASON_{states[run[:3]]}"} for run in runs],
            "next_page_token": "t",
        }

    program = (
        "const { pagesToRead, merge } = await load('staff/dashboard/run-list');"
        "print([pagesToRead(input.pages), merge(...input.merged).runs.map((run) => run.run_id)]);"
    )
    pages = [page("end_9"), page("end_8"), page("end_7", "run_6"), page("end_5")]
    merged = [page("run_9", "end_8"), page("run_10", "end_9")]
    read, runs = run_module(program, {"pages": pages, "merged": merged})
    assert read == [0, 2]
    # What a new run has pushed off the page stays in the list.
    assert runs == ["run_10", "end_9", "run_9", "end_8"]


def test_figures_of_runs_are_by_state_and_by_model(run_module: Runner) -> None:
    program = "const { summarize } = await load('staff/dashboard/summary'); print(summarize(input));"

    def run(reason: str, model: str, seconds: int = 0, **usage: Any) -> dict[str, Any]:
        # As protobuf's JSON has them: 64-bit numbers are text.
        return {
            "stop_reason": f"STOP_REASON_{reason}",
            "model": model,
            "start_time": "2026-01-01T00:00:00Z",
            "end_time": f"2026-01-01T00:00:{seconds:02d}Z" if seconds else None,
            "culprit": "policy" if reason == "FAILED" else "",
            "error": "away" if reason == "FAILED" else "",
            "usage": {key: str(value) if key != "cost" else value for key, value in usage.items()} or None,
        }

    found = run_module(program, [
        run("FINISHED", "a", 1, prompt_tokens=10, completion_tokens=5, cost=0.5),
        run("FAILED", "a", 4, prompt_tokens=1, completion_tokens=0, cost=0.25),
        run("FINISHED", "a", 2), run("UNSPECIFIED", ""),
    ])  # fmt: skip
    assert found["states"] == [
        {"state": "finished", "runs": 2}, {"state": "failed", "runs": 1}, {"state": "running", "runs": 1},
    ]  # fmt: skip
    assert found["causes"] == [{"cause": "policy", "runs": 1, "example": "away"}]
    busy, quiet = found["models"]
    assert busy == {
        "model": "a", "runs": 3, "answered": 2, "tokens": 16, "cost": 0.75, "median_ms": 2000, "slowest_ms": 4000,
    }  # fmt: skip
    assert (quiet["model"], quiet["median_ms"], quiet["slowest_ms"]) == ("", None, None)


async def test_plotly_comes_packed_from_the_package_and_is_cached(door: Door) -> None:
    client, _ = door
    answer = await client.get("/static/plotly.min.js")
    assert answer.headers["content-type"].startswith("text/javascript")
    assert answer.headers["content-encoding"] == "gzip"
    assert "plotly.js" in answer.text[:200]
    again = await client.get("/static/plotly.min.js", headers={"if-none-match": answer.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


def test_a_missing_bundle_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(package: str) -> Any:
        raise ModuleNotFoundError(package)

    monkeypatch.setattr("fathom.services.gateway.page.resources.files", absent)
    with pytest.raises(MissingExtra, match="plotly"):
        read_bundle()


async def test_page_files_are_served_and_nothing_else(door: Door) -> None:
    client, _ = door
    assert "<title>Fathom</title>" in (await client.get("/")).text
    [script] = re.findall(r'src="\./(static/assets/index-[\w-]+\.js)"', (await client.get("/")).text)
    answer = await client.get(f"/{script}")
    assert answer.headers["content-type"].startswith("text/javascript")
    # Its name changes with its content, that of the page does not.
    assert "immutable" in answer.headers["cache-control"]
    assert (await client.get("/static/icon.svg")).headers["cache-control"] == "no-cache"
    for path in ("/static/../app.py", "/static/%2e%2e/app.py", "/static/nothing.js"):
        assert (await client.get(path)).status_code == 404


# Colours as eyes without one of the three cones see them, in linear RGB: Machado, Oliveira and Fernandes 2009, severity 1.
DEFICIENCIES = {
    "none": [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}
TO_XYZ = np.array(
    [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.072175], [0.0193339, 0.119192, 0.9503041]]
)


def to_linear(colour: str) -> np.ndarray:
    parts = np.array([int(colour[place : place + 2], 16) for place in (1, 3, 5)]) / 255
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


def to_lab(linear: np.ndarray) -> np.ndarray:
    relative = TO_XYZ @ np.clip(linear, 0, 1) / [0.95047, 1.0, 1.08883]
    x, y, z = np.where(relative > 0.008856, np.cbrt(relative), 7.787 * relative + 16 / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("deficiency", DEFICIENCIES)
@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_colours_of_series_are_told_apart_with_every_kind_of_sight(theme: int, deficiency: str) -> None:
    """By the distance in CIELAB, in which 2 is just noticeable side by side."""
    series = re.findall(r"--series: ([^;]+);", STYLES.read_text(encoding="utf-8"))[theme].split()
    seen = [to_lab(np.array(DEFICIENCIES[deficiency]) @ to_linear(colour)) for colour in series]
    distances = [float(np.linalg.norm(one - other)) for one, other in itertools.combinations(seen, 2)]
    assert min(distances) > 20


@pytest.mark.parametrize(("theme", "ground"), [(0, "#ffffff"), (1, "#121922")])
def test_colours_of_series_stand_out_from_the_background(theme: int, ground: str) -> None:
    """As WCAG 2.2 asks of graphics: a contrast of 3."""
    series = re.findall(r"--series: ([^;]+);", STYLES.read_text(encoding="utf-8"))[theme].split()
    brightness = [float(TO_XYZ[1] @ to_linear(colour)) + 0.05 for colour in (*series, ground)]
    assert all(max(one, brightness[-1]) / min(one, brightness[-1]) >= 3 for one in brightness[:-1])
