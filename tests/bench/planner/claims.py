"""Blind claims: planted causes, comparisons and unit errors found by the check of answers, and its false alarms.

Reads ``tests/golden/blind/other/claims_*.jsonl``, or the sets that ``FATHOM_BENCH_CLAIMS`` names, separated by commas.
Their authors knew the material and not the code: each line has a true sentence, the same with a planted error, and the
material that both cite, or else they cite the common shelf (``tests/golden/blind/CLAIMS.md`` has the form). The baseline
of the same run is the plain check that a number or name occurs somewhere in what a model saw. Needs the bundled data
(``make data``).

``FATHOM_BENCH_CLAIMS_MODEL`` is the base URL of an OpenAI-compatible endpoint that reads the sentences as typed claims,
as ``planner.judge_claims`` has it, and ``FATHOM_BENCH_CLAIMS_NAME`` the model's name, under which a first run is
recorded. The sentences are then paragraphs of answers, six each, never both forms of one case in an answer, and every
answer goes through the product's whole ending; all of them are under way at once. A run of which the model left an
answer unread is not recorded.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from fathom.clients import Clients
from fathom.services.planner.answering.rendering.coder import PolicyJudge
from fathom.services.planner.answering.rendering.finish import CheckedEnding
from fathom.services.planner.answering.verification.causes import label_answer
from fathom.services.planner.answering.verification.evidence import Evidence
from fathom.services.planner.answering.verification.verifier import Verifier
from fathom.services.planner.classification.classifier import Classifier
from fathom.services.planner.episode.llm import PolicyService
from fathom.services.planner.model.episode import Finding, FindingKind, Material
from fathom.services.planner.prompts.catalogue import load_catalogue
from tests.bench.planner.blind import make_models
from tests.bench.planner.first_runs import announce, record
from tests.bench.planner.fixing import make_episode
from tests.bench.planner.planted.material import Shelf, shelf
from tests.bench.planner.planted.own import OwnMaterial
from tests.bench.planner.questions import local_stack
from tests.bench.planner.router import make_classifier
from tests.bench.planner.verifier import QUESTION, Check, PlainCheck
from tests.golden.blind.schema import FOLDER, Claim, load_claims

MODEL = "check"
# Sentences of an answer that a model reads in one request.
SENTENCES = 6
# Seconds that a person may take who plays the model.
PATIENCE_S = 4 * 3_600.0
CITATION = re.compile(r"\[(\d+(?:\s*[,，]\s*\d+)*)\]")


class Outcome(NamedTuple):
    """Record what a check found in both forms of a claim."""

    claim: Claim
    wrong: tuple[Finding, ...]
    true: tuple[Finding, ...]


class Paragraph(NamedTuple):
    """One form of a claim as it stands in an answer."""

    claim: Claim
    is_wrong: bool
    text: str


async def run() -> None:
    """Print recall by kind, false alarms and what is not checked, of the product's check and of the baseline."""
    url = os.environ.get("FATHOM_BENCH_CLAIMS_MODEL", "")
    if not url:
        await measure(make_classifier(), None)
        return
    models = make_models(url)
    # All answers are under way at once: whoever answers for the model may take long for each.
    models["endpoint"] |= {"running": 256, "waiting": 1_024, "timeout_s": PATIENCE_S}
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "fathom.yaml"
        config.write_text("policy:\n  roles: {judge: endpoint}\n", encoding="utf-8")
        async with local_stack(models, config) as (clients, _store):
            await measure(make_classifier(), clients)


async def measure(classifier: Classifier, clients: Clients | None) -> None:
    """Measure all sets that were asked for, with the model of some clients if there are any."""
    name = os.environ.get("FATHOM_BENCH_CLAIMS_NAME", "endpoint")
    model = f"check with {name}" if clients else MODEL
    async with shelf() as common:
        own = OwnMaterial(common.servicer, common.store)
        for path in find_sets():
            first, claims = announce(path, model), load_claims(path)
            base = [await check_claim(claim, own, common, None) for claim in claims]
            if clients is None:
                ours = [await check_claim(claim, own, common, classifier) for claim in claims]
            else:
                ours = await judge_claims(claims, own, common, classifier, clients)
            print_scores(path.stem, ours)
            print_scores("plain occurrence", base)
            print_faults(ours)
            unread = sum(is_unread(marks) for one in ours for marks in (one.wrong, one.true))
            if unread:
                print(f"{unread} sentences were not read, since the model failed: not recorded")
            elif first:
                record(path, model, list_figures(ours))


def find_sets() -> list[Path]:
    """Return the files of the sets that were asked for, all of them by default."""
    wanted = [name for name in os.environ.get("FATHOM_BENCH_CLAIMS", "").split(",") if name]
    found = sorted((FOLDER.parent / "other").glob("claims_*.jsonl"))
    return [path for path in found if not wanted or path.stem in wanted]


async def check_claim(claim: Claim, own: OwnMaterial, common: Shelf, classifier: Classifier | None) -> Outcome:
    """Return what the check without a model finds in both forms, or without a classifier what the baseline finds."""
    found = Shelf(await own.make(claim.material), *common[1:]) if claim.material else common
    if classifier is None:
        return judge(claim, PlainCheck(found).verify)
    sources = await Evidence(found.store).gather(found.material)
    labels = await label_answer(f"{claim.true}\n\n{claim.wrong}", sources, classifier)
    verifier = Verifier(QUESTION, sources, labels)

    def check(text: str) -> tuple[Finding, ...]:
        found = verifier.verify(text)
        return (*found, *verifier.list_unchecked(text, found))

    return judge(claim, check)


def judge(claim: Claim, check: Check) -> Outcome:
    """Return what a check finds in both forms of a claim."""
    return Outcome(claim, check(claim.wrong), check(claim.true))


async def judge_claims(
    claims: Sequence[Claim], own: OwnMaterial, common: Shelf, classifier: Classifier, clients: Clients
) -> list[Outcome]:
    """Return what the whole ending of the product finds in both forms, with a model that reads typed claims."""
    reader = PolicyJudge(
        PolicyService(clients, tags=False, timeout_s=PATIENCE_S), load_catalogue().find("judge", "en").render()
    )
    found: dict[tuple[str, bool], tuple[Finding, ...]] = {}

    async def finish(place: int, group: Sequence[tuple[Claim, bool]]) -> None:
        material, paragraphs = await gather_material(group, own, common)
        text = "\n\n".join(one.text for one in paragraphs)
        ending = CheckedEnding(Evidence(common.store), judge=reader, correct=False, classifier=classifier)
        answer = await ending.build(text, make_episode(text, material, f"claims_{place}"))
        for one, marks in zip(paragraphs, divide_findings(answer.markdown, answer.findings), strict=False):
            found[one.claim.id, one.is_wrong] = marks

    await asyncio.gather(*(finish(place, group) for place, group in enumerate(group_forms(claims))))
    return [Outcome(claim, found[claim.id, True], found[claim.id, False]) for claim in claims]


def group_forms(claims: Sequence[Claim]) -> list[list[tuple[Claim, bool]]]:
    """Return the forms of all claims in groups, true and wrong ones mixed, the two of a claim in different groups."""

    def draw(word: str, claim: Claim) -> str:
        return hashlib.sha256(f"{word}{claim.id}".encode()).hexdigest()

    out = []
    for turn in (True, False):
        forms = [(one, (int(draw("form", one), 16) % 2 == 0) is turn) for one in claims]
        forms.sort(key=lambda form: draw(f"order{turn}", form[0]))
        out += [forms[start : start + SENTENCES] for start in range(0, len(forms), SENTENCES)]
    return out


async def gather_material(
    group: Sequence[tuple[Claim, bool]], own: OwnMaterial, common: Shelf
) -> tuple[list[Material], list[Paragraph]]:
    """Return the material of an answer, numbered throughout, and its sentences with the numbers in place."""
    material = list(common.material) if any(not claim.material for claim, _ in group) else []
    paragraphs = []
    for claim, is_wrong in group:
        before = len(material) if claim.material else 0
        material += await own.make(claim.material, before + 1)
        text = claim.wrong if is_wrong else claim.true
        paragraphs.append(Paragraph(claim, is_wrong, CITATION.sub(move_citations(before), text)))
    return material, paragraphs


def move_citations(by: int) -> Callable[[re.Match[str]], str]:
    """Return a replacement of citations by those of so many numbers higher."""
    return lambda match: "".join(f"[{int(number) + by}]" for number in re.findall(r"\d+", match.group(1)))


def divide_findings(markdown: str, findings: Sequence[Finding]) -> list[tuple[Finding, ...]]:
    """Return the findings of each paragraph of an answer; one at the end of the text is of every paragraph."""
    out, start = [], 0
    for part in markdown.split("\n\n"):
        end = start + len(part)
        out.append(tuple(one for one in findings if start <= one.start < end or one.start >= len(markdown)))
        start = end + 2
    return out


def is_unread(found: Sequence[Finding]) -> bool:
    """Return whether the model gave nothing for the answer of a sentence, which is said at the answer's end."""
    return any(one.kind is FindingKind.UNCHECKED and one.start == one.end for one in found)


def list_marks(found: Sequence[Finding]) -> list[Finding]:
    """Return the findings that call a sentence wrong."""
    return [one for one in found if one.kind is not FindingKind.UNCHECKED]


def count_outcomes(outcomes: Sequence[Outcome]) -> tuple[Counter[str], Counter[str], int, int]:
    """Return the claims and those found, by kind, the alarms, and the sentences that are not wholly checked."""
    found: Counter[str] = Counter(one.claim.kind for one in outcomes if list_marks(one.wrong))
    alarms = sum(bool(list_marks(one.true)) for one in outcomes)
    open_ = sum(bool(marks) and not list_marks(marks) for one in outcomes for marks in (one.wrong, one.true))
    return Counter(one.claim.kind for one in outcomes), found, alarms, open_


def print_scores(title: str, outcomes: Sequence[Outcome]) -> None:
    """Print a check's recall by kind, its false alarms on true sentences, and how many sentences it calls unchecked."""
    whole, found, alarms, unchecked = count_outcomes(outcomes)
    parts = [f"{kind} {found[kind]}/{count}" for kind, count in whole.items()]
    rate = found.total() / len(outcomes)
    print(
        f"{title:>18}: found {rate:.1%} ({', '.join(parts)}); false alarms {alarms} of {len(outcomes)} true sentences;"
        f" {unchecked} of {2 * len(outcomes)} said not to be checked"
    )


def list_figures(outcomes: Sequence[Outcome]) -> dict[str, str]:
    """Return the figures of a run as they are recorded."""
    whole, found, alarms, unchecked = count_outcomes(outcomes)
    return {f"{kind} of {count}": str(found[kind]) for kind, count in whole.items()} | {
        f"alarms of {len(outcomes)}": str(alarms),
        f"not checked of {2 * len(outcomes)}": str(unchecked),
    }


def print_faults(outcomes: Sequence[Outcome]) -> None:
    """Print each miss and each false alarm."""
    for claim, wrong, true in outcomes:
        if not list_marks(wrong):
            said = "; ".join(one.detail for one in wrong)
            print(f"  missed {claim.kind} {claim.id}: {claim.wrong} ({said or 'nothing said'})")
        for mark in list_marks(true):
            print(f"  false alarm {claim.id} {mark.kind.value} {mark.text!r}: {mark.detail} in {claim.true}")
