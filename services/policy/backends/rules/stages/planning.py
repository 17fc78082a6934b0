"""Plan of the reference policy: the question itself, relevant aspects of a framework, and document searches."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from fathom.domain.chat.pipeline import Asked
from fathom.services.policy.backends.rules.passages import method_query, query_of
from fathom.services.policy.backends.rules.question import Kind, Question, read_question
from fathom.services.policy.backends.rules.stages.focus import PERIOD, focus
from fathom.services.policy.backends.rules.terms import words

# Questions about a whole topic, whose aspects a framework lists: "how healthy is …", "outlook", 盈利能力.
BROAD = re.compile(
    r"profitab|healthy|fundamental|analy[sz]|assess|evaluat|overview|outlook|competiti|risk|solven|liquidity|growth"
    r"|valuation|盈利|偿债|成长|基本面|分析|评估|评价|概况|前景|竞争|风险|估值|营运|现金流",
    re.IGNORECASE,
)
LINE = re.compile(r"^( *)- (.*?)(?: \[(data|search)\])?$")
SEGMENT = re.compile(r"segment|by product|by region|sum of the parts|分业务|分产品|分部|分地区", re.IGNORECASE)
# Five letters fold inflections. Fewer than three aspects do not cover a topic; more than four, or six leaves each, ask
# for more tables than an answer can use.
STEM, LEAST_BRANCHES, MOST_BRANCHES, MOST_LEAVES, MOST_VIEWS = 5, 3, 4, 6, 2


@dataclass
class Branch:
    """An aspect of a framework, its dimension, and its leaves by tool."""

    dimension: str
    name: str
    data: list[str] = field(default_factory=list)
    search: list[str] = field(default_factory=list)


def plan(asked: Asked) -> str:
    """Return a JSON list of sub-questions; empty when nothing needs to be looked up."""
    question = read_question(asked["question"])
    queries: list[dict[str, object]] = []
    if question.kind is Kind.CHAT:
        return json.dumps(queries)
    if question.kind is not Kind.DOCUMENT:
        queries.append({"tool": "data", "subquery": question.text})
    if BROAD.search(question.text):
        queries += find_candidates(question, branches(asked["framework"]))
    queries += documents(question)
    return json.dumps(queries, ensure_ascii=False)


def documents(question: Question) -> Iterator[dict[str, object]]:
    """Yield document searches: the question itself for a document or a reason, an explanation of a measure."""
    if question.kind is Kind.DOCUMENT:
        yield {"tool": "search", "subquery": question.text}
        if query_of(question) != question.text:
            yield {"tool": "search", "subquery": f"{query_of(question)} {'解释' if question.chinese else 'explained'}"}
    elif question.background:
        yield {"tool": "search", "subquery": question.text}
    elif question.kind is Kind.ANALYSIS and question.aspects:
        measure = method_query(question, [])
        text = f"{measure}是什么" if question.chinese else f"what {measure} means"
        yield {"tool": "search", "subquery": text}


def find_candidates(question: Question, found: Sequence[Branch]) -> Iterator[dict[str, object]]:
    """Yield a sub-question per aspect, two per segment, and views that the framework names."""
    subject = subject_of(question)
    if not subject or not found:
        return
    chosen = relevant(question, found)
    segments = [leaf for branch in chosen for leaf in branch.data if SEGMENT.search(leaf)]
    for branch in chosen:
        # Segments need a query each: one query for several of them finds only the company as a whole.
        leaves = [leaf for leaf in branch.data if leaf not in segments][:MOST_LEAVES]
        if leaves:
            joined = ("、" if question.chinese else ", ").join(leaves)
            text = f"{subject}{joined}" if question.chinese else f"{subject} {joined}"
            yield {"tool": "data", "subquery": text, "indicators": leaves}
    for leaf in segments[:2]:
        text = f"{subject}{leaf}" if question.chinese else f"{subject} {leaf}"
        yield {"tool": "data", "subquery": text}
        yield {"tool": "search", "subquery": f"{text}{'解读' if question.chinese else ', reading of the report'}"}
    views = [leaf for branch in found for leaf in branch.search][:MOST_VIEWS]
    for leaf in views:
        yield {"tool": "search", "subquery": f"{subject}{'的' if question.chinese else ' '}{leaf}"}


def subject_of(question: Question) -> str:
    """Return the subjects of the question with its period."""
    about = focus(question.text)
    names = ("和" if question.chinese else " and ").join(about.entities[:3])
    period = about.periods[0] if about.periods else ""
    return f"{names}{'' if question.chinese else ' '}{period}".strip() if names else ""


def relevant(question: Question, found: Sequence[Branch]) -> list[Branch]:
    """Return the aspects that share word stems with the question, at least ``LEAST_BRANCHES``."""
    stems = {stem for word in words(PERIOD.sub(" ", question.text)) if (stem := stem_of(word))}

    def score(branch: Branch) -> int:
        own = {stem_of(word) for word in words(f"{branch.dimension} {branch.name}")}
        inside = {stem_of(word) for word in words(" ".join(branch.data))}
        return 2 * len(stems & own) + len(stems & inside)

    ranked = sorted((branch for branch in found if branch.data), key=lambda branch: -score(branch))
    fitting = [branch for branch in ranked if score(branch)]
    return fitting[:MOST_BRANCHES] if len(fitting) >= LEAST_BRANCHES else ranked[:LEAST_BRANCHES]


def stem_of(word: str) -> str:
    """Return the beginning of a Latin word, or Chinese characters unchanged; "" for a short Latin word."""
    if not word.isascii():
        return word
    return word[:STEM] if len(word) >= STEM else ""


def branches(framework: str) -> list[Branch]:
    """Parse the aspects of the framework trees in order."""
    found: list[Branch] = []
    dimension = ""
    for line in framework.splitlines():
        match = LINE.match(line)
        if match is None:
            continue
        level, name, tool = len(match.group(1)) // 2 + 1, match.group(2), match.group(3)
        if level == 1:
            dimension = name
        elif level == 2:
            found.append(Branch(dimension, name))
        elif found:
            (found[-1].search if tool == "search" else found[-1].data).append(name)
    return found
