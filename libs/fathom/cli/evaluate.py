"""``fathom eval``: measures parts of the system on labelled data."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from fathom.core.errors import InvalidField

if TYPE_CHECKING:
    from fathom.cli.records.set33 import Target

app = typer.Typer(help="Measure a part of the system on labelled data.", no_args_is_help=True)


@app.callback()
def group() -> None:
    """Measure a part of the system on labelled data."""


@app.command()
def answers(
    grader: Annotated[Optional[list[str]], typer.Option(help="Grader or composite; repeatable.")] = None,  # noqa: UP045
    limit: Annotated[int, typer.Option(help="At most this many of the newest runs.", min=1, max=10_000)] = 50,
    share: Annotated[float, typer.Option(help="Share of them to sample.", min=0, max=1)] = 1.0,
    seed: Annotated[int, typer.Option(help="Seed of the sample.")] = 0,
    references: Annotated[Optional[Path], typer.Option(help="JSON lines with question and references.")] = None,  # noqa: UP045
    planner: Annotated[str, typer.Option(help="URL of a planner; by default the local stack's.")] = "",
    reward: Annotated[str, typer.Option(help="URL of a reward service; with --planner.")] = "",
    home: Annotated[Path, typer.Option(help="Folder with the local stack.", envvar="FATHOM_LOCAL_HOME")] = Path(
        ".fathom"
    ),
    json_lines: Annotated[bool, typer.Option("--json", help="Print one line of JSON per grade.")] = False,
    page: Annotated[Optional[Path], typer.Option(help="Write a report as HTML, too.")] = None,  # noqa: UP045
) -> None:
    """Grade a sample of the runs so far, with the graders of training."""
    from fathom.cli.answers import Sample, run

    if bool(planner) != bool(reward):
        raise InvalidField("reward", "give --planner with --reward, or neither")
    endpoints = {"planner": planner, "reward": reward} if planner else {}
    sample = Sample(share, seed, limit)
    run(home, endpoints, grader or ["tool_steps", "code"], sample, references, json_lines, page)


@app.command()
def rank(
    files: Annotated[
        list[str],
        typer.Argument(help="FILE or NAME=FILE: JSON Lines or CSV with question and answer, one file per contestant."),
    ],
    method: Annotated[
        str, typer.Option(help="How pairs are judged: pairwise, rubric (also: spct) or direct.")
    ] = "pairwise",
    votes: Annotated[int, typer.Option(help="Votes of the judge per order; 0 takes the service's.", min=0, max=8)] = 0,
    matches: Annotated[Path, typer.Option(help="File of the judged pairs; what is in it is not judged again.")] = Path(
        "matches.jsonl"
    ),
    page: Annotated[Path, typer.Option(help="HTML file to write.")] = Path("ranking.html"),
    human: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(help="People's grades: question, left, right, grade (1 to 5, or its words)."),
    ] = None,
    review: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(help="File for pairs whose grades by judge and person are two apart or more; with --human."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the intervals.")] = 0,
    reward: Annotated[str, typer.Option(help="URL of a reward service; by default the local stack's.")] = "",
    home: Annotated[Path, typer.Option(help="Folder with the local stack.", envvar="FATHOM_LOCAL_HOME")] = Path(
        ".fathom"
    ),
) -> None:
    """Rank answers by several contestants: models, versions, competitors, and references as one of them.

    Every two answers to a question are judged in both orders by the model of the role "judge"; strengths
    (Bradley-Terry, on Elo's scale) have 95 % intervals over questions.
    """
    from fathom.cli.records.ranking import Files, find_endpoints, run
    from fathom.operations.ranking.judging import Rule

    if review is not None and human is None:
        raise InvalidField("review", "needs --human: without people's grades nothing can differ from them")
    written = Files(matches, page, human, review)
    raise typer.Exit(run(files, Rule(method, votes), written, seed, find_endpoints(home, reward)))


@app.command("grade")
def grade_pairs(
    files: Annotated[list[str], typer.Argument(help="FILE or NAME=FILE per contestant, as for `fathom eval rank`.")],
    target: Annotated[Path, typer.Option(help="File of the grades, for --human of `fathom eval rank`.")],
    limit: Annotated[int, typer.Option(help="At most this many pairs, drawn from all.", min=1)] = 30,
    seed: Annotated[int, typer.Option(help="Seed of the draw and of the sides.")] = 0,
) -> None:
    """Grade pairs of answers by yourself, without knowing whose they are."""
    from fathom.cli.records.grading import run

    run(files, target, limit, seed)


@app.command()
def set33(
    item: Annotated[Optional[list[str]], typer.Option(help="Id, kind or language; repeatable; all by default.")] = None,  # noqa: UP045
    model: Annotated[str, typer.Option(help="Model that answers; by default the stack's.")] = "",
    output: Annotated[
        Path, typer.Option(help="Folder of answers and reports; what is answered in it is not asked again.")
    ] = Path("set33"),
    method: Annotated[
        str,
        typer.Option(
            help="Rank all answers in the folder and the references: pairwise, rubric (also: spct) or direct."
        ),
    ] = "",
    check: Annotated[bool, typer.Option("--check", help="Only compute every number of the references anew.")] = False,
    seed: Annotated[int, typer.Option(help="Seed of the intervals.")] = 0,
    planner: Annotated[str, typer.Option(help="URL of a planner; by default the local stack's.")] = "",
    reward: Annotated[str, typer.Option(help="URL of a reward service; with --planner and --method.")] = "",
    gateway: Annotated[str, typer.Option(help="URL of a gateway, which takes the attachments; with --planner.")] = "",
    home: Annotated[Path, typer.Option(help="Folder with the local stack.", envvar="FATHOM_LOCAL_HOME")] = Path(
        ".fathom"
    ),
) -> None:
    """Ask the shipped set of 33 questions: events, financial analysis and industries, in English and Chinese.

    The score is the share of the reference's computed figures that an answer states in words; --method has the judge
    rank the answers of all models in the folder, with the references as a contestant.
    """
    from fathom.cli.records import set33 as implementation

    if planner and not gateway:
        raise InvalidField("gateway", "is needed with --planner: some questions have attachments")
    if planner and method and not reward:
        raise InvalidField("reward", "is needed with --planner and --method")
    if check:
        raise typer.Exit(implementation.check(home))
    target = implementation.find_target(home, planner, reward, gateway, model)
    raise typer.Exit(implementation.run(target, item or [], output, method, seed))


@app.command()
def public(
    name: Annotated[
        str,
        typer.Argument(
            help="nq_open, qed_nq, 2wiki, musique, webshaper, tatqa, cmrc2018, fincuge, bull, defog_sql or "
            "deep_research_bench."
        ),
    ],
    data: Annotated[Path, typer.Option(help="Folder with the public sets, a folder each.")] = Path("../shared/data"),
    model: Annotated[str, typer.Option(help="Model that answers; by default the stack's.")] = "",
    limit: Annotated[int, typer.Option(help="At most this many questions, drawn from all.", min=1)] = 100,
    seed: Annotated[int, typer.Option(help="Seed of the draw and of the intervals.")] = 0,
    output: Annotated[
        Path, typer.Option(help="Folder of answers, reports and first runs; what is answered in it is not asked again.")
    ] = Path("public"),
    planner: Annotated[str, typer.Option(help="URL of a planner; by default the local stack's.")] = "",
    gateway: Annotated[str, typer.Option(help="URL of a gateway, which takes the passages; with --planner.")] = "",
    judge: Annotated[
        str, typer.Option(help="Model or role that grades reports (deep_research_bench); needs a language model.")
    ] = "judge",
    policy: Annotated[
        str, typer.Option(help="URL of a policy service, which has the judge and what writes SQL; with --planner.")
    ] = "",
    home: Annotated[Path, typer.Option(help="Folder with the local stack.", envvar="FATHOM_LOCAL_HOME")] = Path(
        ".fathom"
    ),
) -> None:
    """Ask a public set of questions with short answers or SQL, and score as its authors do, with 95 % intervals.

    Where the authors give a passage to read, it is sent with its question, which then searches nothing else. SQL is
    written by the model itself, which is shown the tables, and run over them. The tasks of deep_research_bench have
    whole reports as answers, which a judge grades by the criteria of each task and citation by citation.
    """
    from fathom.cli.records import public as implementation
    from fathom.cli.records import research
    from fathom.cli.records.set33 import find_target
    from fathom.operations.evaluation.public.items import REPORT_SET, find_set

    draw = implementation.Draw(name, data, limit, seed)
    if name == REPORT_SET:
        target = choose_policy(find_target(home, planner, "", gateway, model), policy)
        raise typer.Exit(research.run(target, draw, output, judge))
    if find_set(name).corpus and planner and not gateway:
        raise InvalidField("gateway", f"is needed with --planner: the questions of {name} have passages")
    if find_set(name).has_statements and planner and not policy:
        raise InvalidField("policy", f"is needed with --planner: the questions of {name} are put to a model itself")
    target = choose_policy(find_target(home, planner, "", gateway, model), policy)
    raise typer.Exit(implementation.run(target, draw, output))


def choose_policy(target: Target, policy: str) -> Target:
    """Return the target with the policy service at a URL, or as it is for ""."""
    return replace(target, endpoints={**target.endpoints, "policy": policy}) if policy else target


@app.command()
def hallucination(
    before: Annotated[str, typer.Argument(help="MODEL or MODEL@VERSION, or a file of replies of an earlier call.")],
    after: Annotated[str, typer.Argument(help="The same for the aligned model.")],
    questions: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(help="YAML file of questions: id, topic, language, question, accepted; by default the package's."),
    ] = None,
    output: Annotated[Path, typer.Option(help="Folder of replies and report.")] = Path("hallucination"),
    policy: Annotated[str, typer.Option(help="URL of a policy service; by default the local stack's.")] = "",
    home: Annotated[Path, typer.Option(help="Folder with the local stack.", envvar="FATHOM_LOCAL_HOME")] = Path(
        ".fathom"
    ),
) -> None:
    """Probe for narrow hallucination: what a model knew before it was aligned, and answers wrongly afterwards.

    Both are asked the same short questions of common knowledge, greedily; shares have 95 % intervals (Wilson), and
    McNemar's exact test holds what was lost against what was gained.
    """
    from fathom.cli.records import hallucination as implementation

    endpoints = implementation.find_endpoints(home, policy, (before, after))
    raise typer.Exit(implementation.run(before, after, questions, output, endpoints))


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
    from fathom.clients.local import read_endpoints
    from fathom.core.config import load
    from fathom.hosting.host import Runtime, run_or_exit
    from fathom.operations.monitoring.config import Config
    from fathom.operations.monitoring.host import NAME, serve

    runtime, settings = load(Runtime, "runtime", file=config), load(Config, NAME, file=config)
    if runtime.bus_url == "memory://":
        runtime = runtime.model_copy(update=read_endpoints(home).runtime)
    run_or_exit(NAME, lambda: serve(settings, runtime))
