"""Users' runs as training data: only with consent, without personal data and keys, and as their users judged them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fathom.api.common.v1 import common_pb2 as common
from fathom.api.memory.v1 import memory_pb2 as memory
from fathom.api.planner.v1 import trajectory_pb2 as pb
from fathom.api.policy.v1 import policy_pb2 as policy
from fathom.core.call import Call, calling
from fathom.core.errors import InvalidField
from fathom.domain.chat.hermes import format_tool_call
from fathom.domain.consent import Asker, Consent, ConsentRecords
from fathom.trainers.data import records
from fathom.trainers.data.export.conversation import conversations
from fathom.trainers.data.export.feedback import UnusableEdit, pair_edit, preferences
from fathom.trainers.data.export.files import UNREVIEWED, Wanted, export
from fathom.trainers.data.export.scrub import Scrubber
from fathom.transport.store.memory import MemoryStore
from fathom.transport.store.tenant import TenantStore
from tests.unit.trainers.data.test_exports import OPENING, TOOL, USER, episode, lines, make_message, step

# Of the forms that their makers document; none of them opens anything.
KEYS = {
    "aws": "AKIAIOSFODNN7EXAMPLE",
    "github": "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",
    "openai": "sk-abcdefghij1234567890T3BlbkFJabcdefghij1234567890",
    "jwt": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjMifQ.dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk",
    "ours": "fk_" + "Ab3-_" * 8 + "xyz",
    "pem": "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIA==\n-----END PRIVATE KEY-----",
}


def run(run_id: str, answer: str = "seven", **more: Any) -> pb.Trajectory:
    """A user's run with a search and a finish, whose call is in its words too, as models without native calls do."""
    arguments = {"answer": answer, "intent": "answer"}
    steps = (
        step(0, OPENING, "look again", pb.TOOL_STATUS_OK, tool="search"),
        step(1, [make_message(TOOL, "found seven")], "done " + format_tool_call("finish", arguments), tool="finish",
             arguments=json.dumps(arguments)),
    )  # fmt: skip
    found = episode(run_id, *steps, reward=0.0, lane=common.LANE_INTERACTIVE, **more)
    found.answer.markdown = answer
    return found


async def keep(store: MemoryStore | TenantStore, *runs: pb.Trajectory, consent: bool = True) -> None:
    for item in runs:
        await store.put(f"runs/trajectories/{item.run_id}/000000000001.pb", item.SerializeToString())
        if consent:
            await ConsentRecords(store).put_run(item.run_id, Consent.GIVEN, "user:ann")


def judgement(run_id: str, helpful: bool, answer: str = "") -> memory.Feedback:
    return memory.Feedback(run_id=run_id, helpful=helpful, edited_answer=answer)


@pytest.mark.parametrize(
    ("of_run", "of_origin", "stated", "standing", "holds"),
    [
        (None, None, None, None, None),
        (None, None, None, Consent.GIVEN, Consent.GIVEN),
        (None, None, Consent.REFUSED, Consent.GIVEN, Consent.REFUSED),
        (None, Consent.GIVEN, Consent.REFUSED, None, Consent.GIVEN),
        (Consent.REFUSED, Consent.GIVEN, Consent.GIVEN, Consent.GIVEN, Consent.REFUSED),
    ],
)
async def test_the_nearest_statement_counts(
    of_run: Consent | None, of_origin: Consent | None, stated: Consent | None, standing: Consent | None,
    holds: Consent | None,
) -> None:  # fmt: skip
    statements = ConsentRecords(MemoryStore())
    for name, consent in (("child", of_run), ("asked", of_origin)):
        if consent is not None:
            await statements.put_run(name, consent, "user:ann")
    if standing is not None:
        await statements.put_standing("user:ann", standing)
    assert (await statements.find(Asker("child", "user:ann", stated, "asked")))[0] is holds


async def test_without_consent_nothing_is_exported_and_no_file_written(tmp_path: Path) -> None:
    store, target = MemoryStore(), tmp_path / "sft.jsonl"
    await keep(store, run("r1"), consent=False)
    done = await export(store, Wanted("sft", production=True), target, None)
    assert (done.rows, dict(done.left_out)) == (0, {"a user's run, and its user has not consented": 1})
    assert not target.exists()
    # Also where the run was called in another lane, which says nothing of whose it is.
    other = run("r2", principal="user:bob")
    other.lane = common.LANE_EVALUATION
    await keep(store, other, consent=False)
    assert (await export(store, Wanted("sft", production=True), target, None)).rows == 0
    await ConsentRecords(store).put_standing("user:bob", Consent.GIVEN)
    assert (await export(store, Wanted("sft", production=True), target, None)).rows == 1
    assert [row["id"] for row in lines(target)] == ["r2#0"]


async def test_each_run_is_exported_once_by_its_last_end(tmp_path: Path) -> None:
    """A run that was stopped and resumed has an end for each leg, and each end has all of its steps."""
    store = MemoryStore()
    await keep(store, run("r1"))
    await store.put("runs/trajectories/r1/000000000007.pb", run("r1", "eight").SerializeToString())
    await export(store, Wanted("sft", production=True), tmp_path / "sft.jsonl", None)
    (row,) = lines(tmp_path / "sft.jsonl")
    assert "eight" in row["messages"][-1]["tool_calls"][0]["function"]["arguments"]


async def test_a_tenants_export_holds_its_own_runs_alone(tmp_path: Path) -> None:
    store = MemoryStore()
    for tenant in ("fund-a", "fund-b"):
        with calling(Call.new(tenant=tenant)):
            await keep(TenantStore(store), run(f"of-{tenant}"))
    await keep(store, run("of-operator"))
    for tenant, expected in (("fund-a", "of-fund-a#0"), ("fund-b", "of-fund-b#0"), ("default", "of-operator#0")):
        with calling(Call.new(tenant=tenant)):
            await export(TenantStore(store), Wanted("sft", production=True), tmp_path / "x.jsonl", None)
        assert [row["id"] for row in lines(tmp_path / "x.jsonl")] == [expected]


@pytest.mark.parametrize("key", KEYS.values(), ids=KEYS)
def test_keys_are_found_whole_and_figures_stay(key: str) -> None:
    said = f"use {key} for it; revenue 1,234,567 at 8.8.8.8, 2020-03-16, sheet_9f86d081884c7d65"
    assert Scrubber().clean_text(said) == said.replace(key, "<key>")


def test_what_a_user_said_is_replaced_wherever_the_row_repeats_it() -> None:
    opening = [make_message(policy.ROLE_SYSTEM, "be brief"), make_message(USER, "mail li@example.com, 13812345678")]
    told = json.dumps({"query": "who is li@example.com"})
    found = step(0, opening, "asking 13812345678", pb.TOOL_STATUS_OK, tool="search", arguments=told)
    table = [make_message(TOOL, f"li@example.com has 13912345678 shares; {KEYS['pem']}")]
    plain = conversations(episode("r", found, step(1, table, "done", tool="finish")))[0]
    clean, _ = Scrubber().clean(plain)
    assert [item.message.content for item in clean.said] == [
        # The other number is a figure of a table, as far as anybody knows.
        "be brief", "mail <email>, <phone>", "asking <phone>", "<email> has 13912345678 shares; <key>", "done",
    ]  # fmt: skip
    assert clean.said[2].message.tool_calls[0].arguments_json == '{"query": "who is <email>"}'
    assert plain.said[1].message.content == "mail li@example.com, 13812345678", "the record itself stays as it is"


async def test_ids_as_sampled_cannot_be_scrubbed_and_are_left_out(tmp_path: Path) -> None:
    store = MemoryStore()
    personal = step(0, [make_message(USER, "mail li@example.com")], "done", tool="finish")
    await keep(store, episode("r1", personal, lane=common.LANE_INTERACTIVE), run("r2"))
    done = await export(store, Wanted("ppo", "m", production=True), tmp_path / "ppo.jsonl", None)
    assert (done.rows, dict(done.left_out)) == (1, {"its ids hold personal data or a key": 1})


def test_each_stage_of_a_workflow_is_a_conversation_of_its_own() -> None:
    """A stage's model saw its own prompt alone; what another stage was shown must not stand before its words."""
    plan, again, compose = (
        step(0, [make_message(USER, "plan it")], "a plan"),
        step(1, [make_message(USER, "that was no plan")], "better"),
        step(2, [make_message(USER, "write it")], "the answer"),
    )
    plan.stage.name = again.stage.name = "plan"
    compose.stage.name = "compose"
    found = conversations(episode("r", plan, again, compose, protocol=pb.PROTOCOL_WORKFLOW))
    assert [[item.message.content for item in part.said] for part in found] == [
        ["plan it", "a plan", "that was no plan", "better"],
        ["write it", "the answer"],
    ]
    assert [part.tools for part in found] == [False, False]


async def test_judgements_make_pairs(tmp_path: Path) -> None:
    store = MemoryStore()
    await keep(store, run("up", "seven [1]"), run("down", "wrong"), run("mended", "about seven [1]"))
    judged = {
        "up": judgement("up", True),
        "down": judgement("down", False),
        "mended": judgement("mended", True, "seven, by [1]"),
    }
    wanted = Wanted("dpo", production=True, judged=judged, unreviewed=True)
    assert (await export(store, wanted, tmp_path / "dpo.jsonl", None)).rows == 2
    edit, preferred = lines(tmp_path / "dpo.jsonl")
    assert edit["why"] == "its user edited the answer"
    # The messages before are those that the model saw; both sides are lists, as TRL reads conversational pairs.
    assert [item["content"] for item in edit["prompt"]] == ["be brief", "what is it", "look again", "found seven"]
    for side, answer in (("chosen", "seven, by [1]"), ("rejected", "about seven [1]")):
        (message,) = edit[side]
        assert json.loads(message["tool_calls"][0]["function"]["arguments"])["answer"] == answer
        assert message["content"] == "done"
    assert preferred["why"] == "its user preferred the answer"
    calls = [preferred[side][0]["tool_calls"][0]["function"] for side in ("chosen", "rejected")]
    assert [json.loads(call["arguments"])["answer"] for call in calls] == ["seven [1]", "wrong"]


async def test_a_judgement_becomes_a_pair_only_when_a_reviewer_has_accepted_it(tmp_path: Path) -> None:
    store = MemoryStore()
    names = ("up", "down", "mended", "refused", "checked")
    await keep(store, *(run(name, f"{name} [1]") for name in names))
    judged = {
        "up": judgement("up", True),
        "down": judgement("down", False),
        "mended": judgement("mended", True, "by its user [1]"),
        "refused": judgement("refused", True, "by its user [1]"),
    }
    plain = Wanted("dpo", production=True, judged=judged)
    done = await export(store, plain, tmp_path / "dpo.jsonl", None)
    # Two edits, and a disliked answer beside a liked one.
    assert (done.rows, dict(+done.left_out)) == (0, {UNREVIEWED: 3})
    # What the checks found fault with needs no judgement of its user.
    reviewed = {"mended": "as reviewed [1]", "refused": "", "checked": "mended by a reviewer [1]"}
    done = await export(store, replace(plain, reviewed=reviewed, unreviewed=True), tmp_path / "dpo.jsonl", None)
    assert dict(+done.left_out) == {"a reviewer has refused the better answer": 1}
    chosen = {}
    for row in lines(tmp_path / "dpo.jsonl"):
        called = json.loads(row["chosen"][0]["tool_calls"][0]["function"]["arguments"])
        chosen[row["id"].partition("#")[0]] = (row["why"], called["answer"])
    accepted = "a reviewer accepted another answer"
    assert chosen["mended"] == (accepted, "as reviewed [1]")
    assert chosen["checked"] == (accepted, "mended by a reviewer [1]")
    # With --unreviewed the user's preference counts beside them, and never against a reviewer.
    assert sorted(why for why, _ in chosen.values()) == [accepted, accepted, "its user preferred the answer"]


def test_an_edit_must_refer_to_what_the_models_own_text_has() -> None:
    with pytest.raises(UnusableEdit, match=r"\{\{figure:fig_1\}\}"):
        pair_edit(run("r", "see [1]"), "see [1] {{figure:fig_1}}")


def test_an_edit_of_tagged_and_of_plain_answers() -> None:
    tagged = episode("r", step(0, OPENING, "<think> so </think> <answer>6</answer>"), protocol=pb.PROTOCOL_SEARCH_R1)
    pair = pair_edit(tagged, "7")
    assert pair.chosen.message.content == "<think> so </think> <answer>7</answer>"
    assert pair.rejected.message.content == "<think> so </think> <answer>6</answer>"
    assert pair_edit(episode("r", step(0, OPENING, "6")), "7").chosen.message.content == "7"


def test_answers_behind_different_prompts_are_no_pair() -> None:
    other = [make_message(policy.ROLE_SYSTEM, "be verbose"), make_message(USER, "what is it")]
    liked, disliked = run("a"), episode("b", step(0, other, "no", tool="finish"), lane=common.LANE_INTERACTIVE)
    judged = {"a": judgement("a", True), "b": judgement("b", False)}
    assert list(preferences([liked, disliked], judged)) == [None]


async def test_a_disliked_answer_is_not_imitated(tmp_path: Path) -> None:
    store = MemoryStore()
    await keep(store, run("up"), run("down"), run("mended"))
    judged = {"down": judgement("down", False), "mended": judgement("mended", True, "another")}
    done = await export(store, Wanted("sft", production=True, judged=judged), tmp_path / "sft.jsonl", None)
    assert [row["id"] for row in lines(tmp_path / "sft.jsonl")] == ["up#0"]
    assert dict(done.left_out) == {"its user was not content with the answer": 2}


async def test_approved_answers_are_prompts_that_our_trainers_and_verl_read(tmp_path: Path) -> None:
    store, target = MemoryStore(), tmp_path / "rl.parquet"
    await keep(store, run("up", "seven"), run("mended", "six"), run("down", "no"), run("silent"))
    await store.put("rollouts/roll/0000-00.pb", episode("roll-0-0", step(0, OPENING, "x")).SerializeToString())
    judged = {
        "up": judgement("up", True), "mended": judgement("mended", True, "seven, li@example.com"),
        "down": judgement("down", False),
    }  # fmt: skip
    done = await export(store, Wanted("rl", production=True, judged=judged), target, None)
    assert (done.rows, dict(done.left_out)) == (
        1,
        {"its user has not approved the answer": 2, "it is a rollout, whose task is a prompt already": 1},
    )
    (record,) = records.read(target)
    assert record.question == "what is it"
    assert record.targets == ("seven, <email>", "seven")
    assert (record.grader, record.split, record.index) == ("f1", "train", 0)
    (row,) = records.pq.read_table(target).to_pylist()  # type: ignore[attr-defined]
    assert row["prompt"] == [{"role": "system", "content": "be brief"}, {"role": "user", "content": "what is it"}]
    assert row["data_source"] == "fathom_runs"
    assert row["reward_model"] == {"style": "rule", "ground_truth": {"target": ["seven, <email>", "seven"]}}
    assert row["extra_info"]["index"] == 0
    with pytest.raises(InvalidField, match=r"\.parquet"):
        await export(store, Wanted("rl", production=True, judged=judged), tmp_path / "rl.jsonl", None)
