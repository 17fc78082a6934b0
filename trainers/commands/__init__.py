"""The trainers' commands: ``fathom train``, ``report``, ``export``, ``data convert``, ``synth`` and ``compress``.

Each imports its work when it runs; pyproject.toml declares them as entry points (``fathom.cli.plugins``).
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from fathom.cli.options import HOME, Context, Home, Kubeconfig, Namespace, Release
from fathom.core.errors import InvalidField

EMPTY = "memory://"
"""A store without any training, for the report of folders alone."""


def train(
    algorithm: Annotated[str, typer.Argument(help="sft, dpo, ppo, grpo, rloo, prime, search_r1, brpo or interpreter.")],
    overrides: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Argument(help="Settings as section.field=value, e.g. actor.optim.lr=1e-3."),
    ] = None,
    config: Annotated[
        Optional[list[Path]],  # noqa: UP045
        typer.Option(help="YAML file that overrides the algorithm's defaults; repeatable, later files win."),
    ] = None,
    replay: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(help="Folder of recorded rollouts to train on instead of new ones."),
    ] = None,
    home: Home = HOME,
    on_cluster: Annotated[
        bool, typer.Option("--on-cluster", help="Run as a RayJob in the cluster of a release.")
    ] = False,
    release: Release = "fathom",
    namespace: Namespace = "",
    context: Context = "",
    kubeconfig: Kubeconfig = None,
    job_id: Annotated[str, typer.Option(help="With --on-cluster: the same id again finds the same job.")] = "",
    workers: Annotated[Optional[int], typer.Option(help="Ray workers; by default the release's.", min=0)] = None,  # noqa: UP045
    max_workers: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(help="Ray workers at most, which come and go with the load; by default the release's.", min=0),
    ] = None,
    gpus: Annotated[Optional[int], typer.Option(help="GPUs per worker; by default the release's.", min=0)] = None,  # noqa: UP045
    follow: Annotated[
        bool, typer.Option("--follow/--detach", help="Follow the job to its end, or only submit it.")
    ] = True,
    stop: Annotated[
        bool, typer.Option("--stop", help="Ctrl-C deletes the job; without this it keeps running.")
    ] = False,
) -> None:
    """Train a model on rollouts from the running services; start a local stack when none is up."""
    if on_cluster:
        from fathom.operations.cluster.api import ReleasePlace
        from fathom.trainers.commands.on_cluster import Asked, train_on_cluster

        more = [f"rollout.replay={replay}"] if replay else []
        asked = Asked(
            algorithm,
            config or [],
            [*(overrides or []), *more],
            job_id,
            workers,
            gpus,
            max_workers,
            follow=follow,
            stop=stop,
        )
        raise typer.Exit(train_on_cluster(asked, ReleasePlace(release, namespace, context, kubeconfig)))
    from fathom.trainers.commands.local_run import Wanted, run_training

    run_training(Wanted(algorithm, config or [], overrides or [], home, replay))


def report(
    names: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Argument(help="Trainings by name, or their output folders; by default those of the store begun last."),
    ] = None,
    target: Annotated[Path, typer.Option(help="HTML file to write.")] = Path("report.html"),
    store: Annotated[str, typer.Option(help="URL of the object store; by default the local stack's.")] = "",
    follow: Annotated[bool, typer.Option("--follow", help="Write it anew until the trainings have ended.")] = False,
    home: Home = HOME,
) -> None:
    """Write one HTML file with curves, settings and samples of trainings, side by side; it needs no network."""
    import asyncio

    from fathom.trainers.commands.local_run import find_store
    from fathom.trainers.commands.report_file import write_reports

    url = store or find_store(home)
    if not (names or url):
        cause = f"no stack has left one in {home}: give its URL, or name trainings by their output folders"
        raise InvalidField("store", cause)
    found = asyncio.run(write_reports(names or [], url or EMPTY, target, follow=follow))
    typer.echo(f"{target}: {', '.join(found)}")


def export(
    kind: Annotated[str, typer.Argument(help="sft, dpo, ppo or rl")],
    target: Annotated[Path, typer.Option(help="JSONL file to write; for rl a parquet file.")],
    home: Home = HOME,
    model: Annotated[str, typer.Option(help="Model to be trained; its token ids are written.")] = "",
    prefix: Annotated[str, typer.Option(help="Only records whose key starts with this, e.g. rollouts/ID/.")] = "",
    least_reward: Annotated[float, typer.Option(help="Lowest reward of a successful episode.")] = 1.0,
    margin: Annotated[float, typer.Option(help="Lowest difference in reward within a pair.")] = 0.5,
    production: Annotated[
        bool, typer.Option("--production", help="Include users' runs, of which only those with consent are written.")
    ] = False,
    unreviewed: Annotated[
        bool, typer.Option("--unreviewed", help="Pairs of users' own judgements, too, that no reviewer has accepted.")
    ] = False,
    tenant: Annotated[str, typer.Option(help="Whose episodes; by default your token's, or the operator's own.")] = "",
    grader: Annotated[str, typer.Option(help="Grader of RL prompts.")] = "f1",
) -> None:
    """Write recorded episodes as training data: successes, corrections, samples."""
    from fathom.trainers.commands.export_files import export_episodes

    export_episodes(
        kind,
        target,
        home,
        model=model,
        prefix=prefix,
        least_reward=least_reward,
        margin=margin,
        production=production,
        unreviewed=unreviewed,
        tenant=tenant,
        grader=grader,
    )


def convert_data(
    name: Annotated[str, typer.Argument(help="Question set, e.g. nq_open; a wrong name lists them.")],
    source: Annotated[Path, typer.Option(help="Folder with the sets' folders.")],
    target: Annotated[Path, typer.Option(help="Folder for train.parquet and test.parquet.")],
    instruction: Annotated[str, typer.Option(help="Instruction in the prompt: search_r1 or reason.")] = "search_r1",
    test_share: Annotated[float, typer.Option(help="Share of the questions that is held out.")] = 0.2,
    seed: Annotated[int, typer.Option(help="Seed of the split.")] = 7,
    limit: Annotated[Optional[int], typer.Option(help="At most this many prompts per file.", min=1)] = None,  # noqa: UP045
) -> None:
    """Convert a question-answering set to training prompts with verifiable answers; downloads nothing."""
    from fathom.trainers.commands.data_files import convert_set

    convert_set(name, source, target, instruction=instruction, test_share=test_share, seed=seed, limit=limit)


def synthesise_data(
    target: Annotated[Path, typer.Option(help="Folder for search/, code/ and table/.")],
    home: Home = HOME,
    count: Annotated[int, typer.Option(help="Tasks per scenario.", min=1)] = 150,
    seed: Annotated[int, typer.Option(help="Seed; equal data, count and seed make equal tasks.")] = 7,
    test_share: Annotated[float, typer.Option(help="Share of the tasks that is held out.")] = 0.2,
) -> None:
    """Make tasks with computed answers from the bundled data: search, code reasoning, table query."""
    from fathom.trainers.commands.data_files import synthesise

    synthesise(home, target, count=count, seed=seed, test_share=test_share)


def compress_data(
    source: Annotated[Path, typer.Option(help="JSONL of `fathom export sft`.")],
    target: Annotated[Path, typer.Option(help="JSONL to write.")],
    model: Annotated[str, typer.Option(help="Model to be trained; its tokenizer counts the tokens.")],
    home: Home = HOME,
    budget: Annotated[int, typer.Option(help="Maximum tokens of a shortened thought.", min=1)] = 64,
) -> None:
    """Shorten thinking before training: keep of each thought the sentences that later text makes use of."""
    from fathom.trainers.commands.data_files import compress_thinking

    compress_thinking(home, source, target, budget=budget, model=model)
