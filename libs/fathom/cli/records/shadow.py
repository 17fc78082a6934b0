"""Implementation of ``fathom shadow``."""

from __future__ import annotations

import asyncio
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

import typer

from fathom.cli.answers import Sample, list_ended_runs
from fathom.clients import connect
from fathom.clients.local import read_endpoints
from fathom.core.call import Call as Context
from fathom.core.call import Lane, calling
from fathom.core.config import load
from fathom.core.identity import environment_tenant
from fathom.hosting.host import Runtime, run_or_exit
from fathom.operations.shadow.config import Config
from fathom.operations.shadow.gate import Decision, Gate, Outcome, Verdict, judge
from fathom.operations.shadow.host import NAME, serve
from fathom.operations.shadow.mirror import Experiment, Mirror, Result
from fathom.transport.store import open_store
from fathom.transport.store.tenant import TenantStore

# 2 is what a shell gets for a wrong command line.
STATUS = {Decision.PROMOTE: 0, Decision.REJECT: 1, Decision.UNDECIDED: 3}


@dataclass(frozen=True)
class Call:
    """Place and extent of one call of the command; ``report`` is a file for the results, None for none."""

    home: Path
    tenant: str
    in_flight: int
    report: Path | None


def run(call: Call, experiment: Experiment, gate: Gate, share: float, seed: int, limit: int) -> int:
    """Print the verdict and return the exit status; raise ``FathomError``."""
    results = asyncio.run(compare(call, experiment, Sample(share, seed, limit)))
    if call.report is not None:
        lines = [json.dumps(asdict(result), ensure_ascii=False) for result in results]
        call.report.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    verdict = judge([result.outcome for result in results], gate)
    typer.echo(format_verdict(experiment, gate, verdict))
    for result in results:
        if result.outcome is Outcome.FAILED:
            typer.echo(f"not compared: {result.run_id} ({result.reason})", err=True)
    return STATUS[verdict.decision]


async def compare(call: Call, experiment: Experiment, sample: Sample) -> list[Result]:
    """Mirror the sampled runs; return their results in the order of their ids."""
    endpoints, tenant = read_endpoints(call.home), environment_tenant(os.environ, call.tenant)
    # In the lane of trainings: users' questions overtake all that is mirrored.
    clients = connect(endpoints.services, lane=Lane.TRAINING, tenant=tenant)
    store = open_store(endpoints.store)
    try:
        run_ids = await list_ended_runs(clients, sample)
        with calling(Context.new(lane=Lane.TRAINING, tenant=tenant)):
            mirror = Mirror(clients, TenantStore(store), experiment, call.in_flight)
            found = [result async for result in mirror.results(run_ids)]
    finally:
        await clients.close()
        await store.close()
    return sorted(found, key=lambda result: result.run_id)


def watch_runs(file: Path | None, home: Path) -> int:
    """Mirror users' runs as they end; return the exit status."""
    runtime, config = load(Runtime, "runtime", file=file), load(Config, NAME, file=file)
    if runtime.bus_url == "memory://":
        runtime = runtime.model_copy(update=read_endpoints(home).runtime)
    decisions: list[Decision] = []

    async def work() -> None:
        experiment, gate = config.experiment, config.gate
        decisions.append(
            await serve(config, runtime, lambda verdict: typer.echo(format_verdict(experiment, gate, verdict)))
        )

    run_or_exit(NAME, work)
    return STATUS[decisions[0]]


def format_verdict(experiment: Experiment, gate: Gate, verdict: Verdict) -> str:
    """Return the verdict in two lines."""
    counts = f"{verdict.wins} wins, {verdict.ties} ties, {verdict.losses} losses, {verdict.failed} not compared"
    decided = verdict.wins + verdict.losses
    rate = f"win rate {verdict.rate:.3f} [{verdict.low:.3f}, {verdict.high:.3f}] of {decided} decided"
    rule = f"above {gate.threshold:g}, at least {gate.least} decided"
    return (
        f"{experiment.candidate} against {experiment.baseline} by {experiment.grader}: {counts}\n"
        f"{rate} (95 %, Wilson; {rule}): {verdict.decision}"
    )
