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

from fathom.errors import InvalidField

if TYPE_CHECKING:
    from fathom.clients import Clients
    from services.planner.prompts.compare import Line, Score

app = typer.Typer(help="Lists, checks, compares and drafts prompts.", no_args_is_help=True)
Own = Annotated[Optional[Path], typer.Option("--dir", help="Folder with prompts of one's own.")]  # noqa: UP045
Home = Annotated[Path, typer.Option(help="Folder with the local stack's state.", envvar="FATHOM_LOCAL_HOME")]
Model = Annotated[str, typer.Option(help="Model, or role of policy's settings.")]
HOME = Path(".fathom")


@app.command("list")
def show_all(own: Own = None) -> None:
    """Print one line per prompt: id, output, characters, hash."""
    from services.planner.prompts.catalogue import catalogue

    for prompt in sorted(catalogue(own), key=lambda prompt: prompt.id):
        print(f"{prompt.id:32} {prompt.header.output:12} {len(prompt.body):6,} characters  {prompt.sha256[:12]}")


@app.command()
def show(
    prompt: Annotated[str, typer.Argument(help="Id, e.g. research.v2.en.")],
    own: Own = None,
    seed: Annotated[int, typer.Option(help="Seed that draws the examples.")] = 0,
) -> None:
    """Print a prompt as a model gets it."""
    from services.planner.prompts.catalogue import catalogue

    print(catalogue(own).get(prompt).render(seed))


@app.command()
def lint(
    own: Own = None,
    release: Annotated[bool, typer.Option(help="Write the hashes of new versions into the folder's lock.")] = False,
) -> None:
    """Check every prompt; exit with 1 when something is wrong."""
    from services.planner.prompts.catalogue import catalogue
    from services.planner.prompts.lint import LOCK, read_lock, released
    from services.planner.prompts.lint import lint as problems_of

    prompts, lock = catalogue(own), {**read_lock(), **(read_lock(own) if own else {})}
    problems = problems_of(prompts, lock)
    for problem in problems:
        print(f"{problem.prompt}: {problem.row}: {problem.text}", file=sys.stderr)
    if problems:
        raise typer.Exit(1)
    unlocked = sorted(prompt.id for prompt in prompts if prompt.id not in lock)
    if release and unlocked:
        target = (own or package_folder()) / LOCK
        target.write_text(json.dumps(released(prompts, lock), indent=1) + "\n")
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
    from services.planner.prompts.catalogue import catalogue

    prompts = catalogue(own)
    before, after = prompts.get(old), prompts.get(new)
    lines = difflib.unified_diff(before.body.splitlines(), after.body.splitlines(), old, new, lineterm="")
    print("\n".join(lines))
    print(f"{len(before.render()):,} -> {len(after.render()):,} characters as rendered")


@app.command()
def optimize(
    prompt: Annotated[str, typer.Argument(help="Id of the prompt to draft the next version of.")],
    issue: Annotated[list[str], typer.Option(help="What went wrong, or a link to it; may come again.")],
    out: Annotated[Path, typer.Option(help="Folder for the draft; read it with --dir.")],
    model: Model = "writer",
    home: Home = HOME,
) -> None:
    """Have a model draft the next version, check it, and print the difference."""
    from services.planner.backends.policy import complete
    from services.planner.prompts.catalogue import catalogue
    from services.planner.prompts.optimize import optimize as draft_of

    prompts = catalogue(out if out.is_dir() else None)
    before = prompts.get(prompt)

    async def work(clients: Clients) -> None:
        async def writer(system: str, text: str) -> str:
            return await complete(clients, model, system, text)

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
            print(f"{problem.prompt}: {problem.row}: {problem.text}", file=sys.stderr)
        print(f"{out / draft.file}: {'breaks rules, mend it by hand' if draft.problems else 'keeps every rule'}")

    connected(home, work)


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
            scores.append(await scored(clients, question, expected, stage, version, model))
        print_lines(scores)

    connected(home, work)


@app.command()
def report(
    stage: Annotated[str, typer.Argument(help="Stage, e.g. answer.")] = "answer",
    last: Annotated[int, typer.Option(help="How many of the newest runs.")] = 500,
    home: Home = HOME,
) -> None:
    """Report how the prompts of a stage did in the stored runs: counts, and the win rate where they met."""

    async def work(clients: Clients) -> None:
        from fathom.api.planner.v1 import planner_pb2 as pb
        from services.planner.prompts.compare import score

        runs = (await clients.planner.list_runs(pb.ListRunsRequest(page_size=last))).runs
        found = [await clients.planner.get_run(pb.GetRunRequest(run_id=run.run_id)) for run in runs]
        print_lines([score(run.trajectory, stage) for run in found if not run.running and run.trajectory.prompts])

    connected(home, work)


async def scored(
    clients: Clients, question: str, expected: Sequence[str], stage: str, version: str, model: str
) -> Score:
    """Ask and score one question."""
    from fathom.api.planner.v1 import planner_pb2 as pb
    from fathom.api.planner.v1 import trajectory_pb2 as trajectory
    from fathom.protocol.pipeline import STAGES
    from services.planner.prompts.compare import score

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
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise InvalidField("questions", f"line {number} of {path}: {error}") from error
    return cases


def print_lines(scores: Sequence[Score]) -> None:
    """Print the table of the comparison."""
    from rich.console import Console
    from rich.table import Table

    from services.planner.prompts.compare import compare

    table = Table("prompt", "runs", "finished", "expected", "unresolved", "rounds", "tokens", "win rate")
    for line in compare(scores):
        table.add_row(*cells(line))
    Console().print(table)


def cells(line: Line) -> list[str]:
    won = "met no other" if line.win_rate is None else f"{line.win_rate:.0%} of {line.met}"
    shares = [f"{line.finished:.0%}", f"{line.expected:.0%}", f"{line.unresolved:.2f}"]
    return [line.prompt, str(line.runs), *shares, f"{line.rounds:.1f}", f"{line.tokens:,.0f}", won]


def connected(home: Path, work: Callable[[Clients], Awaitable[None]]) -> None:
    """Run ``work`` with the local stack's clients."""
    from fathom.cli.local import read_endpoints
    from fathom.clients import connect

    async def run() -> None:
        clients = connect(dict(read_endpoints(home).services))
        try:
            await work(clients)
        finally:
            await clients.close()

    asyncio.run(run())


def package_folder() -> Path:
    """Return the folder of the package's own prompts."""
    from services.planner import prompts

    return Path(prompts.__path__[0])
