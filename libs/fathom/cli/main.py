"""The ``fathom`` command: those of its commands that need only clients, and those that entry points bring."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Optional

import typer

import fathom
from fathom.cli.backup import app as backup
from fathom.cli.evaluate import app as evaluate
from fathom.cli.feedback import app as feedback
from fathom.cli.identity import app as identity
from fathom.cli.memory import app as memory
from fathom.cli.options import HOME, Context, Home, Kubeconfig, Namespace, Release
from fathom.cli.plugins import add_commands
from fathom.cli.runs import app as runs
from fathom.cli.runs import branch, replay
from fathom.cli.shadow import app as shadow
from fathom.core.errors import FathomError
from fathom.core.extras import name_missing_extra
from fathom.operations.quotas import app as quota

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

# Groups before the entry points, which may add commands to them.
app.add_typer(backup, name="backup")
app.add_typer(evaluate, name="eval")
app.add_typer(feedback, name="feedback")
app.add_typer(identity, name="identity")
app.add_typer(memory, name="memory")
app.add_typer(quota, name="quota")
app.add_typer(runs, name="runs")
app.add_typer(shadow, name="shadow")
# The two that experiments are made of stand at the top, too.
app.command()(replay)
app.command()(branch)


def print_version(wanted: bool) -> None:
    """Print the package's version and exit, where it is wanted."""
    if wanted:
        typer.echo(f"fathom {fathom.__version__}")
        raise typer.Exit


@app.callback()
def start(
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version and exit.", callback=print_version, is_eager=True),
    ] = False,
) -> None:
    """Financial deep research: cited answers from a system of services, and the training of its model."""


Parent = Annotated[
    Optional[int],  # noqa: UP045
    typer.Option(
        min=0, help="Turn of --conversation that the question follows, 0 for its beginning; by default the newest."
    ),
]


@app.command()
def ask(
    question: Annotated[str, typer.Argument(help="The question.")],
    home: Home = HOME,
    planner: Annotated[str, typer.Option(help="URL of a planner, e.g. grpc://host:50051.")] = "",
    model: Annotated[str, typer.Option(help="Model; by default the planner's.")] = "",
    conversation: Annotated[str, typer.Option(help="Conversation to continue.")] = "",
    parent: Parent = None,
    mode: Annotated[
        str, typer.Option(help="research (the agent), workflow (the fixed pipeline) or auto (by the question).")
    ] = "research",
    window: Annotated[
        str, typer.Option(help="How a long context is shortened: off, delete, summarize or hybrid.")
    ] = "",
    window_tokens: Annotated[int, typer.Option(help="Context window in tokens; by default the planner's.")] = 0,
    effort: Annotated[
        str, typer.Option(help="quick, standard or deep: rounds, time, window and thinking of the run.")
    ] = "",
    table: Annotated[
        Optional[list[Path]],  # noqa: UP045
        typer.Option(help="Own table (CSV, TSV, XLSX or Parquet) that the run begins with; may be repeated."),
    ] = None,
    own: Annotated[
        Optional[list[Path]],  # noqa: UP045
        typer.Option(
            "--with",
            help="Own file or folder that the run reads: PDF, DOCX, PPTX, HTML, Markdown, text, mail (EML), CSV, TSV, "
            "XLSX, Parquet; may be repeated.",
        ),
    ] = None,
    columns: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(help="What the columns of tables among --with mean, as `fathom columns --to` writes it."),
    ] = None,
    gateway: Annotated[
        str, typer.Option(help="URL of the gateway for --table and --with; by default the local stack's.")
    ] = "",
    json_events: Annotated[bool, typer.Option("--json", help="Print the events as JSON lines.")] = False,
) -> None:
    """Ask a question, stream the trace and print the cited answer."""
    from fathom.cli.ask import ask_question
    from fathom.domain.chat.windows import window_of

    asked = window_of(window, window_tokens)
    ask_question(
        question,
        home,
        planner,
        model=model,
        conversation=conversation,
        parent=parent,
        mode=mode,
        window=asked,
        effort=effort,
        tables=table or [],
        own=own or [],
        columns=columns,
        gateway=gateway,
        json_events=json_events,
    )


@app.command("columns")
def show_columns(
    own: Annotated[list[Path], typer.Argument(help="Own tables, or folders of them.")],
    to: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(help="File to write it to, as YAML to edit; it must not be there."),
    ] = None,
    home: Home = HOME,
    gateway: Annotated[str, typer.Option(help="URL of a gateway; by default the local stack's.")] = "",
) -> None:
    """Show what the columns of own tables are taken for: dates, names, units, how values add up."""
    from fathom.cli.uploads.sending import propose_meanings

    propose_meanings(own, to, home, gateway)


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
        typer.Option(help="Check only these services: grpc://host:port, or http://host:port of a gateway."),
    ] = None,
    model: Annotated[
        str, typer.Option(help="Check only this model behind an endpoint, by a dozen small requests to it.")
    ] = "",
    base_url: Annotated[str, typer.Option(help="Endpoint of --model; by default that of policy's settings.")] = "",
    key_env: Annotated[str, typer.Option(help="Environment variable with the key for --base-url.")] = "",
    cluster: Annotated[bool, typer.Option("--cluster", help="Check a release on Kubernetes instead.")] = False,
    release: Release = "fathom",
    namespace: Namespace = "",
    context: Context = "",
    kubeconfig: Kubeconfig = None,
) -> None:
    """Check every dependency and every service, and say how to fix what is missing."""
    if cluster:
        from fathom.cli.doctor.cluster import examine_cluster
        from fathom.operations.cluster.api import ReleasePlace

        raise typer.Exit(examine_cluster(ReleasePlace(release, namespace, context, kubeconfig)))
    from fathom.cli.doctor.local import examine, examine_model, examine_serving

    if model:
        raise typer.Exit(examine_model(model, base_url, key_env))
    raise typer.Exit(examine_serving(serving) if serving else examine(home))


@app.command()
def version() -> None:
    """Print what a report of a bug needs: version, contract, Python, and the commit of a checkout."""
    from fathom.cli.version import describe_version

    typer.echo(describe_version())


add_commands(app)


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
