"""Asks the local stack ten questions about a folder of ten documents and three spreadsheets, and grades the answers.

    python examples/newcomer/ask_folder.py            # with `make run` in another terminal
    python examples/newcomer/ask_folder.py OTHER      # a folder of your own, with questions.yaml beside it

An answer is right when it has the figure and cites the file at the page or the cells where it stands; with a doubt
where it is not certain, or shows the figure in a passage that may answer. One that gives another figure without a doubt
is silently wrong, and counted apart from one that says what it did not find.
"""

from __future__ import annotations

import asyncio
import re
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.cli.uploads.sending import upload_files
from fathom.clients import Clients, connect
from fathom.clients.local import read_endpoints
from fathom.clients.runs import run
from fathom.domain.text.addresses import Cell, read_run

# A cell or a range of cells.
RUN = re.compile(r"\b[A-Z]{1,3}\d+(?::[A-Z]{1,3}\d+)?\b")
HERE = Path(__file__).parent
HOME = Path(".fathom")


def describe_places(finished: pb.RunFinished) -> list[str]:
    """Return the files, pages and cells that an answer cites, those behind its calculations included."""
    found: list[str] = []
    cited = {item.number: item for item in finished.material if item.number in finished.answer.cited}
    # A calculation stands on tables, and it is their cells that a reader looks up.
    behind = {name for item in cited.values() for name in item.computed_from}
    for item in finished.material:
        if item.number not in cited and item.variable not in behind:
            continue
        if item.HasField("passage"):
            passage = item.passage
            page = f" page {passage.page}" if passage.page else ""
            found.append(f"{passage.source} {passage.title}{page}")
        elif item.HasField("sheet"):
            found += [f"{item.sheet.title} {column.source}" for column in item.sheet.columns if column.source]
    return found


def grade_answer(asked: dict[str, Any], finished: pb.RunFinished) -> str:
    """Return right, right with a doubt, misplaced (the figure without its place), refused or silently wrong."""
    answer = finished.answer
    # What the answer itself says of its gaps, not what stands in material that it does not cite.
    has_doubt = bool(answer.open) or any(
        item.HasField("missing") and item.number in answer.cited for item in finished.material
    )
    if not asked.get("answers"):
        return "rightly refused" if has_doubt or not answer.cited else "silently wrong"
    if not any(text in answer.markdown for text in asked["answers"]):
        return "refused" if has_doubt or not answer.cited else "silently wrong"
    places = describe_places(finished)
    # The cells of a calculation stand in the answer itself; a sheet that it cites has all others, too.
    lines, place = [line for line in answer.markdown.splitlines() if asked["file"] in line], str(asked.get("place", ""))
    is_of_cells = RUN.search(place) is not None and any(map(RUN.search, lines))
    texts = lines if is_of_cells else [*places, *lines]
    is_placed = any(asked["file"] in text and has_place(text, place) for text in texts)
    return ("right with a doubt" if has_doubt else "right") if is_placed else "misplaced"


def has_place(text: str, place: str) -> bool:
    """Return whether a citation names a page or cells: a range that has one of those cells, too."""
    wanted = list(map(read_run, RUN.findall(place)))
    if not wanted:
        return place in text
    cited = list(map(read_run, RUN.findall(text)))
    return any(meet(one, other) for one in wanted for other in cited)


def meet(one: tuple[Cell, Cell], other: tuple[Cell, Cell]) -> bool:
    """Return whether two ranges have a cell in common."""
    (first, last), (start, end) = one, other
    return all(first[at] <= end[at] and start[at] <= last[at] for at in (0, 1))


async def ask_question(clients: Clients, request: pb.RunRequest) -> pb.RunFinished:
    """Run a question and return its end; one that failed has no answer."""
    async for event in run(clients, request):
        if event.HasField("finished"):
            return event.finished
    return pb.RunFinished()


async def ask_all(folder: Path, questions: Sequence[dict[str, Any]]) -> Counter[str]:
    """Send the folder once, ask each question about it, and print answers, grades and times."""
    endpoints, started = read_endpoints(HOME), time.monotonic()
    uploaded = await asyncio.to_thread(upload_files, endpoints.gateway, [folder], print)
    print(f"{len(uploaded.table_ids)} tables and the documents are in after {time.monotonic() - started:.1f} s\n")
    grades: Counter[str] = Counter()
    clients = connect(endpoints.services)
    try:
        for asked in questions:
            request = pb.RunRequest(
                question=asked["question"],
                table_ids=uploaded.table_ids,
                corpora=[uploaded.corpus] if uploaded.corpus else [],
            )
            began = time.monotonic()
            finished = await ask_question(clients, request)
            grade = grade_answer(asked, finished)
            grades[grade] += 1
            print(f"{asked['question']}\n  {grade}, {time.monotonic() - began:.1f} s")
            print("  " + finished.answer.markdown.strip().replace("\n", "\n  "))
            print("  cites " + ("; ".join(dict.fromkeys(describe_places(finished))) or "nothing") + "\n")
    finally:
        await clients.close()
    print(f"{dict(grades)} of {len(questions)} in {time.monotonic() - started:.0f} s")
    return grades


def main(folder: Path) -> None:
    """Ask what ``questions.yaml`` beside the folder holds."""
    content = yaml.safe_load((folder.parent / "questions.yaml").read_text(encoding="utf-8"))
    asyncio.run(ask_all(folder, [*content["questions"], *content.get("unanswerable", ())]))


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "folder")
