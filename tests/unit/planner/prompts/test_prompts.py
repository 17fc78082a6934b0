"""The prompt catalogue: stable bytes, examples in several layouts, variants, lint, drafts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fathom.api.planner.v1 import trajectory_pb2 as pb
from fathom.core.errors import CorruptData, DependencyFailed, InvalidField, NotFound
from fathom.domain.chat.guidance import question_of, with_guidance
from fathom.domain.chat.messages import Completion, FinishReason, Message, Role, Sampling, ToolCall, Usage
from fathom.domain.report_sections import SECTIONS
from fathom.services.planner.config import Config
from fathom.services.planner.episode.dialogue import Research, SearchR1
from fathom.services.planner.model.episode import Limits, Step, Task
from fathom.services.planner.prompts.catalogue import Catalogue, load_catalogue, read_prompt
from fathom.services.planner.prompts.selection import Prompts
from fathom.services.planner.prompts.tools.compare import compare, score
from fathom.services.planner.prompts.tools.lint import extend_lock, lint, read_lock
from fathom.services.planner.prompts.tools.optimize import build_schema, optimize
from fathom.services.planner.runs.playing.publisher import find_restatement
from fathom.services.planner.tools.registry import Registry
from fathom.services.planner.tools.think import Finish, Think
from fathom.services.policy.backends.rules.drafting import draft_reply

GOOD = """---
stage: research
version: {version}
language: en
output: tool_calls
few_shot: true
---
Think with at most 200 characters. A list begins with at most five items.
<examples name="steps" pick="2">
<example case="good" layout="json">
{{"next": "data"}}
</example>
<example case="good" layout="list">
#. first
#. second
</example>
<example case="bad" layout="prose">
No long thought about the weather.
</example>
</examples>
{more}
"""


def task(question: str, run_id: str = "run_1", **fields: str) -> Task:
    return Task(run_id, question, "rules", Sampling(), Limits(5, 1000, 0.0), **fields)  # type: ignore[arg-type]


def prompts(**settings: object) -> Prompts:
    return Prompts.of(load_catalogue(), Config(**settings))  # type: ignore[arg-type]


def test_the_packages_own_prompts_keep_every_rule_and_are_as_released() -> None:
    lock = read_lock()
    assert lint(load_catalogue(), lock) == []
    assert set(lock) == {prompt.id for prompt in load_catalogue()}


def test_two_questions_on_two_days_share_system_prompt_and_tools_byte_for_byte() -> None:
    research, registry = Research(prompts()), Registry([Finish(), Think()])
    one = research.opening(task("What is CAGR?", "run_a", date="2020-01-02"))
    two = research.opening(task("How did gold do in 2011?", "run_b", date="2024-05-06"))
    assert one[0] == two[0]
    assert one[0].role is Role.SYSTEM
    assert one[-1].content.startswith("What is CAGR?\n")
    assert "2020-01-02" in one[-1].content
    assert "2020-01-02" not in one[0].content
    specs = [spec.name for spec in registry.specs]
    assert specs == sorted(specs)
    assert registry.specs == Registry([Think(), Finish()]).specs


def test_the_system_prompt_speaks_the_questions_language() -> None:
    research = Research(prompts())
    assert research.opening(task("苹果2020年表现如何？"))[0].content.startswith("你是")
    assert research.opening(task("How did Apple do?"))[0].content.startswith("You are")


def test_a_seed_draws_examples_and_numbering_and_gives_the_same_bytes_again() -> None:
    prompt = load_catalogue().get("research.v2.en")
    texts = {seed: prompt.render(seed) for seed in range(12)}
    assert {seed: prompt.render(seed) for seed in range(12)} == texts
    assert len(set(texts.values())) > 6
    assert all("#. " not in text and "<example" not in text for text in texts.values())
    assert all("weather" in text or "whole sentence" in text for text in texts.values())  # a bad case is always there
    assert {"1. ", "(1) ", "1) ", "（一）"} <= {
        mark for mark in ("1. ", "(1) ", "1) ", "（一）") for text in texts.values() if f"\n{mark}" in text
    }


def test_every_run_has_the_same_form_of_answer_unless_it_names_another() -> None:
    assert prompts().choose("why?")["answer"] == "answer.conclusion.v3.en"
    assert prompts().choose("为什么？", {"answer": "report"})["answer"] == "answer.report.v1.zh"
    assert prompts(answer_form="evidence").choose("why?")["answer"] == "answer.evidence.v1.en"
    pinned = prompts(prompt_versions={"answer": 1})
    assert pinned.choose("why?")["answer"] == "answer.conclusion.v1.en"
    assert pinned.choose("why?", {"answer": "report"})["answer"] == "answer.report.v1.en"


def test_the_prompts_name_the_sections_that_are_checked() -> None:
    catalogue = load_catalogue()
    for name in ("conclusion", "report"):
        for language, chinese in (("en", False), ("zh", True)):
            text = catalogue.find("answer", language, name).render()
            places = [text.rfind(section.name(chinese)) for section in SECTIONS]
            assert -1 not in places, (name, language)
            assert sorted(places[1:]) == places[1:], "in the skeleton's order"


def test_a_run_may_name_its_prompts() -> None:
    chosen = prompts().choose("why?", {"research": "v1", "answer": "sections"})
    assert (chosen["research"], chosen["answer"]) == ("research.v1.en", "answer.sections.v1.en")
    assert prompts().choose("why?", {"answer": "answer.evidence.v1.zh"})["answer"] == "answer.evidence.v1.zh"


@pytest.mark.parametrize(
    ("wanted", "field"),
    [
        ({"nope": "v1"}, "prompts.nope"),
        ({"research": "v99"}, "prompts.research"),
        ({"answer": "nope"}, "prompts.answer"),
        ({"answer": "research.v1.en"}, "prompts.answer"),
    ],
)
def test_prompts_that_are_not_there_are_named(wanted: dict[str, str], field: str) -> None:
    with pytest.raises(InvalidField) as bad:
        prompts().choose("why?", wanted)
    assert bad.value.field == field


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"answer_form": "nope"}, "answer_form"),
        ({"prompt_versions": {"research": 99}}, "prompt_versions.research"),
        ({"prompt_versions": {"nope": 1}}, "prompt_versions.nope"),
    ],
)
def test_settings_that_name_no_prompt_stop_the_start(settings: dict[str, object], field: str) -> None:
    with pytest.raises(InvalidField) as bad:
        prompts(**settings)
    assert bad.value.field == field


def test_search_r1_has_one_instruction() -> None:
    protocol = SearchR1("Answer.")
    assert protocol.prompts("why?", {}) == {}
    with pytest.raises(InvalidField):
        protocol.prompts("why?", {"answer": "evidence"})


def test_restatement_is_asked_for_and_read_from_finish() -> None:
    assert "restated_question" in Research(prompts()).opening(task("why?"))[-1].content
    assert "restated_question" not in Research(prompts(restate_question=False)).opening(task("why?"))[-1].content
    for arguments, expected in (('{"restated_question": " What is asked. "}', "What is asked."), ("[]", ""), ("{", "")):
        call = ToolCall("c", "finish", arguments)
        completion = Completion((), (), (), "", (call,), FinishReason.STOP, 0, 0, Usage(), True, "m")
        assert find_restatement(Step(0, (), completion)) == expected


def test_guidance_stands_behind_the_question_and_comes_off_again() -> None:
    said = with_guidance("Why?\n\nSecond line.", ["Date: 2020-01-02", "Be brief."])
    assert question_of(said) == "Why?\n\nSecond line."
    assert question_of("What does <guidance> mean?") == "What does <guidance> mean?"
    assert with_guidance("Why?", []) == "Why?"


@pytest.mark.parametrize(
    ("change", "row"),
    [
        (("few_shot: true\n", ""), "few-shot"),
        (("stage: research", "stage: answer"), "few-shot"),
        (('layout="prose"', 'layout="list"'), "layouts"),
        (('case="good"', 'case="bad"'), "good-example"),
        (('case="bad"', 'case="good"'), "bad-example"),
        (("#. ", "1. "), "numbering"),
        (("output: tool_calls", "output: json"), "output-schema"),
        (("at most 200 characters", "briefly"), "thought-length"),
        (("at most five items", "few items"), "plan-length"),
        (("Think", "Today is 5 May. Think"), "stable-prefix"),
        (("Think", "Run {run_id}. Think"), "stable-prefix"),
        (("Think", "Since 2024-01-02 10:00. Think"), "stable-prefix"),
        (("Think", "5f0c7a1e-0000-4000-8000-1234567890ab. Think"), "stable-prefix"),
        (("Think", 'Call with {"parameters": {"type": "object"}}. Think'), "tool-schema"),
        (("Think", "Think " + "again and " * 900), "length"),
    ],
)
def test_lint_finds_what_it_is_for(change: tuple[str, str], row: str) -> None:
    text = GOOD.format(version=1, more="")
    fine = read_prompt("research.v1.en.md", text)
    assert [problem.rule for problem in lint(Catalogue([fine]), {})] == ["zh/en"]
    changed = text.replace(*change)
    stage = "answer" if "stage: answer" in changed else "research"
    problems = lint(Catalogue([read_prompt(f"{stage}.v1.en.md", changed)]), {})
    assert row in {problem.rule for problem in problems}


def test_a_released_version_never_changes_and_never_goes() -> None:
    before = Catalogue([read_prompt("research.v1.en.md", GOOD.format(version=1, more=""))])
    lock = extend_lock(before, {})
    after = Catalogue([read_prompt("research.v1.en.md", GOOD.format(version=1, more="One more rule."))])
    assert "released" in {problem.rule for problem in lint(after, lock)}
    assert extend_lock(after, lock) == lock
    assert "was released and is gone" in {problem.text for problem in lint(Catalogue([]), lock)}


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        ("research.v1.en.md", "no header", "header"),
        ("research.v2.en.md", GOOD.format(version=1, more=""), "another"),
        ("research.v1.fr.md", GOOD.format(version=1, more=""), "header"),
        ("research.v1.en.md", "---\nstage: [\n---\n", "research.v1.en.md"),
        ("research.v1.en.md", GOOD.format(version=1, more="").replace("few_shot", "fewshot"), "fewshot"),
    ],
)
def test_files_that_are_no_prompts_are_named(file: str, text: str, said: str) -> None:
    with pytest.raises(CorruptData) as bad:
        read_prompt(file, text)
    assert file in bad.value.message
    assert said in bad.value.message


def test_a_folder_of_ones_own_adds_and_never_changes(tmp_path: Path) -> None:
    (tmp_path / "research.v9.en.md").write_text(GOOD.format(version=9, more=""))
    assert load_catalogue(tmp_path).find("research", "en").id == "research.v9.en"
    (tmp_path / "research.v1.en.md").write_text(GOOD.format(version=1, more=""))
    with pytest.raises(CorruptData):
        load_catalogue(tmp_path)
    with pytest.raises(InvalidField):
        load_catalogue(tmp_path / "nowhere")
    with pytest.raises(NotFound):
        load_catalogue().get("research.v99.en")


class Editor:
    """A writer that gives the next of its replies and keeps what it was told."""

    def __init__(self, *replies: str) -> None:
        self.replies, self.told = list(replies), []  # type: ignore[var-annotated]

    async def __call__(self, system: str, text: str) -> str:
        self.told.append((system, text))
        return self.replies.pop(0)


async def test_a_draft_is_mended_until_it_keeps_the_rules() -> None:
    known = Catalogue([*load_catalogue(), read_prompt("research.v9.en.md", GOOD.format(version=9, more=""))])
    body = known.get("research.v9.en").body
    bad = json.dumps({"prompt": body.replace("200 characters", "few words"), "reasons": ["shorter"]})
    good = json.dumps({"prompt": body + "\nName the unit of every number.", "reasons": ["units were missing"]})
    editor = Editor("I will think about it.", bad, f"```json\n{good}\n```")
    draft = await optimize(known, known.get("research.v9.en"), ["units missing, ticket 12"], editor)
    assert draft.problems == ()
    assert draft.file == "research.v10.en.md"
    assert draft.reasons == ("units were missing",)
    assert read_prompt(draft.file, draft.text).header.issues == ("units missing, ticket 12",)
    assert "ticket 12" in editor.told[0][1]
    assert "thought-length" in editor.told[2][1]


@pytest.mark.parametrize("prompt", ["research.v2.en", "plan.v2.zh", "reflect.v1.en"])
async def test_the_reference_policy_drafts_offline_what_keeps_the_rules(prompt: str) -> None:
    known = load_catalogue()
    schema = build_schema(known)

    async def write(system: str, text: str) -> str:
        return draft_reply(schema, [Message(Role.SYSTEM, system), Message(Role.USER, text)]) or ""

    before = known.get(prompt)
    draft = await optimize(known, before, ["units were missing, ticket 12", "dates were guessed"], write)
    assert draft.problems == ()
    made = read_prompt(draft.file, draft.text)
    assert made.header.version == known.find(before.header.stage, before.header.language).header.version + 1
    assert made.header.issues == ("units were missing, ticket 12", "dates were guessed")
    # The old text stands unchanged before the issues, each on a line of its own.
    assert made.body.startswith(before.body)
    added = made.body.removeprefix(before.body).strip().splitlines()
    assert ["units were missing, ticket 12" in added[0], "dates were guessed" in added[1], len(added)] == [
        True,
        True,
        2,
    ]
    assert len(draft.reasons) == 2


async def test_a_writer_that_never_drafts_is_named() -> None:
    known = load_catalogue()
    with pytest.raises(DependencyFailed) as bad:
        await optimize(known, known.get("research.v2.en"), ["x"], Editor("no", "no", '{"prompt": "short"}'))
    assert bad.value.metadata["culprit"] == "policy"


def test_win_rates_count_only_where_two_prompts_met() -> None:
    def run(question: str, prompt: str, text: str, stop: pb.StopReason = pb.STOP_REASON_FINISHED) -> pb.Trajectory:
        answer = pb.Answer(markdown=text, cited=[1])
        return pb.Trajectory(question=question, prompts={"answer": prompt}, answer=answer, stop_reason=stop)

    runs = [
        (run("q1", "a", "It rose 12 %."), ["12 %"]),
        (run("Q1 ", "b", "It rose."), ["12 %"]),
        (run("q2", "a", "x"), []),
        (run("q2", "b", "y"), []),
        (run("q3", "c", "", pb.STOP_REASON_FAILED), []),
    ]
    lines = {line.prompt: line for line in compare(score(one, "answer", expected) for one, expected in runs)}
    assert (lines["a"].win_rate, lines["b"].win_rate, lines["c"].win_rate) == (0.75, 0.25, None)
    assert (lines["a"].expected, lines["b"].expected) == (1.0, 0.5)
    assert lines["c"].finished == 0.0
