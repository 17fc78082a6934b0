"""``fathom eval retrieval``: measures rankings on labelled questions."""

from __future__ import annotations

import html
import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from fathom.core.errors import InvalidField

if TYPE_CHECKING:
    from fathom.services.retrieval.tools.evaluation import Evaluation


def evaluate_retrieval(
    corpus: Annotated[Optional[Path], typer.Option(help="JSON lines with id, title and text.")] = None,  # noqa: UP045
    qrels: Annotated[Optional[Path], typer.Option(help="JSON lines with id, text and relevant ids.")] = None,  # noqa: UP045
    sets: Annotated[Optional[list[str]], typer.Option("--set", help="A public set by name; repeatable.")] = None,  # noqa: UP045
    data: Annotated[Path, typer.Option(help="Folder with the public sets.")] = Path("../shared/data"),
    encoder: Annotated[str, typer.Option(help="Encoder; 'none' for BM25 alone.")] = "",
    index: Annotated[Optional[Path], typer.Option(help="Folder for indexes to reuse.")] = None,  # noqa: UP045
    threads: Annotated[int, typer.Option(help="Threads of the encoder; 0 takes all.")] = 0,
    home: Annotated[Path, typer.Option(help="Folder with the models.", envvar="FATHOM_LOCAL_HOME")] = Path(".fathom"),
    json_lines: Annotated[bool, typer.Option("--json", help="Print one line of JSON per ranking.")] = False,
    page: Annotated[Optional[Path], typer.Option(help="Write a report as HTML, too.")] = None,  # noqa: UP045
) -> None:
    """Measure Recall@k, nDCG@10 and MRR of BM25, vectors and both; nDCG@10 with its 95 % interval over queries.

    The weight of the vectors is fitted on the other half of the queries.
    """
    # Imported here: the command line starts without numpy.
    from fathom.services.retrieval.config import Config, Recipe
    from fathom.services.retrieval.tools.datasets import load_named, load_own
    from fathom.services.retrieval.tools.evaluation import evaluate

    # One without the other measures nothing.
    if (corpus is None) != (qrels is None) or not (corpus or sets):
        raise InvalidField("corpus", "give --corpus with --qrels, or --set")
    config = Config(model_dir=home / "models", threads=threads)
    results = {}
    with tempfile.TemporaryDirectory() as scratch:
        for name in sets or ["own"]:
            if corpus is not None and qrels is not None and not sets:
                (documents, queries), usual = load_own(corpus, qrels), ""
            else:
                documents, queries, usual = load_named(name, data)
            chosen = "" if encoder == "none" else encoder or usual
            # A folder per set and encoder, so that an index is reused for the same texts and vectors only.
            folder = (index or Path(scratch)) / name / (chosen or "words").replace("/", "_")
            result = results[name] = evaluate(documents, queries, Recipe(encoder=chosen), config, folder)
            if json_lines:
                for row in result.rows:
                    line = {"set": name, "ranking": row.name, "alpha": row.alpha, **row.figures}
                    typer.echo(json.dumps({**line, "nDCG@10 95 %": row.interval}))
            else:
                typer.echo(f"\n{name}: {format_result(result)}")
    if page is not None:
        page.write_text(render_results(results), encoding="utf-8")


def format_result(result: Evaluation) -> str:
    """Return a line about the set, and a line with the measures of each ranking in percent."""
    size = f"{result.documents:,} documents, {result.queries:,} queries"
    weight = "" if result.alpha is None else f", alpha {result.alpha}"
    lines = [
        f"{size}, {result.encoder or 'words'}{weight}",
        f"{'':<10}" + "".join(f"{measure:>9}" for measure in result.rows[0].figures) + f"{'nDCG@10 95 %':>16}",
    ]
    for row in result.rows:
        fitted = "  fitted on the other half: " + " and ".join(map(str, row.alpha)) if row.alpha else ""
        figures = "".join(f"{value * 100:>9.1f}" for value in row.figures.values())
        interval = "{:.1f} to {:.1f}".format(*(100 * end for end in row.interval))
        lines.append(f"{row.name:<10}{figures}{interval:>16}{fitted}")
    return "\n".join(lines)


def render_results(results: Mapping[str, Evaluation]) -> str:
    """Return the report as HTML: for each set nDCG@10 of the rankings, drawn with its interval, and all measures."""
    from fathom.operations.evaluation.page import draw_shares
    from fathom.operations.ranking.page import wrap_page

    title = "Rankings on labelled questions"
    parts = [f"<h1>{title}</h1>"]
    for name, result in results.items():
        drawn = [(row.name, row.figures["nDCG@10"], *row.interval) for row in result.rows]
        parts += [f"<h2>{html.escape(name)}</h2>", draw_shares("nDCG@10 with 95 % intervals", drawn)]
        parts.append(f"<pre>{html.escape(format_result(result))}</pre>")
    return wrap_page(title, "".join(parts))
