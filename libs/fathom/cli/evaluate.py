"""``fathom eval``: measures parts of the system on labelled data."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Annotated, Optional

import typer

from fathom.errors import InvalidField

app = typer.Typer(help="Measures a part of the system on labelled data.", no_args_is_help=True)


@app.callback()
def group() -> None:
    """Measure a part of the system on labelled data."""


@app.command()
def retrieval(
    corpus: Annotated[Optional[Path], typer.Option(help="JSON lines with id, title and text.")] = None,  # noqa: UP045
    qrels: Annotated[Optional[Path], typer.Option(help="JSON lines with id, text and gold ids.")] = None,  # noqa: UP045
    sets: Annotated[Optional[list[str]], typer.Option("--set", help="A public set by name; may come again.")] = None,  # noqa: UP045
    data: Annotated[Path, typer.Option(help="Folder with the public sets.")] = Path("../shared/data"),
    encoder: Annotated[str, typer.Option(help="Encoder; 'none' for words alone.")] = "",
    index: Annotated[Optional[Path], typer.Option(help="Folder that keeps the indexes for the next time.")] = None,  # noqa: UP045
    threads: Annotated[int, typer.Option(help="Threads of the encoder; 0 takes all.")] = 0,
    home: Annotated[Path, typer.Option(help="Folder with the models.", envvar="FATHOM_LOCAL_HOME")] = Path(".fathom"),
    json_lines: Annotated[bool, typer.Option("--json", help="Print one line of JSON per ranking.")] = False,
) -> None:
    """Measure Recall@k, nDCG@10 and MRR of BM25, vectors and both.

    The weight of the vectors is fitted on the other half of the queries.
    """
    from services.retrieval.config import Config, Recipe
    from services.retrieval.datasets import named, own
    from services.retrieval.evaluation import evaluate

    if (corpus is None) != (qrels is None) or not (corpus or sets):
        raise InvalidField("corpus", "give --corpus with --qrels, or --set")
    config = Config(model_dir=home / "models", threads=threads)
    with tempfile.TemporaryDirectory() as scratch:
        for name in sets or ["own"]:
            if corpus is not None and qrels is not None and not sets:
                (documents, queries), usual = own(corpus, qrels), ""
            else:
                documents, queries, usual = named(name, data)
            chosen = "" if encoder == "none" else encoder or usual
            folder = (index or Path(scratch)) / name / (chosen or "words").replace("/", "_")
            result = evaluate(documents, queries, Recipe(encoder=chosen), config, folder)
            if json_lines:
                for row in result.rows:
                    typer.echo(json.dumps({"set": name, "ranking": row.name, "alpha": row.alpha, **row.figures}))
                continue
            size = f"{result.documents:,} documents, {result.queries:,} queries"
            weight = "" if result.alpha is None else f", alpha {result.alpha}"
            typer.echo(f"\n{name}: {size}, {result.encoder or 'words'}{weight}")
            typer.echo(f"{'':<10}" + "".join(f"{measure:>9}" for measure in result.rows[0].figures))
            for row in result.rows:
                fitted = "  fitted on the other half: " + " and ".join(map(str, row.alpha)) if row.alpha else ""
                typer.echo(
                    f"{row.name:<10}" + "".join(f"{value * 100:>9.1f}" for value in row.figures.values()) + fitted
                )


@app.command()
def answers(
    grader: Annotated[Optional[list[str]], typer.Option(help="Grader or composite; may come again.")] = None,  # noqa: UP045
    limit: Annotated[int, typer.Option(help="At most this many of the newest runs.", min=1, max=10_000)] = 50,
    share: Annotated[float, typer.Option(help="Share of them that is drawn.", min=0, max=1)] = 1.0,
    seed: Annotated[int, typer.Option(help="Which ones.")] = 0,
    references: Annotated[Optional[Path], typer.Option(help="JSON lines with question and references.")] = None,  # noqa: UP045
    planner: Annotated[str, typer.Option(help="URL of a planner; by default the local stack's.")] = "",
    reward: Annotated[str, typer.Option(help="URL of a reward service; with --planner.")] = "",
    home: Annotated[Path, typer.Option(help="Folder with the local stack.", envvar="FATHOM_LOCAL_HOME")] = Path(
        ".fathom"
    ),
    json_lines: Annotated[bool, typer.Option("--json", help="Print one line of JSON per grade.")] = False,
) -> None:
    """Grade a sample of the runs so far, with the graders of training."""
    from fathom.cli.answers import Sample, run

    if bool(planner) != bool(reward):
        raise InvalidField("reward", "give --planner with --reward, or neither")
    endpoints = {"planner": planner, "reward": reward} if planner else {}
    sample = Sample(share, seed, limit)
    run(home, endpoints, grader or ["tool_steps", "code"], sample, references, json_lines)


@app.command()
def watch(
    config: Annotated[Optional[Path], typer.Option(help="YAML file with sections 'runtime' and 'grading'.")] = None,  # noqa: UP045
    home: Annotated[Path, typer.Option(help="Folder with the local stack.", envvar="FATHOM_LOCAL_HOME")] = Path(
        ".fathom"
    ),
) -> None:
    """Grade every run as it ends, once even with several copies; the chart runs this in production.

    Settings are FATHOM_RUNTIME_* (bus, endpoints, port of metrics and health) and FATHOM_GRADING_* (graders, share);
    without a bus it watches the local stack.
    """
    from fathom.cli.local import read_endpoints
    from fathom.config import load
    from fathom.monitoring.config import Config
    from fathom.monitoring.host import NAME, serve
    from fathom.rpc.host import Runtime, run_or_exit

    runtime, settings = load(Runtime, "runtime", file=config), load(Config, NAME, file=config)
    if runtime.bus_url == "memory://":
        there = read_endpoints(home)
        found = {"bus_url": there.nats, "store_url": there.store, "endpoints": dict(there.services)}
        runtime = runtime.model_copy(update=found)
    run_or_exit(NAME, lambda: serve(settings, runtime))
