"""T01 through the real stack: what rollouts and runs have recorded becomes training data by the command."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from fathom.api.memory.v1.memory_pb2 import RecordFeedbackRequest
from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.api.planner.v1 import trajectory_pb2 as trajectory
from fathom.api.policy.v1.policy_pb2 import DetokenizeRequest
from fathom.cli.main import app
from fathom.clients import Clients, connect
from fathom.clients.runs import run
from fathom.core.call import DEFAULT_TENANT
from fathom.services.local import Endpoints
from fathom.trainers.commands.production_queries import collect_queries
from fathom.trainers.data.compress_file import compress_file
from fathom.trainers.data.export.choose import NotTrainable
from fathom.trainers.data.export.files import Wanted, export
from fathom.trainers.data.export.tokens import PolicyRenderer, turn_end
from fathom.trainers.data.records import read
from fathom.transport.store import open_store

pytestmark = pytest.mark.asyncio(loop_scope="package")
Stack = tuple[Endpoints, Clients]
QUESTION, CITY = "In which city are the headquarters of PepsiCo?", "Purchase"


async def roll_out(
    clients: Clients, name: str, protocol: trajectory.Protocol, grader: str
) -> list[trajectory.Trajectory]:
    request = pb.RolloutRequest(
        request_id=name, tasks=[pb.RolloutTask(id="t", question=QUESTION, references=[CITY])], group_size=1,
        protocol=protocol, model="rules", grader=grader,
    )  # fmt: skip
    return [response.trajectory async for response in clients.planner.rollout(request, timeout_s=60.0)]


async def test_a_rollout_becomes_sft_rows_whose_rendering_is_what_was_sampled(stack: Stack, tmp_path: Path) -> None:
    """With tools and with tags: the policy service renders the messages to the very ids of the episode."""
    endpoints, clients = stack
    store = open_store(endpoints.store)
    tools = list((await clients.planner.list_tools(pb.ListToolsRequest())).tools)
    for name, protocol, grader in (
        ("export-tools", trajectory.PROTOCOL_RESEARCH, "sub_em"),
        ("export-tags", trajectory.PROTOCOL_SEARCH_R1, "em"),
    ):
        (played,) = await roll_out(clients, name, protocol, grader)
        wanted = Wanted("sft", "rules", least_reward=0.0, prefix=f"rollouts/{name}/", tools=tools)
        done = await export(store, wanted, tmp_path / f"{name}.jsonl", PolicyRenderer(clients, "rules", tools))
        (row,) = [json.loads(line) for line in (tmp_path / f"{name}.jsonl").read_text().splitlines()]
        assert row["token_ids"] == list(played.token_ids)
        assert row["loss_mask"] == list(played.mask)
        assert 0 < done.learned_tokens < done.tokens
        assert bool(row["tools"]) == (protocol == trajectory.PROTOCOL_RESEARCH)
        assert [m["weight"] for m in row["messages"] if m["role"] == "assistant"] == [1] * len(played.steps)

        renderer = PolicyRenderer(clients, "rules", tools)
        # Wanted for another model: nothing that was sampled can be taken as it is, all of it is rendered anew.
        again = Wanted("sft", "nobody", least_reward=0.0, prefix=f"rollouts/{name}/", tools=tools)
        await export(store, again, tmp_path / "again.jsonl", renderer)
        (other,) = [json.loads(line) for line in (tmp_path / "again.jsonl").read_text().splitlines()]
        assert other["exact"] is False
        ids, mask = row["token_ids"], row["loss_mask"]
        assert other["token_ids"][: len(ids)] == ids
        # Sampling stops at a closing tag; SFT teaches to end the turn behind it as well.
        ends = await turn_end(renderer)
        differ = [token for token, one, two in zip(ids, mask, other["loss_mask"], strict=False) if one != two]
        assert set(differ) <= {ends[0]}
        assert other["token_ids"][len(ids) :] in ([], [ends[0]])
        assert bool(differ) == (protocol == trajectory.PROTOCOL_SEARCH_R1)


async def list_imported(home: Path, run_id: str) -> list[str]:
    """Return the queries that are taken from the stored conversations, of one run."""
    # No near duplicates are left out at 1.0 but the same words, which other tests may have asked.
    found = await collect_queries(None, home, DEFAULT_TENANT, 1.0)
    return [query.text for query in found.queries if query.source.endswith(f"run {run_id}")]


async def test_a_users_run_needs_consent_and_cannot_train_ppo_of_another_model(stack: Stack, tmp_path: Path) -> None:
    endpoints, clients = stack
    store = open_store(endpoints.store)
    # One whose answer leaves nothing open: such runs alone are worth learning from.
    request = pb.RunRequest(request_id="export-run", question="What was the maximum drawdown of Apple in 2020?")
    events = [event async for event in run(clients, request)]
    assert events[-1].finished.answer.markdown
    prefix = "runs/trajectories/export-run"
    # A user's run is left out, and counted as left out, unless the operator says that it may be used.
    done = await export(store, Wanted("sft", prefix=prefix), tmp_path / "none.jsonl", None)
    assert (done.rows, sum(done.left_out.values())) == (0, 1)
    wanted = Wanted("sft", prefix=prefix, production=True)
    done = await export(store, wanted, tmp_path / "none.jsonl", None)
    assert (done.rows, dict(done.left_out)) == (0, {"a user's run, and its user has not consented": 1})
    assert not (tmp_path / "none.jsonl").exists(), "nothing was found, so nothing is written"
    home = Path(endpoints.store.removeprefix("file://")).parent
    assert await list_imported(home, "export-run") == []

    given, refused = trajectory.CONSENT_GIVEN, trajectory.CONSENT_REFUSED
    await clients.planner.set_consent(pb.SetConsentRequest(consent=given))
    assert (await export(store, wanted, tmp_path / "one.jsonl", None)).rows == 1, "all runs of the caller"
    await clients.planner.set_consent(pb.SetConsentRequest(run_id="export-run", consent=refused))
    found = await clients.planner.get_consent(pb.GetConsentRequest(run_id="export-run"))
    assert (found.consent, found.of_run) == (refused, True)
    assert (await export(store, wanted, tmp_path / "none.jsonl", None)).rows == 0, "but not this one"
    await clients.planner.set_consent(pb.SetConsentRequest(consent=refused))
    await clients.planner.set_consent(pb.SetConsentRequest(run_id="export-run", consent=given))
    assert (await export(store, wanted, tmp_path / "one.jsonl", None)).rows == 1
    # The question stands in the memory service as a turn of a conversation, and becomes a query.
    assert await list_imported(home, "export-run") == ["What was the maximum drawdown of Apple in 2020?"]
    # Log-probabilities of one model say nothing about another: PPO's ratio would be made of both.
    with pytest.raises(NotTrainable, match="'rules', not 'tiny'"):
        await export(store, Wanted("ppo", "tiny", prefix=prefix, production=True), tmp_path / "ppo.jsonl", None)


async def test_thinking_gets_shorter_by_the_policys_own_tokens(stack: Stack, tmp_path: Path) -> None:
    """Exported, compressed, rendered anew; the lengths are those of the serving model's tokenizer."""
    endpoints, clients = stack
    await roll_out(clients, "export-think", trajectory.PROTOCOL_SEARCH_R1, "em")
    store, renderer = open_store(endpoints.store), PolicyRenderer(clients, "rules")
    wanted = Wanted("sft", "rules", least_reward=0.0, prefix="rollouts/export-think/")
    await export(store, wanted, tmp_path / "long.jsonl", renderer)
    (row,) = [json.loads(line) for line in (tmp_path / "long.jsonl").read_text().splitlines()]
    long = "First I wonder about it. Then I wonder again about something. The headquarters of PepsiCo are what I need."
    for message in row["messages"]:
        message["content"] = message["content"].replace("I need to look this up.", long)
    (tmp_path / "long.jsonl").write_text(json.dumps(row) + "\n")
    lengths = await compress_file(tmp_path / "long.jsonl", tmp_path / "short.jsonl", 24, clients, "rules")
    (short,) = [json.loads(line) for line in (tmp_path / "short.jsonl").read_text().splitlines()]
    # 24 tokens hold the last of the three sentences, and not all of them.
    assert max(lengths.before) > 24 >= max(lengths.after)
    words = [message["content"] for message in short["messages"]]
    assert any("The headquarters of PepsiCo are what I need." in text and "wonder" not in text for text in words)
    assert len(short["token_ids"]) == len(short["loss_mask"])
    assert sum(short["loss_mask"]) < sum(row["loss_mask"]) + 60
    learned = [token for token, one in zip(short["token_ids"], short["loss_mask"], strict=True) if one]
    text = (await clients.policy.detokenize(DetokenizeRequest(model="rules", token_ids=learned))).text
    assert "The headquarters of PepsiCo are what I need." in text
    assert "Answer the question" not in text


async def test_the_command_reads_one_tenant_and_fails_when_it_finds_nothing(stack: Stack, tmp_path: Path) -> None:
    endpoints, _ = stack
    (tmp_path / "endpoints.json").write_text(endpoints.to_json())
    clients = connect(endpoints.services, tenant="fund-7")
    try:
        request = pb.RunRequest(request_id="export-tenant", question=QUESTION, consent=trajectory.CONSENT_GIVEN)
        assert [event async for event in run(clients, request)][-1].finished.answer.markdown
        feedback = RecordFeedbackRequest(run_id="export-tenant", helpful=True)
        await clients.memory.record_feedback(feedback)
    finally:
        await clients.close()

    def export_as(tenant: str, kind: str, target: Path) -> Result:
        command = ["export", kind, "--production", "--target", str(target), "--home", str(tmp_path)]
        return CliRunner().invoke(app, [*command, "--prefix", "runs/trajectories/export-tenant", "--tenant", tenant])

    # In a thread: the command has an event loop of its own.
    found = await asyncio.to_thread(export_as, "fund-7", "rl", tmp_path / "own.parquet")
    assert found.exit_code == 0, found.output
    (record,) = read(tmp_path / "own.parquet")
    assert (record.id, record.question) == ("export-tenant", QUESTION)
    for tenant in ("fund-8", "default"):
        none = await asyncio.to_thread(export_as, tenant, "sft", tmp_path / "none.jsonl")
        assert none.exit_code == 1
        assert "nothing was found" in none.output
        assert not (tmp_path / "none.jsonl").exists()
