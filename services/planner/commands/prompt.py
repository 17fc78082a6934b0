"""``fathom prompt``: the versioned prompts of the planner."""

from __future__ import annotations

import asyncio
import difflib
import json
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from fathom.core.errors import InvalidField

if TYPE_CHECKING:
    from fathom.clients import Clients
    from fathom.services.planner.prompts.tools.compare import PromptStatistics, Score

app = typer.Typer(help="List, check, compare and draft prompts.", no_args_is_help=True)
Own = Annotated[Optional[Path], typer.Option("--dir", help="Folder with your own prompts.")]  # noqa: UP045
Home = Annotated[Path, typer.Option(help="Folder with the local stack's state.", envvar="FATHOM_LOCAL_HOME")]
Model = Annotated[str, typer.Option(help="Model, or role of policy's settings.")]
HOME = Path(".fathom")


@app.command("list")
def show_all(own: Own = None) -> None:
    """Print one line per prompt: id, output, characters, hash."""
    # Imported inside the commands: `fathom --help` must not load YAML, jsonschema and clients.
    from fathom.services.planner.prompts.catalogue import load_catalogue

    for prompt in sorted(load_catalogue(own), key=lambda prompt: prompt.id):
        print(f"{prompt.id:32} {prompt.header.output:12} {len(prompt.body):6,} characters  {prompt.sha256[:12]}")


@app.command()
def show(
    prompt: Annotated[str, typer.Argument(help="Id, e.g. research.v2.en.")],
    own: Own = None,
    seed: Annotated[int, typer.Option(help="Seed that draws the examples.")] = 0,
) -> None:
    """Print a prompt as a model gets it."""
    from fathom.services.planner.prompts.catalogue import load_catalogue

    print(load_catalogue(own).get(prompt).render(seed))


@app.command()
def lint(
    own: Own = None,
    release: Annotated[bool, typer.Option(help="Write the hashes of new versions into the folder's lock.")] = False,
) -> None:
    """Check every prompt; exit with 1 when something is wrong."""
    from fathom.services.planner.prompts.catalogue import load_catalogue
    from fathom.services.planner.prompts.tools.lint import LOCK, extend_lock, read_lock
    from fathom.services.planner.prompts.tools.lint import lint as problems_of

    prompts, lock = load_catalogue(own), {**read_lock(), **(read_lock(own) if own else {})}
    problems = problems_of(prompts, lock)
    for problem in problems:
        print(f"{problem.prompt}: {problem.rule}: {problem.text}", file=sys.stderr)
    if problems:
        raise typer.Exit(1)
    unlocked = sorted(prompt.id for prompt in prompts if prompt.id not in lock)
    if release and unlocked:
        target = (own or package_folder()) / LOCK
        # Only with --release and without problems: the lock is what protects released bytes.
        target.write_text(json.dumps(extend_lock(prompts, lock), indent=1) + "\n")
        print(f"released in {target}: {', '.join(unlocked)}")
    elif unlocked:
        print(f"not released yet: {', '.join(unlocked)}")
    print(f"{len(list(prompts))} prompts, nothing wrong")


@app.command()
def diff(
    old: Annotated[str, typer.Argument(help="Id, e.g. research.v1.en.")],
    new: Annotated[str, typer.Argument(help="Id, e.g. research.v2.en.")],
    own: Own = None,
) -> None:
    """Show what changed between two prompts."""
    from fathom.services.planner.prompts.catalogue import load_catalogue

    prompts = load_catalogue(own)
    before, after = prompts.get(old), prompts.get(new)
    lines = difflib.unified_diff(before.body.splitlines(), after.body.splitlines(), old, new, lineterm="")
    print("\n".join(lines))
    print(f"{len(before.render()):,} -> {len(after.render()):,} characters as rendered")


@app.command()
def optimize(
    prompt: Annotated[str, typer.Argument(help="Id of the prompt to draft the next version of.")],
    issue: Annotated[list[str], typer.Option(help="What went wrong, or a link to it; repeatable.")],
    out: Annotated[Path, typer.Option(help="Folder for the draft; read it with --dir.")],
    model: Model = "writer",
    home: Home = HOME,
) -> None:
    """Have a model draft the next version, check it, and print the difference.

    The reference policy, which writes where no model is configured, only adds each issue as a thing to avoid.
    """
    from fathom.services.planner.episode.llm import complete
    from fathom.services.planner.prompts.catalogue import load_catalogue
    from fathom.services.planner.prompts.tools.optimize import build_schema
    from fathom.services.planner.prompts.tools.optimize import optimize as draft_of

    # With the drafts of earlier calls, whose version numbers are taken.
    prompts = load_catalogue(out if out.is_dir() else None)
    before, schema = prompts.get(prompt), build_schema(prompts)

    async def work(clients: Clients) -> None:
        async def writer(system: str, text: str) -> str:
            return await complete(clients, model, system, text, schema_json=schema)

        draft = await draft_of(prompts, before, issue, writer)
        out.mkdir(parents=True, exist_ok=True)
        (out / draft.file).write_text(draft.text, encoding="utf-8")
        body = draft.text.split("\n---\n", 1)[1].strip()
        print(
            "\n".join(
                difflib.unified_diff(before.body.splitlines(), body.splitlines(), prompt, draft.file, lineterm="")
            )
        )
        print("\n".join(f"because: {reason}" for reason in draft.reasons))
        for problem in draft.problems:
            print(f"{problem.prompt}: {problem.rule}: {problem.text}", file=sys.stderr)
        print(f"{out / draft.file}: {'breaks rules, correct it by hand' if draft.problems else 'keeps every rule'}")

    run_with_clients(home, work)


@app.command("eval")
def evaluate(
    stage: Annotated[str, typer.Argument(help="Stage: research, answer or restate.")],
    versions: Annotated[list[str], typer.Argument(help="Versions, variants or ids to compare, e.g. v1 v2.")],
    questions: Annotated[Path, typer.Option(help='JSON lines: {"question": …, "expected": [strings]}.')],
    model: Model = "",
    home: Home = HOME,
) -> None:
    """Ask the same questions under several prompts of a stage and print which does better."""
    cases = read_cases(questions)

    async def work(clients: Clients) -> None:
        from rich.progress import track

        scores = []
        asked = [(case, version) for case in cases for version in versions]
        for (question, expected), version in track(asked, "asking", transient=True):
            scores.append(await score_question(clients, question, expected, stage, version, model))
        print_lines(scores)

    run_with_clients(home, work)


@app.command()
def plans(
    versions: Annotated[
        list[str], typer.Argument(help="Two versions of the plan prompt: without and with, e.g. v1 v2.")
    ],
    model: Model = "",
    seeds: Annotated[int, typer.Option(help="Draws of the examples, for each question.", min=1, max=20)] = 1,
    limit: Annotated[int, typer.Option(help="At most this many questions.", min=1)] = 33,
    language: Annotated[str, typer.Option(help="Only questions in en or zh.")] = "",
    questions: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(help="JSON lines as for eval; by default the questions of `fathom eval set33`."),
    ] = None,
    guided: Annotated[bool, typer.Option(help="Let the model's grammar allow only plans of the schema.")] = False,
    own: Own = None,
    home: Home = HOME,
) -> None:
    """Ablate the examples of the plan prompt: the same questions planned by a model without and with them."""
    from fathom.operations.evaluation.items import load_items
    from fathom.services.planner.commands.plans import choose_questions, format_ablation, sample_plans
    from fathom.services.planner.prompts.catalogue import load_catalogue

    if len(versions) != 2:
        raise InvalidField("versions", "name two")
    catalogue = load_catalogue(own)
    known = [question for question, _ in read_cases(questions)] if questions else [one.question for one in load_items()]
    asked = choose_questions(known, limit, language)

    async def work(clients: Clients) -> None:
        sides = [
            await sample_plans(clients, catalogue, version, asked, seeds, model, is_guided=guided)
            for version in versions
        ]
        print(format_ablation(versions, sides))

    run_with_clients(home, work)


@app.command()
def report(
    stage: Annotated[str, typer.Argument(help="Stage, e.g. answer.")] = "answer",
    last: Annotated[int, typer.Option(help="Number of the newest runs.")] = 500,
    home: Home = HOME,
) -> None:
    """Report how the prompts of a stage did in the stored runs: counts, and the win rate where they met."""

    async def work(clients: Clients) -> None:
        from fathom.api.planner.v1 import planner_pb2 as pb
        from fathom.services.planner.prompts.tools.compare import score

        runs = (await clients.planner.list_runs(pb.ListRunsRequest(page_size=last))).runs
        found = [await clients.planner.get_run(pb.GetRunRequest(run_id=run.run_id)) for run in runs]
        # A running run has no answer yet, and runs from before prompts were recorded cannot be compared.
        print_lines([score(run.trajectory, stage) for run in found if not run.running and run.trajectory.prompts])

    run_with_clients(home, work)


async def score_question(
    clients: Clients, question: str, expected: Sequence[str], stage: str, version: str, model: str
) -> Score:
    """Ask and score one question."""
    from fathom.api.planner.v1 import planner_pb2 as pb
    from fathom.api.planner.v1 import trajectory_pb2 as trajectory
    from fathom.domain.chat.pipeline import STAGES
    from fathom.services.planner.prompts.tools.compare import score

    run_id = ""
    protocol = trajectory.PROTOCOL_WORKFLOW if stage in STAGES else trajectory.PROTOCOL_RESEARCH
    request = pb.RunRequest(question=question, model=model, prompts={stage: version}, protocol=protocol)
    async for response in clients.planner.run(request):
        run_id = response.event.run_id
    return score((await clients.planner.get_run(pb.GetRunRequest(run_id=run_id))).trajectory, stage, expected)


def read_cases(path: Path) -> list[tuple[str, list[str]]]:
    """Read the questions of a comparison; raise ``InvalidField("questions")`` naming the malformed line."""
    cases = []
    for number, text in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if not text.strip():
            continue
        try:
            case = json.loads(text)
            cases.append((str(case["question"]), [str(wanted) for wanted in case.get("expected", [])]))
        # A line may be broken JSON, lack the question, or be no object at all.
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise InvalidField("questions", f"line {number} of {path}: {error}") from error
    return cases


def print_lines(scores: Sequence[Score]) -> None:
    """Print the table of the comparison."""
    from fathom.cli.console import make_table, open_console
    from fathom.services.planner.prompts.tools.compare import compare

    table = make_table("prompt", "runs", "finished", "expected", "unresolved", "rounds", "tokens", "win rate")
    for line in compare(scores):
        table.add_row(*cells(line))
    open_console().print(table)


def cells(line: PromptStatistics) -> list[str]:
    won = "no comparison" if line.win_rate is None else f"{line.win_rate:.0%} of {line.met}"
    shares = [f"{line.finished:.0%}", f"{line.expected:.0%}", f"{line.unresolved:.2f}"]
    return [line.prompt, str(line.runs), *shares, f"{line.rounds:.1f}", f"{line.tokens:,.0f}", won]


def run_with_clients(home: Path, work: Callable[[Clients], Awaitable[None]]) -> None:
    """Run ``work`` with the local stack's clients."""
    from fathom.clients import connect
    from fathom.clients.local import read_endpoints

    async def run() -> None:
        clients = connect(dict(read_endpoints(home).services))
        try:
            await work(clients)
        finally:
            await clients.close()

    asyncio.run(run())


def package_folder() -> Path:
    """Return the folder of the package's own prompts."""
    from fathom.services.planner import prompts

    return Path(prompts.__path__[0])
