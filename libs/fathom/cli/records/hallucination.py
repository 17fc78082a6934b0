"""Implementation of ``fathom eval hallucination``: asks two models what they know, and prints what the second lost."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import typer

from fathom.api.policy.v1 import policy_pb2 as policy
from fathom.clients import Clients, connect
from fathom.clients.completions import read_completion
from fathom.clients.local import read_endpoints
from fathom.core.call import Lane
from fathom.core.errors import CorruptData, InvalidField, VersionMismatch
from fathom.core.ids import new_id
from fathom.domain.chat.messages import Message, Role, Sampling
from fathom.domain.chat.proto import message_to_proto, sampling_to_proto
from fathom.domain.journal import Journal
from fathom.operations.evaluation.knowledge import Comparison, Fact, describe_comparison, load_facts
from fathom.operations.evaluation.page import render_shares
from fathom.operations.ranking.page import render_table
from fathom.operations.shadow.mirror import Side

# Room for a sentence with the answer in it; a small model writes on for as long as it may.
REPLY = Sampling(max_tokens=48)
REPLY_S = 120.0
AT_ONCE = 4
ENDING = ".jsonl"


@dataclass(frozen=True)
class Probe:
    """Inputs of a probe: the facts, the endpoints that are asked, and the folder of their replies."""

    facts: tuple[Fact, ...]
    endpoints: Mapping[str, str]
    output: Path


def run(before: str, after: str, questions: Path | None, output: Path, endpoints: Mapping[str, str]) -> int:
    """Ask both sides, print the comparison and write the report; return the exit status.

    A side is ``MODEL`` or ``MODEL@VERSION`` of the policy service, or a file of replies that an earlier call kept, so
    that a version which no longer serves can be compared too. Raises ``FathomError``.
    """
    probe = Probe(tuple(load_facts(questions)), endpoints, output)
    names, replies = asyncio.run(ask_sides(probe, before, after))
    found = Comparison(probe.facts, *replies)
    typer.echo(describe_comparison(names, found))
    page = output / "hallucination.html"
    page.write_text(render_comparison(names, found), encoding="utf-8")
    typer.echo(f"{page}: the report; replies beside it, one file for each side")
    return 0


async def ask_sides(probe: Probe, before: str, after: str) -> tuple[list[str], list[dict[str, str]]]:
    """Return names and replies of both sides, the one after the other."""
    # Read first: a mistake in a file must not cost a round of questions.
    known = {side: read_replies(Path(side), probe.facts) for side in (before, after) if side.endswith(ENDING)}
    asked = {
        side: Side.parse(side, field) for field, side in (("before", before), ("after", after)) if side not in known
    }
    clients = connect(dict(probe.endpoints), lane=Lane.EVALUATION)
    try:
        for side, model in asked.items():
            known[side] = await ask_facts(clients, probe, model)
    finally:
        await clients.close()
    found = [known[side] for side in (before, after)]
    return [name for name, _ in found], [replies for _, replies in found]


async def ask_facts(clients: Clients, probe: Probe, side: Side) -> tuple[str, dict[str, str]]:
    """Ask a model all questions and keep the replies in a file; return its name with its version, and the replies.

    Raises ``VersionMismatch`` when its weights were changed meanwhile: such replies are of no version.
    """
    gate = asyncio.Semaphore(AT_ONCE)

    async def ask(fact: Fact) -> tuple[str, int]:
        request = policy.GenerateRequest(
            request_id=new_id("probe"),
            model=side.model,
            messages=[message_to_proto(Message(Role.USER, fact.question))],
            sampling=sampling_to_proto(REPLY),
            policy_version=side.version,
            without_deltas=True,
        )
        async with gate:
            return await read_completion(clients, request, read_reply, timeout_s=REPLY_S)

    found = await asyncio.gather(*(ask(fact) for fact in probe.facts))
    versions = {version for _, version in found}
    if len(versions) > 1:
        raise VersionMismatch(side.model, min(versions), max(versions))
    name = f"{side.model}@{versions.pop()}"
    replies = {fact.id: text for fact, (text, _) in zip(probe.facts, found, strict=True)}
    path = probe.output / f"{name.replace('/', '_')}{ENDING}"
    # Anew each time: replies of an earlier call may be of another file of questions.
    path.unlink(missing_ok=True)
    Journal(path).append({"id": ident, "reply": text, "model": name} for ident, text in replies.items())
    return name, replies


def read_reply(completion: policy.Completion) -> tuple[str, int]:
    """Return the text and the version of a completion."""
    return completion.text, completion.version_max


def read_replies(path: Path, facts: Sequence[Fact]) -> tuple[str, dict[str, str]]:
    """Return name and replies of an earlier call.

    Raises ``InvalidField("replies")`` for a missing file or a question without reply, ``CorruptData`` for a row that
    is none.
    """
    if not path.is_file():
        raise InvalidField("replies", f"{path} is not there")
    replies, names = dict[str, str](), set[str]()
    for number, row in enumerate(Journal(path).read(), 1):
        if not all(isinstance(row.get(key), str) for key in ("id", "reply", "model")):
            raise CorruptData(f"{path}:{number}", "has no id, reply and model")
        replies[row["id"]] = row["reply"]
        names.add(row["model"])
    if lacking := [fact.id for fact in facts if fact.id not in replies]:
        raise InvalidField("replies", f"{path} has no reply to {lacking[0]}: it is of other questions")
    return "+".join(sorted(names)), replies


def render_comparison(names: Sequence[str], found: Comparison) -> str:
    """Return the report: shares with intervals, the table, and what was lost and gained with both replies."""
    shares = [
        (name, share.count / share.of, *share.interval)
        for name, share in zip(
            ("before", "after"), (found.count_known(found.before), found.count_known(found.after)), strict=True
        )
    ]
    title = f"What {names[0]} knew and {names[1]} answers"
    parts = []
    for head, facts in (
        ("Known before, wrong after", found.list_lost()),
        ("Wrong before, right after", found.list_gained()),
    ):
        rows = [[one.question, " / ".join(one.accepted), found.before[one.id], found.after[one.id]] for one in facts]
        parts.append(f"<h2>{head}</h2>{render_table(['question', 'accepted', 'before', 'after'], rows)}")
    label, table = "Share of right replies with 95 % intervals", describe_comparison(names, found)
    return render_shares(title, label, shares, table, "".join(parts))


def find_endpoints(home: Path, url: str, sides: Sequence[str]) -> dict[str, str]:
    """Return the policy service's URL, by default the local stack's; none is needed for files alone."""
    if url:
        return {"policy": url}
    return {} if all(side.endswith(ENDING) for side in sides) else dict(read_endpoints(home).services)
