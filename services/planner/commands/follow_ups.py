"""``fathom eval rewrite``: follow-ups as the planner makes them whole, graded by what they have to mention."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Optional, Protocol

import typer
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from fathom.cli.options import HOME, Home
from fathom.core.errors import InvalidField, NotFound
from fathom.domain.chat.messages import Message, Role
from fathom.domain.text.folding import remove_blanks
from fathom.domain.text.language import language_of

RIGHT, WRONG, ASKED, NEEDLESS = OUTCOMES = (
    "right", "wrong without a word", "rightly asked back", "needlessly asked back",
)  # fmt: skip
# Cold encoders load in seconds, and a language model may think.
READ_S, MODEL_S = 60.0, 120.0


class Exchange(BaseModel):
    """An earlier question and its answer."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    question: str = Field(min_length=1)
    answer: str


class Case(BaseModel):
    """A follow-up behind earlier turns, and what its self-contained form mentions ("a|b" accepts either).

    With ``clarify`` nobody can know what is meant, so that asking back is right.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    turns: tuple[Exchange, ...] = Field(min_length=1)
    follow_up: str = Field(min_length=1)
    expected_mentions: tuple[str, ...] = ()
    unexpected_mentions: tuple[str, ...] = ()
    clarify: bool = False

    @property
    def groups(self) -> tuple[str, str, str]:
        """Return the groups that the case counts in."""
        return "all", "clarify" if self.clarify else "rewrite", language_of(self.follow_up)


class Reading(Protocol):
    """A follow-up as it was understood."""

    @property
    def question(self) -> str: ...
    @property
    def asks_back(self) -> bool: ...


@dataclass(frozen=True)
class Share:
    """Share of the cases of a group that are right or rightly asked back, with Wilson's 95 % interval."""

    name: str
    good: int
    count: int
    low: float
    high: float
    outcomes: Mapping[str, int]

    def describe(self) -> str:
        """Return the share in a line."""
        share = f"{self.good / self.count:.1%} (95 % {self.low:.1%} to {self.high:.1%})"
        outcomes = ", ".join(f"{count} {name}" for name, count in self.outcomes.items())
        return f"{self.name:8} right or rightly asked back {self.good} of {self.count} = {share}: {outcomes}"


def read_cases(path: Path) -> list[Case]:
    """Return the cases of a JSON Lines file, whose comments begin with "#".

    Raises ``NotFound`` for a missing file, and ``InvalidField`` naming line and field of a wrong case.
    """
    if not path.is_file():
        raise NotFound("file", str(path))
    found = []
    for number, line in enumerate(path.read_text(encoding="utf-8-sig").split("\n"), 1):
        if not line.strip() or line.startswith("#"):
            continue
        try:
            found.append(Case.model_validate_json(line))
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(map(str, first["loc"])) or "case"
            raise InvalidField("cases", f"{path.name}:{number}: {place}: {first['msg']}") from error
    if not found:
        raise InvalidField("cases", f"{path} has no case")
    return found


def load_gold() -> list[Case]:
    """Return the package's own cases."""
    # The command line starts without YAML.
    import yaml

    file = resources.files("fathom.services.planner.commands").joinpath("follow_ups.yaml")
    return [
        Case(
            turns=tuple(Exchange(question=asked, answer=answered) for asked, answered in row["turns"]),
            follow_up=row["question"],
            expected_mentions=tuple(map(str, row["expect"])),
        )
        for row in yaml.safe_load(file.read_text(encoding="utf-8"))
    ]


def make_history(turns: Sequence[Exchange]) -> list[Message]:
    """Return the turns as the planner gets them from memory."""
    return [
        message
        for turn in turns
        for message in (Message(Role.USER, turn.question), Message(Role.ASSISTANT, turn.answer))
    ]


def judge(case: Case, found: Reading) -> str:
    """Return one of ``OUTCOMES``."""
    if found.asks_back:
        return ASKED if case.clarify else NEEDLESS
    if case.clarify:
        return WRONG
    text = remove_blanks(found.question)
    has_all = all(any(remove_blanks(part) in text for part in one.split("|")) for one in case.expected_mentions)
    has_none = not any(remove_blanks(part) in text for part in case.unexpected_mentions)
    return RIGHT if has_all and has_none else WRONG


def list_shares(cases: Sequence[Case], outcomes: Sequence[str]) -> Iterator[Share]:
    """Yield the shares of all cases, of those to rewrite and to ask back about, and of each language."""
    from fathom.operations.shadow.gate import wilson

    counted: dict[str, Counter[str]] = {}
    for case, outcome in zip(cases, outcomes, strict=True):
        for name in case.groups:
            counted.setdefault(name, Counter())[outcome] += 1
    for name, counts in counted.items():
        good, count = counts[RIGHT] + counts[ASKED], counts.total()
        yield Share(name, good, count, *wilson(good, count), outcomes=counts)


def report(
    cases: Sequence[Case], readings: Sequence[Reading], target: Path | None, least: float, page: Path | None = None
) -> int:
    """Print the shares, and what is not right; return the exit status, 1 below the wanted share.

    ``target`` gets the outcomes as JSON Lines, ``page`` a report as HTML.
    """
    outcomes = [judge(case, one) for case, one in zip(cases, readings, strict=True)]
    shares = list(list_shares(cases, outcomes))
    for share in shares:
        typer.echo(share.describe())
    for case, one, outcome in zip(cases, readings, outcomes, strict=True):
        if outcome in (WRONG, NEEDLESS):
            typer.echo(f"  {outcome}: {case.follow_up[:80]} => {one.question[:160]}")
    if target is not None:
        rows = [
            {"follow_up": case.follow_up, "outcome": outcome, "question": one.question, "asks_back": one.asks_back}
            for case, one, outcome in zip(cases, readings, outcomes, strict=True)
        ]
        target.write_text("".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows), encoding="utf-8")
    if page is not None:
        page.write_text(render_outcomes(cases, readings, outcomes, shares), encoding="utf-8")
    reached = shares[0].good / shares[0].count
    if reached < least:
        typer.echo(f"{reached:.1%} is below --least {least:.1%}", err=True)
    return int(reached < least)


def render_outcomes(
    cases: Sequence[Case], readings: Sequence[Reading], outcomes: Sequence[str], shares: Sequence[Share]
) -> str:
    """Return the report as HTML: shares with their intervals drawn, and each follow-up beside what became of it."""
    from fathom.operations.evaluation.page import render_shares
    from fathom.operations.ranking.page import render_table

    drawn = [(one.name, one.good / one.count, one.low, one.high) for one in shares]
    rows = [
        [case.turns[-1].question, case.follow_up, one.question, outcome, " / ".join(case.expected_mentions)]
        for case, one, outcome in zip(cases, readings, outcomes, strict=True)
    ]
    label, lines = "Share right or rightly asked back, with 95 % intervals", [one.describe() for one in shares]
    table = render_table(["question before", "follow-up", "made whole", "outcome", "has to mention"], rows)
    return render_shares("Follow-ups made whole", label, drawn, "\n".join(lines), table)


def evaluate_rewriting(
    cases: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Argument(
            help="JSON Lines: turns (question, answer), follow_up, expected_mentions, unexpected_mentions, clarify; by "
            "default the package's cases."
        ),
    ] = None,
    model: Annotated[str, typer.Option(help="Language model that rewrites; none by default.")] = "",
    target: Annotated[Optional[Path], typer.Option(help="Write the outcomes as JSON Lines, too.")] = None,  # noqa: UP045
    page: Annotated[Optional[Path], typer.Option(help="Write a report as HTML, too.")] = None,  # noqa: UP045
    least: Annotated[float, typer.Option(help="Share below which the exit status is 1.", min=0, max=1)] = 0.0,
    home: Home = HOME,
) -> None:
    """Measure the rewriting of follow-ups: the share that is right, with its 95 % interval (Wilson).

    The local stack's data service reads the questions; the rewriter asks back where it is not sure.
    """
    wanted = read_cases(cases) if cases is not None else load_gold()
    raise typer.Exit(report(wanted, asyncio.run(rewrite_all(wanted, model, home)), target, least, page))


async def rewrite_all(cases: Sequence[Case], model: str, home: Path) -> list[Any]:
    """Return what the planner's rewriter makes of the follow-ups, by the services of the local stack."""
    from fathom.clients import connect
    from fathom.clients.local import read_endpoints
    from fathom.core.call import Lane
    from fathom.services.planner.classification.classifier import MEASURE_FILE, Classifier, load_heads
    from fathom.services.planner.classification.vectors import DatafetchVectors
    from fathom.services.planner.config import Config
    from fathom.services.planner.prompts.catalogue import load_catalogue
    from fathom.services.planner.prompts.selection import Prompts
    from fathom.services.planner.reader import DatafetchReader, read_text
    from fathom.services.planner.workflow.rewriting import Rewriter

    clients = connect(dict(read_endpoints(home).services), lane=Lane.EVALUATION)

    def fail(error: Exception) -> None:
        # Without an encoder the rewriter would be measured at half of what it can, without a word.
        raise error

    try:
        # A reader that does not answer leaves every question as it is, which would be measured as if it could not.
        await read_text(clients, cases[0].follow_up, READ_S)
        vectors = DatafetchVectors(clients, READ_S, fail)
        rewriter = Rewriter(
            clients,
            DatafetchReader(clients, READ_S),
            Classifier(vectors, load_heads()),
            Classifier(vectors, load_heads(MEASURE_FILE)),
            Prompts.of(load_catalogue(), Config()).render_rewriting,
            model_s=MODEL_S,
            may_ask=True,
        )
        return [await rewriter.rewrite(case.follow_up, make_history(case.turns), model) for case in cases]
    finally:
        await clients.close()
