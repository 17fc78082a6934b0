"""Recorded episodes as training data. Loss is on a model's own words alone; PPO without log-probabilities is refused."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import typer

from fathom.api.common.v1 import common_pb2 as common
from fathom.api.planner.v1 import trajectory_pb2 as pb
from fathom.api.policy.v1 import policy_pb2 as policy
from fathom.core.errors import CorruptData, InvalidField
from fathom.domain.consent import Consent, ConsentRecords
from fathom.trainers.commands import export_files
from fathom.trainers.data.export.choose import NotTrainable, for_policy_gradient, successful
from fathom.trainers.data.export.conversation import conversations
from fathom.trainers.data.export.files import Exported, Wanted, export
from fathom.trainers.data.export.pairs import corrections, pairs
from fathom.trainers.data.export.scrub import Scrubber
from fathom.trainers.data.export.tokens import Tokens, read_sampled_ids, render_ids, turn_end
from fathom.trainers.learners import tiny
from fathom.transport.store.memory import MemoryStore

USER, TOOL, SYSTEM = policy.ROLE_USER, policy.ROLE_TOOL, policy.ROLE_SYSTEM
WORDS = "be brief what is it look again found the answer yes no wrong better done seven".split()  # noqa: SIM905
TOKENIZER = tiny.build_tokenizer([*WORDS, "u", "a", "b"])


# Renders as policy would, in this process, with the same tokenizer that made the ids.
class ByTemplate:
    """The tiny model's template."""

    async def ids(self, messages: Sequence[policy.Message], *, prompt: bool, tools: bool) -> list[int]:
        roles = {SYSTEM: "system", USER: "user", TOOL: "tool", policy.ROLE_ASSISTANT: "assistant"}
        chat = [{"role": roles[message.role], "content": message.content} for message in messages]
        text = TOKENIZER.apply_chat_template(chat, tokenize=False, add_generation_prompt=prompt)
        return list(TOKENIZER(text, add_special_tokens=False)["input_ids"])


def make_message(role: policy.Role, text: str) -> policy.Message:
    return policy.Message(role=role, content=text)


def step(
    index: int,
    new: Sequence[policy.Message],
    text: str,
    *results: pb.ToolStatus,
    tool: str = "",
    arguments: str = "{}",
    model: str = "m",
) -> pb.Step:
    """A step whose ids are those of the tiny template: prompt ids, then the words and the end of the turn."""
    chat = [(({SYSTEM: "system", USER: "user"}).get(item.role, "tool"), item.content) for item in new]
    prompt = " ".join(f"<|start|> {role} {content} <|end|>" for role, content in chat) + " <|start|> assistant"
    ids = TOKENIZER(prompt, add_special_tokens=False)["input_ids"]
    # The end of the turn is sampled too, and must be learned, or the model never stops.
    own = TOKENIZER(f"{text} <|end|>", add_special_tokens=False)["input_ids"]
    calls = [policy.ToolCall(id=f"c{index}", name=tool, arguments_json=arguments)] if tool else []
    completion = policy.Completion(
        prompt_token_ids=ids, sampled_token_ids=own, log_probs=[-0.5] * len(own), text=text, tool_calls=calls,
        exact=True, model=model,
    )  # fmt: skip
    return pb.Step(
        index=index,
        new_messages=new,
        completion=completion,
        tool_results=[pb.ToolResult(tool_call_id=f"c{index}", tool=tool, status=status) for status in results],
    )


def episode(
    run_id: str, *steps: pb.Step, reward: float = 1.0, lane: common.Lane = common.LANE_TRAINING, **more: Any
) -> pb.Trajectory:
    trajectory = pb.Trajectory(
        run_id=run_id, question="what is it", steps=steps, reward=reward, lane=lane, exact=True,
        stop_reason=pb.STOP_REASON_FINISHED, answer=pb.Answer(markdown="seven"), **more,
    )  # fmt: skip
    record_segments(trajectory)
    return trajectory


def record_segments(trajectory: pb.Trajectory) -> None:
    """Records the ids as planner does: one segment per compaction or stage, the flat ids are those of the last."""
    starts: list[int] = []
    stage = ""
    for one in trajectory.steps:
        if not starts or one.HasField("compaction") or one.stage.name != stage:
            starts.append(one.index)
        stage = one.stage.name
    del trajectory.segments[:]
    for first, after in zip(starts, [*starts[1:], len(trajectory.steps)], strict=True):
        part = pb.Segment(first_step=first, last_step=after - 1)
        for one in trajectory.steps[first:after]:
            given, own = one.completion.prompt_token_ids, one.completion.sampled_token_ids
            part.token_ids.extend([*given, *own])
            part.mask.extend([*[0] * len(given), *[1] * len(own)])
            part.log_probs.extend([*[0.0] * len(given), *one.completion.log_probs])
        trajectory.segments.append(part)
    if trajectory.segments:
        last = trajectory.segments[-1]
        trajectory.token_ids[:], trajectory.mask[:], trajectory.log_probs[:] = last.token_ids, last.mask, last.log_probs
    if len(trajectory.segments) == 1:
        del trajectory.segments[:]


OPENING = [make_message(SYSTEM, "be brief"), make_message(USER, "what is it")]
# A search and an answer: two sampled stretches with an observation between.
TWO_STEPS = (
    step(0, OPENING, "look again", pb.TOOL_STATUS_OK, tool="search"),
    step(1, [make_message(TOOL, "found seven")], "the answer seven", tool="finish"),
)


def learned_words(tokens: Tokens) -> list[str]:
    """The stretches of text that carry loss."""
    found: list[list[int]] = [[]]
    for token, learned in zip(tokens.ids, tokens.mask, strict=True):
        if learned:
            found[-1].append(token)
        elif found[-1]:
            found.append([])
    return [str(TOKENIZER.decode(part)) for part in found if part]


def test_loss_is_on_the_models_own_words_and_their_end() -> None:
    (conversation,) = conversations(episode("r", *TWO_STEPS))
    assert [item.chat()["role"] for item in conversation.said] == ["system", "user", "assistant", "tool", "assistant"]
    assert [item.chat().get("weight") for item in conversation.said] == [None, None, 1, None, 1]
    tokens = read_sampled_ids(conversation, "m")
    assert tokens is not None
    assert tokens.exact
    assert learned_words(tokens) == ["look again <|end|>", "the answer seven <|end|>"]


async def test_rendering_gives_the_sampled_ids_and_their_mask_again() -> None:
    """The template is append-only: what SFT shows a model is what a rollout shows it."""
    (conversation,) = conversations(episode("r", *TWO_STEPS))
    own, again = read_sampled_ids(conversation, "m"), await render_ids(conversation, ByTemplate())
    assert own is not None
    assert (again.ids, again.mask) == (own.ids, own.mask)
    # The ids agree, but that they were sampled is known only of the first.
    assert not again.exact
    assert await turn_end(ByTemplate()) == TOKENIZER("<|end|>", add_special_tokens=False)["input_ids"]


async def test_a_template_that_rewrites_the_past_is_refused() -> None:
    class Forgetful(ByTemplate):
        async def ids(self, messages: Sequence[policy.Message], *, prompt: bool, tools: bool) -> list[int]:
            # Shows the last two messages alone, as templates do that drop earlier thoughts.
            return await super().ids(messages[-2:], prompt=prompt, tools=tools)

    (conversation,) = conversations(episode("r", *TWO_STEPS))
    with pytest.raises(InvalidField, match="not append-only"):
        await render_ids(conversation, Forgetful())


def test_another_models_ids_are_not_taken() -> None:
    (conversation,) = conversations(episode("r", *TWO_STEPS))
    assert read_sampled_ids(conversation, "other") is None


def test_what_failed_is_shown_and_not_learned() -> None:
    steps = (
        step(0, OPENING, "wrong", pb.TOOL_STATUS_FAILED, tool="python"),
        step(1, [make_message(TOOL, "no")], "better", pb.TOOL_STATUS_OK, tool="python"),
        step(2, [make_message(TOOL, "seven")], "done", tool="finish"),
    )
    (conversation,) = conversations(episode("r", *steps))
    assert [item.chat().get("weight") for item in conversation.said if item.step >= 0] == [0, 1, 1]
    tokens = read_sampled_ids(conversation)
    assert tokens is not None
    assert learned_words(tokens) == ["better <|end|>", "done <|end|>"]
    (everything,) = conversations(episode("r", *steps), keep_failed=True)
    assert everything.loss_message_count == 3


def test_a_compaction_begins_another_conversation_and_nothing_is_learned_twice() -> None:
    second = step(1, [make_message(TOOL, "found seven")], "done", tool="finish")
    second.compaction.shown.add(source=0)
    second.compaction.shown.add(source=-1, message=make_message(USER, "look again"))
    second.compaction.shown.add(source=2)
    second.compaction.shown.add(source=3)
    first, later = conversations(episode("r", TWO_STEPS[0], second))
    assert [item.message.content for item in first.said] == ["be brief", "what is it", "look again"]
    assert [item.message.content for item in later.said] == [
        "be brief",
        "look again",
        "look again",
        "found seven",
        "done",
    ]
    assert [item.learn for item in later.said] == [False, False, False, False, True]
    second.compaction.shown.add(source=9)
    with pytest.raises(InvalidField, match=r"steps\[1\].compaction"):
        conversations(episode("r", TWO_STEPS[0], second))


def test_success_is_a_reward_or_an_answer_without_doubt() -> None:
    assert successful(episode("r", *TWO_STEPS), 1.0)
    assert not successful(episode("r", *TWO_STEPS, reward=0.9), 1.0)
    asked = episode("r", *TWO_STEPS, reward=0.0, lane=common.LANE_INTERACTIVE)
    assert successful(asked, 1.0, is_run=True)
    # What no check decided is no doubt of the answer.
    asked.answer.findings.add(kind=pb.FINDING_KIND_UNCHECKED)
    assert successful(asked, 1.0, is_run=True)
    asked.answer.findings.add(kind=pb.FINDING_KIND_NUMBER)
    assert not successful(asked, 1.0, is_run=True)
    stopped = episode("r", *TWO_STEPS)
    stopped.stop_reason = pb.STOP_REASON_BUDGET
    assert not successful(stopped, 1.0)


def open_question(run: pb.Trajectory) -> None:
    run.answer.open.append("gross margin")


def ask_back(run: pb.Trajectory) -> None:
    run.answer.clarification.reference = "it"


def cite_what_is_absent(run: pb.Trajectory) -> None:
    run.steps[0].material.add(number=1).passage.title = "a report"
    run.steps[0].material.add(number=2).missing.subject = "Tesla"
    run.answer.cited.append(2)


def find_only_what_is_absent(run: pb.Trajectory) -> None:
    run.steps[0].material.add(number=1).missing.subject = "Tesla"


def find_nothing(run: pb.Trajectory) -> None:
    run.steps[0].tool_results[0].status = pb.TOOL_STATUS_EMPTY


@pytest.mark.parametrize(
    "change", [open_question, ask_back, cite_what_is_absent, find_only_what_is_absent, find_nothing]
)
def test_a_run_that_found_nothing_is_no_success(change: Any) -> None:
    run = episode("r", *TWO_STEPS, reward=0.0, lane=common.LANE_INTERACTIVE)
    run.steps[0].material.add(number=9).passage.title = "a report"
    assert successful(run, 1.0, is_run=True)
    del run.steps[0].material[:]
    change(run)
    assert not successful(run, 1.0, is_run=True)


def test_a_mended_call_and_a_second_answer_are_pairs() -> None:
    trajectory = episode(
        "r",
        step(0, OPENING, "wrong", pb.TOOL_STATUS_INVALID, tool="data", arguments="{bad"),
        step(1, [make_message(TOOL, "no")], "better", pb.TOOL_STATUS_OK, tool="data"),
        step(2, [make_message(TOOL, "found")], "the answer", tool="finish", arguments='{"answer": "7"}'),
        step(3, [make_message(USER, "again")], "the answer seven", tool="finish", arguments='{"answer": "7 [1]"}'),
    )
    found = list(corrections(trajectory))
    assert [(p.rejected.message.content, p.chosen.message.content) for p in found] == [
        ("wrong", "better"),
        ("the answer", "the answer seven"),
    ]
    assert [p.why for p in found] == ["the call was malformed", "the answer was sent back"]
    assert [item.message.content for item in found[0].conversation.said] == ["be brief", "what is it"]
    # System, question, and both rounds with what came back; the complaint would teach to expect one.
    assert len(found[1].conversation.said) == 6, "the complaint is not part of it"


def test_siblings_pair_where_they_part() -> None:
    bad = (TWO_STEPS[0], step(1, [make_message(TOOL, "found seven")], "no", tool="finish"))
    group = [
        # Two samples of task 0 with different rewards, and one of another task.
        episode("roll-0-0", *TWO_STEPS, task_index=0),
        episode("roll-0-1", *bad, reward=0.0, task_index=0, sample_index=1),
        episode("roll-1-0", *bad, reward=0.0, task_index=1),
    ]
    (pair,) = pairs(group, 0.5)
    assert (pair.chosen.message.content, pair.rejected.message.content) == ("the answer seven", "no")
    # The common part ends with the tool's result: from there they differ.
    assert [item.message.content for item in pair.conversation.said][-1] == "found seven"
    assert pair.why == "reward 1 over 0"
    # A margin of 1.5 is more than rewards of 0 and 1 can have.
    assert list(pairs(group, 1.5)) == []


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (lambda t: setattr(t, "exact", False), "exact"),
        (lambda t: t.steps[1].completion.ClearField("log_probs"), "steps[1].completion.log_probs"),
        (lambda t: t.steps[0].completion.log_probs.append(-1.0), "steps[0].completion.log_probs"),
        (lambda t: t.steps[0].completion.log_probs.__setitem__(0, float("nan")), "steps[0].completion.log_probs"),
        (lambda t: setattr(t.steps[0].completion, "model", "rules"), "steps[0].completion.model"),
    ],
)
def test_ppo_without_log_probabilities_of_the_model_is_refused(change: Any, field: str) -> None:
    trajectory = episode("r", *TWO_STEPS)
    assert for_policy_gradient(trajectory, "m") is trajectory
    change(trajectory)
    with pytest.raises(NotTrainable) as caught:
        for_policy_gradient(trajectory, "m")
    assert caught.value.field == field
    assert caught.value.metadata["run_id"] == "r"


# Addresses, Chinese mobile and identity numbers, cards; and figures, dates and codes that must stay.
@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("write to li.wei@example.com.cn please", "write to <email> please"),
        ("我的手机是13812345678，谢谢", "我的手机是<phone>，谢谢"),
        ("ID 11010519491231002X", "ID <id number>"),
        ("card 6222 0212 3456 7890 123", "card <card number>"),
        ("revenue was 1,234,567 in 2020-03-16, up 12.5%", "revenue was 1,234,567 in 2020-03-16, up 12.5%"),
        ("股票代码600519，2021年营业收入1094亿", "股票代码600519，2021年营业收入1094亿"),
    ],
)
def test_what_users_say_of_persons_is_scrubbed(text: str, clean: str) -> None:
    assert Scrubber().clean_text(text) == clean


async def store_trajectories(*trajectories: pb.Trajectory) -> MemoryStore:
    store = MemoryStore()
    for item in trajectories:
        folder = "runs/trajectories" if item.lane == common.LANE_INTERACTIVE else "rollouts/roll"
        await store.put(f"{folder}/{item.run_id}.pb", item.SerializeToString())
    return store


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


async def test_the_sft_file(tmp_path: Path) -> None:
    asked = [make_message(SYSTEM, "be brief"), make_message(USER, "what is it a@b.de")]
    personal = episode("user-1", step(0, asked, "done", tool="finish"), lane=common.LANE_INTERACTIVE)
    store = await store_trajectories(
        episode("roll-0-0", *TWO_STEPS), episode("roll-0-1", *TWO_STEPS, reward=0.0), personal
    )
    specs = [policy.ToolSpec(name="search", description="Finds.", parameters_json='{"type": "object"}')]
    done = await export(store, Wanted("sft", "m", tools=specs), tmp_path / "sft.jsonl", ByTemplate())
    (row,) = lines(tmp_path / "sft.jsonl")
    # Of three records one is exported, and for each of the others the reason is counted.
    assert (done.rows, dict(done.left_out)) == (
        1,
        {"a user's run, and --production was not given": 1, "it did not succeed": 1},
    )
    assert row["id"] == "roll-0-0#0"
    assert row["exact"] is True
    assert len(row["token_ids"]) == len(row["loss_mask"])
    # "look again", "the answer seven", and an end for each: seven tokens.
    assert sum(row["loss_mask"]) == done.learned_tokens == 7
    assert row["messages"][2]["tool_calls"][0]["function"] == {"name": "search", "arguments": "{}"}
    assert row["tools"][0]["function"]["name"] == "search"
    await ConsentRecords(store).put_run("user-1", Consent.GIVEN, "")
    await export(store, Wanted("sft", "m", production=True), tmp_path / "all.jsonl", ByTemplate())
    user = next(row for row in lines(tmp_path / "all.jsonl") if row["id"] == "user-1#0")
    # With consent the user's run is exported, without the address.
    assert user["messages"][1]["content"] == "what is it <email>"
    assert user["exact"] is False, "what was scrubbed is rendered anew"
    assert (
        TOKENIZER.decode([i for i, m in zip(user["token_ids"], user["loss_mask"], strict=True) if m]) == "done <|end|>"
    )


async def test_the_dpo_file_has_one_prompt_for_both_sides(tmp_path: Path) -> None:
    bad = (TWO_STEPS[0], step(1, [make_message(TOOL, "found seven")], "no", tool="finish"))
    store = await store_trajectories(
        episode("roll-0-0", *TWO_STEPS), episode("roll-0-1", *bad, reward=0.0, sample_index=1)
    )
    done = await export(store, Wanted("dpo", "m"), tmp_path / "dpo.jsonl", ByTemplate())
    (row,) = lines(tmp_path / "dpo.jsonl")
    assert done.rows == 1
    assert str(TOKENIZER.decode(row["prompt_ids"])).endswith("<|start|> tool found seven <|end|> <|start|> assistant")
    assert TOKENIZER.decode(row["chosen_ids"]) == "the answer seven <|end|>"
    assert TOKENIZER.decode(row["rejected_ids"]) == "no <|end|>"
    assert row["prompt"][-1]["content"] == "found seven"


async def test_the_ppo_file_is_exact_or_is_not_written(tmp_path: Path) -> None:
    store = await store_trajectories(episode("roll-0-0", *TWO_STEPS, task_index=4))
    await export(store, Wanted("ppo", "m"), tmp_path / "ppo.jsonl", None)
    (row,) = lines(tmp_path / "ppo.jsonl")
    assert len(row["token_ids"]) == len(row["loss_mask"]) == len(row["log_probs"])
    # Log-probabilities stand where loss is, and nowhere else is one made up.
    assert [value for value, learned in zip(row["log_probs"], row["loss_mask"], strict=True) if learned] == [-0.5] * 7
    assert (row["reward"], row["task_index"]) == (1.0, 4)
    with pytest.raises(NotTrainable, match="was sampled by 'm'"):
        await export(store, Wanted("ppo", "other"), tmp_path / "other.jsonl", None)
    # Refused before the file was opened: no half export is left.
    assert not (tmp_path / "other.jsonl").exists()
    with pytest.raises(InvalidField, match="model"):
        await export(store, Wanted("ppo"), tmp_path / "other.jsonl", None)


async def test_a_record_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    store = MemoryStore()
    # No protobuf message begins so.
    await store.put("rollouts/r/0000-00.pb", b"\xff\xff\xff")
    with pytest.raises(CorruptData, match=r"rollouts/r/0000-00.pb"):
        await export(store, Wanted("sft"), tmp_path / "x.jsonl", None)


async def test_a_prefix_names_the_records(tmp_path: Path) -> None:
    store = await store_trajectories(episode("one-0-0", *TWO_STEPS))
    await store.put("rollouts/other/two.pb", episode("two-0-0", *TWO_STEPS).SerializeToString())
    done = await export(store, Wanted("sft", prefix="rollouts/other/"), tmp_path / "x.jsonl", None)
    assert done.rows == 1
    assert lines(tmp_path / "x.jsonl")[0]["id"] == "two-0-0#0"
    assert "token_ids" not in lines(tmp_path / "x.jsonl")[0], "no model is named"


def make_workflow() -> pb.Trajectory:
    """A workflow's episode: two stages with prompts of their own."""
    plan, compose = step(0, OPENING, "look again"), step(1, [make_message(USER, "what is it")], "the answer seven")
    plan.stage.name, compose.stage.name = "plan", "compose"
    return episode("roll-0-0", plan, compose, protocol=pb.PROTOCOL_WORKFLOW)


@pytest.mark.parametrize("kind", ["ppo", "sft"])
async def test_each_context_in_which_tokens_were_sampled_is_a_row(kind: Any, tmp_path: Path) -> None:
    """A row holds the ids of one segment: behind other ids its words were never sampled."""
    trajectory = make_workflow()
    store = await store_trajectories(trajectory)
    await export(store, Wanted(kind, "m"), tmp_path / "rows.jsonl", None)
    rows = lines(tmp_path / "rows.jsonl")
    assert [row["id"] for row in rows] == ["roll-0-0#0", "roll-0-0#1"]
    assert [row["token_ids"] for row in rows] == [list(part.token_ids) for part in trajectory.segments]
    assert [row["loss_mask"] for row in rows] == [list(part.mask) for part in trajectory.segments]


def merge_segments(trajectory: pb.Trajectory) -> None:
    first, second = trajectory.segments
    first.last_step = second.last_step
    first.token_ids.extend(second.token_ids)
    del trajectory.segments[1]


def change_id(trajectory: pb.Trajectory) -> None:
    trajectory.segments[1].token_ids[0] += 1


def change_mask(trajectory: pb.Trajectory) -> None:
    """Say of a sampled id that it was given."""
    trajectory.segments[1].mask[-1] = 0


def forget_segments(trajectory: pb.Trajectory) -> None:
    del trajectory.segments[:]


@pytest.mark.parametrize("change", [merge_segments, change_id, change_mask, forget_segments])
@pytest.mark.parametrize("kind", ["ppo", "sft"])
async def test_ids_that_are_no_segment_are_refused(change: Any, kind: Any, tmp_path: Path) -> None:
    trajectory = make_workflow()
    change(trajectory)
    store = await store_trajectories(trajectory)
    with pytest.raises(NotTrainable, match="are no segment of its record"):
        await export(store, Wanted(kind, "m"), tmp_path / "rows.jsonl", None)
    assert not (tmp_path / "rows.jsonl").exists()


async def test_segments_without_a_log_probability_for_each_id_are_refused(tmp_path: Path) -> None:
    trajectory = make_workflow()
    del trajectory.segments[0].log_probs[-1]
    with pytest.raises(NotTrainable, match="not one log-probability"):
        await export(await store_trajectories(trajectory), Wanted("ppo", "m"), tmp_path / "rows.jsonl", None)


@pytest.mark.parametrize(("rows", "status"), [(0, 1), (1, 0)])
def test_an_export_that_finds_nothing_is_no_success(
    rows: int, status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def write(*_: Any, **__: Any) -> Exported:
        return Exported(rows, left_out=Counter({"it did not succeed": 3}))

    monkeypatch.setattr(export_files, "write", write)
    if status:
        with pytest.raises(typer.Exit) as ended:
            export_files.export_episodes("sft", tmp_path / "sft.jsonl", tmp_path, tenant="default")
        assert ended.value.exit_code == status
    else:
        export_files.export_episodes("sft", tmp_path / "sft.jsonl", tmp_path, tenant="default")
    shown = capsys.readouterr()
    assert "left out: 3 (it did not succeed)" in shown.out
    assert ("nothing was found to export" in shown.err) == bool(status)
