"""``fathom data queries``: the commands. They import their work when they run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from fathom.cli.options import HOME, Home

queries = typer.Typer(
    help="Questions for training: new ones by intents, without near duplicates, rated, with noise, in shares.",
    no_args_is_help=True,
)

Source = Annotated[Path, typer.Argument(help="JSON Lines of queries, or a text file with one a line.")]
Target = Annotated[Path, typer.Option(help="JSON Lines to write.")]
Model = Annotated[str, typer.Option(help="Model of the stack that is asked.")]
# A fixed one by default: who repeats a step gets the same file.
Seed = Annotated[int, typer.Option(help="Seed; the same file and seed give the same result.")]


@queries.command()
def expand(
    source: Source,
    target: Target,
    model: Model,
    each: Annotated[int, typer.Option(help="New questions per seed and round.", min=1, max=50)] = 5,
    intents: Annotated[int, typer.Option(help="Go on until there are this many intents.", min=1)] = 150,
    home: Home = HOME,
) -> None:
    """Let a model think of other intents than the seeds', with a question each; a killed call goes on."""
    from fathom.trainers.commands.query_files import expand_file

    expand_file(source, target, home, model, each, intents)


@queries.command("import")
def import_conversations(
    target: Target,
    source: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Argument(help="File of `fathom memory export`; by default what the memory service holds."),
    ] = None,
    tenant: Annotated[str, typer.Option(help="Tenant whose conversations are read; by default the caller's.")] = "",
    threshold: Annotated[float, typer.Option(help="Jaccard similarity from which one is a near duplicate.")] = 0.8,
    home: Home = HOME,
) -> None:
    """Take the questions of stored conversations whose users consented, without near duplicates or personal data."""
    from fathom.trainers.commands.production_queries import import_file

    import_file(source, target, home, tenant, threshold)


@queries.command()
def rate(source: Source, target: Target, model: Model, home: Home = HOME) -> None:
    """Let a model say which are easy, medium and hard, with its reason; a killed call goes on."""
    from fathom.trainers.commands.query_files import rate_file

    rate_file(source, target, home, model)


@queries.command()
def dedup(
    source: Source,
    target: Target,
    threshold: Annotated[float, typer.Option(help="Jaccard similarity of pairs of words or characters.")] = 0.8,
) -> None:
    """Leave out near duplicates, the first of several stays."""
    from fathom.trainers.commands.query_files import drop_duplicates

    drop_duplicates(source, target, threshold)


@queries.command()
def noise(
    source: Source,
    target: Target,
    operator: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option(
            help="slip, sound_alike, look_alike, mispunctuate, change_width, drop_case, speak or switch_language; "
            "repeatable, all by default."
        ),
    ] = None,
    rate: Annotated[float, typer.Option(help="Chance of each word, character or mark.")] = 0.1,
    seed: Seed = 7,
    only: Annotated[bool, typer.Option("--only", help="Write the noisy forms alone.")] = False,
    names: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(help="File of names, one a line, that stay as they are."),
    ] = None,
) -> None:
    """Add forms with typing errors, other punctuation, width and words; clean text and changes stay in the row."""
    from fathom.trainers.commands.query_files import add_noise_to_file
    from fathom.trainers.data.queries.noise import OPERATORS

    add_noise_to_file(source, target, operator or list(OPERATORS), rate, seed, only=only, names=names)


@queries.command()
def sample(
    source: Source,
    target: Target,
    total: Annotated[int, typer.Option(help="Number of queries.", min=1)] = 3_000,
    seed: Seed = 7,
) -> None:
    """Draw rated queries, 60 % easy, 30 % medium and 10 % hard, and say what there is too little of."""
    from fathom.trainers.commands.query_files import sample_file

    sample_file(source, target, total, seed)


@queries.command()
def leaks(
    training: Annotated[list[Path], typer.Argument(help="Files with training questions.")],
    held: Annotated[list[Path], typer.Option(help="File of an evaluation; repeatable.")],
    share: Annotated[float, typer.Option(help="Share of a text's runs of five tokens.", min=0.01, max=1)] = 0.7,
) -> None:
    """Name evaluation questions that stand, whole or nearly, among the training questions; exit status 1 for any."""
    from fathom.trainers.commands.query_files import check_leaks

    check_leaks(training, held, share)
