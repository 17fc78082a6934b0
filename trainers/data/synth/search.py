"""Tasks of scenario ``search``: facts stated in one corpus document, asked from a realistic situation."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, zip_longest

from fathom.domain.text.months import MONTH_NAMES
from fathom.trainers.data.synth.bundle import Bundle, Company, Document
from fathom.trainers.data.synth.task import Language, Step, SynthTask, Wording, unique

GAP = "____"
SENTENCE = re.compile(r"(?<=[.!?][\"”]) +|(?<=[.!?]) +(?=[A-Z\"“])")
# A figure that stands alone: no part of a word, date or larger figure, no scale behind it.
FIGURE = re.compile(
    r"(?<![\w.,$:/-])\d{1,3}(?:,\d{3})*(?![\w:/-]|[.,]\d)"
    rf"(?! (?:million|billion|thousand|per cent|percent|{'|'.join(MONTH_NAMES)}))"
)
# Only names behind a title: two capitalised words alone are as often a company or a place.
PERSON = re.compile(
    r"\b(?:Mr|Ms|Mrs|Dr|Senator|Professor|Captain|Inspector|Sergeant|President|Minister|Leader|Secretary|Treasurer"
    r"|spokesman|spokeswoman|Premier|Commissioner) ([A-Z][a-z]{2,} [A-Z][a-z]{2,})\b"
)
FACTS: tuple[tuple[str, re.Pattern[str], Wording], ...] = (
    (
        "headquarters",
        re.compile(r"Its headquarters are in ([^.]+)\."),
        Wording(
            "I have an appointment at the headquarters of {name}. In which city are they? Name the city alone.",
            "我要去{name}的总部开会。总部在哪座城市？只用英文写出城市名。",
        ),
    ),
    (
        "exchange",
        re.compile(r"Its shares trade on the ([^.;,]+)"),
        Wording(
            "A client wants to place an order for shares of {name}. On which exchange do they trade? Name it alone.",
            "客户想下单买入{name}的股票。它在哪家交易所上市？只用英文写出交易所名称。",
        ),
    ),
    (
        "sector",
        re.compile(r"Sector: ([^.]+)\."),
        Wording(
            "I am sorting a portfolio by sector. To which sector does {name} belong? Name the sector alone.",
            "我在按行业整理投资组合。{name}属于哪个行业？只用英文写出行业名称。",
        ),
    ),
)
DESCRIBED = Wording(
    "Somebody told me about a company that “{words}”. Which company is it? Name it alone.",
    "有人提到一家公司，英文介绍是“{words}”。这是哪家公司？只写公司名称。",
)
FIGURE_GONE = Wording(
    "I am checking a quotation from the news and one figure cannot be read: “{words}” Which number stands at"
    " {gap}? Give the number alone.",
    "我在核对一则英文新闻的引文，有一个数字看不清：“{words}”{gap}处是多少？只写数字。",
)
PERSON_GONE = Wording(
    "I am checking a quotation from the news and a name cannot be read: “{words}” Who stands at {gap}? Give the"
    " name alone.",
    "我在核对一则英文新闻的引文，有一个人名看不清：“{words}”{gap}处是谁？只写英文姓名。",
)
LANGUAGES: tuple[Language, ...] = ("en", "zh")


def search_tasks(bundle: Bundle, count: int, seed: int) -> list[SynthTask]:
    """Generate ``count`` tasks, cycling through the kinds; raises ``InvalidField`` when the corpus has too few."""
    draw = random.Random(f"search:{seed}")
    kinds = [shuffle_tasks(made, draw) for made in (facts(bundle), profile_questions(bundle), clozes(bundle))]
    return unique((task for turn in zip_longest(*kinds) for task in turn if task is not None), count)


def shuffle_tasks(tasks: Iterable[SynthTask], draw: random.Random) -> list[SynthTask]:
    found = list(tasks)
    draw.shuffle(found)
    return found


def facts(bundle: Bundle) -> Iterator[SynthTask]:
    """Yield questions for one fact of a company's profile; a city is accepted without its state."""
    for company in bundle.companies:
        for kind, pattern, wording in FACTS:
            match = pattern.search(company.profile.text)
            if match is None:
                continue
            fact = match.group(1).strip()
            # "Cupertino, California" and "Cupertino" are both right; without a comma the two are one.
            references = tuple(dict.fromkeys((fact, fact.split(",")[0])))
            for language in LANGUAGES:
                question = wording.of(language, name=company.name(language))
                yield task(company.profile, kind, language, question, references, f"{company.english} company profile")


def profile_questions(bundle: Bundle) -> Iterator[SynthTask]:
    """Yield questions for the company whose profile begins with the quoted words."""
    for company in bundle.companies:
        first = company.profile.text.split(". ")[0].rstrip(".")
        words = first.removeprefix(company.english).strip()
        # A profile that does not begin with the company's name cannot be quoted without it.
        if words == first or names_company(words, company):
            continue
        for language in LANGUAGES:
            question = DESCRIBED.of(language, words=words)
            yield task(company.profile, "described", language, question, company.names, words)


def names_company(words: str, company: Company) -> bool:
    """Return whether the words contain one of the company's names, and so give the answer away."""
    return any(name in words for name in company.names)


def clozes(bundle: Bundle) -> Iterator[SynthTask]:
    """Yield cloze questions: a figure or name removed from a sentence that occurs in a single news item."""
    news = [document for document in bundle.documents if document.kind == "news"]
    for document in news:
        for sentence in SENTENCE.split(document.text):
            if 60 <= len(sentence) <= 260:
                for task in chain(without_figure(document, sentence), without_person(document, sentence)):
                    if said_once(task, news):
                        yield task


def said_once(task: SynthTask, news: Sequence[Document]) -> bool:
    """Return whether only the reference fits the gap: no other item has the sentence with another figure or name."""
    before, after = str(task.path[0].arguments["query"]).split(GAP)
    # In another item another figure or name may stand in the gap, of up to forty characters.
    fitting = re.compile(rf"{re.escape(before)}[\w,.' -]{{1,40}}?{re.escape(after)}")
    return sum(len(fitting.findall(document.text)) for document in news if after in document.text) == 1


def without_figure(document: Document, sentence: str) -> Iterator[SynthTask]:
    """Yield cloze questions for the only figure of a sentence."""
    figures = list(FIGURE.finditer(sentence))
    # A second number anywhere, also within a date, would be as good an answer as the one that is gone.
    if len(figures) != 1 or len(re.findall(r"\d+", sentence)) != len(re.findall(r"\d+", figures[0].group())):
        return
    yield from cloze(document, "figure", sentence, figures[0].span(), (figures[0].group(),), FIGURE_GONE, "number")


def without_person(document: Document, sentence: str) -> Iterator[SynthTask]:
    """Yield cloze questions for the only named person of a sentence; full name and family name are accepted."""
    people = list(PERSON.finditer(sentence))
    # A name that stands twice would give itself away.
    if len(people) != 1 or sentence.count(people[0].group(1)) != 1:
        return
    name = people[0].group(1)
    yield from cloze(document, "person", sentence, people[0].span(1), (name, name.split()[-1]), PERSON_GONE, "em")


def cloze(
    document: Document,
    kind: str,
    sentence: str,
    span: tuple[int, int],
    references: tuple[str, ...],
    wording: Wording,
    grader: str,
) -> Iterator[SynthTask]:
    """Yield the sentence with a gap, in both languages."""
    words = f"{sentence[: span[0]]}{GAP}{sentence[span[1] :]}"
    for language in LANGUAGES:
        yield task(document, kind, language, wording.of(language, words=words, gap=GAP), references, words, grader)


def task(
    document: Document,
    kind: str,
    language: Language,
    question: str,
    references: tuple[str, ...],
    query: str,
    grader: str = "em",
) -> SynthTask:
    """Make a task whose solution searches for the document and reads it."""
    return SynthTask(
        scenario="search",
        kind=kind,
        fact=f"{document.id} {query}",
        language=language,
        question=question,
        references=references,
        grader=grader,
        path=(Step("search", {"query": query, "top_k": 5}), Step("fetch", {"id": document.id})),
        # A quoted figure must match exactly.
        grader_parameters={"rel_tol": 0.0} if grader == "number" else {},
        documents=(document.id,),
    )
