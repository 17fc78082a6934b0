"""Rankings of answers: strengths with intervals, agreement with people, matches that survive a crash."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Mapping
from html.parser import HTMLParser
from pathlib import Path

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from typer.testing import CliRunner

from fathom.api.policy.v1 import policy_pb2 as policy
from fathom.cli.records import grading, ranking
from fathom.clients import Clients
from fathom.core.errors import CorruptData, FathomError, InvalidField
from fathom.domain.chat.proto import message_from_proto
from fathom.operations.ranking.agreement import compare, find_kappa, measure_agreement, read_human
from fathom.operations.ranking.answers import read_contestants
from fathom.operations.ranking.judging import Rule, judge_all
from fathom.operations.ranking.matches import Match, MatchJournal, Pairing, pair_all
from fathom.operations.ranking.strengths import rank
from fathom.services.policy.backends.rules.judging import judge_reply
from fathom.transport.rpc.dispatch import Dispatcher
from tests.unit.reward.house import House
from tests.unit.reward.scripted_policy import Reply, ScriptedPolicy
from tests.unit.reward.test_reward_judge import longest_wins

GRADE_OF = {1.0: 5, 0.5: 3, 0.0: 1}


def match(number: int, left: str, right: str, score: float) -> Match:
    return Match(f"k{number}", f"question {number}", left, right, GRADE_OF[score], "why", "judge@1")


def write(path: Path, **answers: str) -> str:
    rows = [json.dumps({"question": question, "answer": answer}) for question, answer in answers.items()]
    path.write_text("\n".join(rows), encoding="utf-8")
    return str(path)


def judged_by(reply: Reply) -> tuple[Clients, ScriptedPolicy]:
    """Clients of a real reward service, whose judge's model replies by a function."""
    peer = ScriptedPolicy(reply)
    house = House(peers={"policy": peer})
    dispatcher = Dispatcher(house.service, house.telemetry)
    dispatcher.ready = True
    return Clients({"reward": "inproc://reward"}, house.telemetry, dispatchers={"reward": dispatcher}), peer


def judge_by_rules(request: policy.GenerateRequest) -> str:
    """Reply as the reference policy judges."""
    messages = [message_from_proto(message) for message in request.messages]
    return judge_reply(request.response_schema_json, messages) or ""


def test_two_contestants_have_the_strengths_of_their_odds() -> None:
    matches = [match(number, "a", "b", float(number < 30)) for number in range(40)]
    first, second = rank(matches, samples=200)
    # Half a win is added on either side.
    assert first.strength - second.strength == pytest.approx(400 * math.log10(30.5 / 10.5))
    assert (first.name, first.wins, first.ties, first.losses, first.share) == ("a", 30, 0, 10, 0.75)
    assert first.low < first.strength < first.high
    assert first.low > second.high


def test_strengths_that_made_the_matches_are_found_again() -> None:
    true = {"weak": -200.0, "middle": 0.0, "strong": 200.0}
    draws = random.Random(3)
    # 300 matches a pair: the strengths of smaller rounds scatter by more than they differ.
    matches = []
    for number in range(900):
        one, other = draws.sample(sorted(true), 2)
        chance = 1 / (1 + 10 ** ((true[other] - true[one]) / 400))
        matches.append(match(number, one, other, float(draws.random() < chance)))
    found = rank(matches, samples=200)
    assert [one.name for one in found] == ["strong", "middle", "weak"]
    for one in found:
        assert abs(one.strength - true[one.name]) < 45  # type: ignore[attr-defined]
        assert one.low < one.high  # type: ignore[attr-defined]
    # Few matches say less.
    assert (
        rank(matches[:90], samples=200)[0].high - rank(matches[:90], samples=200)[0].low > found[0].high - found[0].low
    )


def test_whoever_never_loses_has_a_finite_strength() -> None:
    (first, second) = rank([match(number, "a", "b", 1.0) for number in range(5)], samples=50)
    assert math.isfinite(first.strength)
    assert first.strength > second.strength


@given(st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=1, max_size=12))
def test_which_side_an_answer_stands_on_changes_nothing(scores: list[float]) -> None:
    straight = [match(number, "a", "b", score) for number, score in enumerate(scores)]
    turned = [match(number, "b", "a", 1.0 - score) for number, score in enumerate(scores)]
    assert rank(straight, samples=20) == rank(turned, samples=20)


async def test_references_and_competitors_meet_in_a_round_robin(tmp_path: Path) -> None:
    ours = write(tmp_path / "ours.jsonl", q1="a long answer", q2="short", q3="")
    (tmp_path / "rival.csv").write_text('question,answer\nq1,"longer, by a comma"\nq2,same5\n', encoding="utf-8")
    reference = tmp_path / "gold.jsonl"
    reference.write_text('{"question": "q1", "references": ["x", "y"]}\n{"question": "q3", "references": ["z"]}\n')
    contestants = read_contestants([ours, str(tmp_path / "rival.csv"), f"reference={reference}"])
    clients, _ = judged_by(longest_wins)
    done = await judge_all(clients, pair_all(contestants), Rule(), MatchJournal(tmp_path / "matches.jsonl"))
    found = {(one.question, one.left, one.right): one.score for one in done.matches}
    assert found == {
        ("q1", "ours", "rival"): 0.5,  # both have ten characters or more, which is the judge's best grade
        ("q1", "ours", "reference"): 1.0,
        ("q1", "rival", "reference"): 1.0,
        ("q2", "ours", "rival"): 0.5,
        ("q3", "ours", "reference"): 0.0,  # no answer loses without a judge
    }
    assert not done.failed


async def test_what_was_judged_before_a_crash_is_not_judged_again(tmp_path: Path) -> None:
    journal = tmp_path / "matches.jsonl"
    pairings = pair_all(
        read_contestants(
            [write(tmp_path / "a.jsonl", q1="aaa", q2="bbbb"), write(tmp_path / "b.jsonl", q1="a", q2="b")]
        )
    )
    clients, peer = judged_by(longest_wins)
    first = await judge_all(clients, pairings, Rule(), MatchJournal(journal))
    asked = len(peer.seen)
    # The process dies in the middle of a line.
    journal.write_bytes(journal.read_bytes()[:-20])
    again = await judge_all(clients, pairings, Rule(), MatchJournal(journal))
    assert again.matches == first.matches
    assert len({line for line in journal.read_text().splitlines()}) == len(journal.read_text().splitlines()) == 2
    # The reward service keeps votes, so that a fresh judge tells what was asked again: both orders of one pair.
    fresh, other = judged_by(longest_wins)
    await judge_all(fresh, pairings, Rule(), MatchJournal(journal))
    assert (asked, len(other.seen)) == (4, 0)


async def test_a_pair_that_the_judge_cannot_grade_is_counted_and_asked_again(tmp_path: Path) -> None:
    pairings = pair_all(read_contestants([write(tmp_path / "a.jsonl", q1="aaa"), write(tmp_path / "b.jsonl", q1="b")]))
    journal = MatchJournal(tmp_path / "matches.jsonl")
    # Nothing that cannot be read becomes a tie.
    babbling, _ = judged_by(lambda request: "no JSON at all")
    done = await judge_all(babbling, pairings, Rule(), journal)
    assert (done.matches, done.failed.total()) == ([], 1)
    sober, _ = judged_by(longest_wins)
    assert len((await judge_all(sober, pairings, Rule(), journal)).matches) == 1


async def test_a_judge_that_prefers_the_first_answer_makes_ties(tmp_path: Path) -> None:
    def first_wins(request: policy.GenerateRequest) -> str:
        return json.dumps({"reason": "it came first", "first": 9, "second": 1})

    pairings = pair_all(read_contestants([write(tmp_path / "a.jsonl", q1="aaa"), write(tmp_path / "b.jsonl", q1="b")]))
    clients, _ = judged_by(first_wins)
    (found,) = (await judge_all(clients, pairings, Rule(), MatchJournal(tmp_path / "m.jsonl"))).matches
    assert found.score == 0.5


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no answer"),
        ("nonsense", "is no JSON"),
        ("[1]", "is no object"),
        ('{"question": "q"}', "no question with an answer"),
        ('{"question": "q", "answer": "a"}\n{"question": "q", "answer": "b"}', "for the second time"),
    ],
)
def test_wrong_answers_are_named_by_file_and_line(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(text, encoding="utf-8")
    with pytest.raises(InvalidField, match=message):
        read_contestants([str(tmp_path / "a.jsonl")])


def test_a_ranking_needs_two_contestants_with_a_question_in_common(tmp_path: Path) -> None:
    one, other = write(tmp_path / "a.jsonl", q1="x"), write(tmp_path / "b.jsonl", q2="y")
    with pytest.raises(InvalidField, match="two contestants"):
        pair_all(read_contestants([one]))
    with pytest.raises(InvalidField, match="the same question"):
        pair_all(read_contestants([one, other]))
    with pytest.raises(InvalidField, match="are called a"):
        read_contestants([one, f"a={other}"])


def test_a_journal_with_a_whole_line_that_is_no_match_is_refused(tmp_path: Path) -> None:
    (tmp_path / "m.jsonl").write_text('{"key": 1}\n', encoding="utf-8")
    with pytest.raises(CorruptData, match=r"m.jsonl:1"):
        MatchJournal(tmp_path / "m.jsonl").read()


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(1, 5)), min_size=3, max_size=30))
def test_the_rank_correlation_is_that_of_scipy(grades: list[tuple[int, int]]) -> None:
    judge, human = zip(*grades, strict=True)
    if len(set(judge)) == 1 or len(set(human)) == 1:
        assert measure(grades).spearman is None
        return
    found = measure(grades).spearman
    assert found == pytest.approx(stats.spearmanr(judge, human).statistic)


def measure(grades: list[tuple[int, int]]):  # type: ignore[no-untyped-def]
    matches = [Match(str(n), f"q{n}", "a", "b", judge, "") for n, (judge, _) in enumerate(grades)]
    human = {(f"q{n}", "a", "b"): grade for n, (_, grade) in enumerate(grades)}
    return measure_agreement(compare(matches, human))


def test_kappa_by_hand() -> None:
    # 3 of 4 agree; by chance 1/2: each side says 1 and 5 twice, but one of them.
    assert find_kappa([1, 1, 5, 5], [1, 5, 5, 5]) == pytest.approx((0.75 - 0.5) / 0.5)
    assert find_kappa([3, 3], [3, 3]) is None
    assert find_kappa([], []) is None


@pytest.mark.parametrize(("human", "is_apart"), [(5, False), (4, False), (3, True), (1, True)])
def test_grades_two_apart_are_looked_at_again(human: int, is_apart: bool) -> None:
    (found,) = compare([Match("k", "q", "a", "b", 5, "")], {("q", "a", "b"): human})
    assert found.is_apart == is_apart


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("q,a,b,9", "none of 1 to 5"),
        ("q,a,b,splendid", "none of 1 to 5"),
        ("q,,b,3", "no question, left and right"),
        ("q,a,b,5\nq,a,b,4", "contradicts"),
        ("q,a,b,5\nq,b,a,4", "contradicts"),
    ],
)
def test_wrong_and_contradictory_grades_are_refused(rows: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "human.csv").write_text(f"question,left,right,grade\n{rows}\n", encoding="utf-8")
    with pytest.raises(InvalidField, match=message):
        read_human(tmp_path / "human.csv")


def test_a_grade_holds_for_either_order(tmp_path: Path) -> None:
    (tmp_path / "human.csv").write_text("question,left,right,grade\nq,a,b,rather good\n", encoding="utf-8")
    assert read_human(tmp_path / "human.csv") == {("q", "a", "b"): 4, ("q", "b", "a"): 2}


class Tags(HTMLParser):
    """Counts tags and keeps addresses that a page would load."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.loaded: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.loaded += [str(value) for name, value in attrs if name in ("src", "href")]


def test_the_command_prints_and_writes_the_ranking(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # Questions and answers come from strangers and stand in the page.
    hostile = "<script>alert(1)</script>"
    ours = write(tmp_path / "ours.jsonl", q1="a long answer", **{hostile: "something"})
    rival = write(tmp_path / "rival.jsonl", q1="no", **{hostile: "x"})
    (tmp_path / "human.csv").write_text("question,left,right,grade\nq1,ours,rival,bad\n", encoding="utf-8")
    clients, _ = judged_by(longest_wins)
    monkeypatch.setattr(ranking, "connect", lambda endpoints, lane: clients)
    files = ranking.Files(tmp_path / "m.jsonl", tmp_path / "r.html", tmp_path / "human.csv", tmp_path / "again.jsonl")
    assert ranking.run([ours, rival], Rule(), files, 0, {}) == 0
    shown = capsys.readouterr().out
    assert shown.splitlines()[1].split()[0] == "ours"
    assert "1 matches to look at again" in shown
    (again,) = map(json.loads, (tmp_path / "again.jsonl").read_text().splitlines())
    assert (again["question"], again["grade"], again["human"]) == ("q1", 5, 1)
    assert again["reason"]
    page = Tags()
    page.feed((tmp_path / "r.html").read_text(encoding="utf-8"))
    assert "script" not in page.tags
    assert not page.loaded
    assert page.tags.count("circle") == 2


@pytest.mark.parametrize("method", ["pairwise", "rubric", "spct"])
def test_agreement_with_people_is_printed_for_each_method(
    method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ours = write(tmp_path / "ours.jsonl", q1="a long answer", q2="no", q3="no")
    rival = write(tmp_path / "rival.jsonl", q1="no", q2="a long answer", q3="a long answer")
    # Of three grades people share two; by chance both would agree on 4 of 9: (2/3 - 4/9) / (1 - 4/9).
    grades = "q1,ours,rival,good\nq2,ours,rival,bad\nq3,ours,rival,rather bad\n"
    (tmp_path / "human.csv").write_text(f"question,left,right,grade\n{grades}", encoding="utf-8")
    more = {"principles": [{"principle": "length", "weight": 100}], "critiques": {"first": "a", "second": "b"}}
    rubric = more if method != "pairwise" else {}
    clients, peer = judged_by(lambda request: json.dumps(rubric | json.loads(longest_wins(request))))
    monkeypatch.setattr(ranking, "connect", lambda endpoints, lane: clients)
    files = ranking.Files(tmp_path / "m.jsonl", tmp_path / "r.html", tmp_path / "human.csv")
    assert ranking.run([ours, rival], Rule(method), files, 0, {}) == 0
    shown = capsys.readouterr().out
    assert "3 pairs graded by judge and person: Spearman 0.87, Cohen's kappa 0.50; the same grade 66.7%" in shown
    assert ("principles" in peer.seen[0].messages[0].content) == (method != "pairwise")


def test_a_rubric_by_its_other_name_is_not_judged_again() -> None:
    assert Rule("spct").name == Rule("rubric").name != Rule("pairwise").name


def test_people_grade_without_names_and_their_grades_are_those_of_the_left(tmp_path: Path) -> None:
    answers = {f"q{number}": "x" * (number + 2) for number in range(12)}
    sources = [
        write(tmp_path / "ours.jsonl", **answers),
        write(tmp_path / "rival.jsonl", **dict.fromkeys(answers, "y")),
    ]
    target, app = tmp_path / "human.jsonl", typer.Typer()
    app.command()(lambda: grading.run(sources, target, 12, 3) and None)
    # A person who likes the longer answer, whichever side it stands on: they see A and B and type 5 or 1.
    order: list[int] = []

    def prefer_x(pairing: Pairing, *, is_turned: bool) -> int:
        order.append(is_turned)
        return 1 if is_turned else 5

    shown = CliRunner().invoke(app, [], input="5\nnonsense\n4\n\nq\n").output
    assert "ours" not in shown.replace(str(target), "")
    assert "rival" not in shown
    assert "2 pairs graded now" in shown
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(grading, "ask_grade", prefer_x)
        # Two are known, all others are shown.
        assert grading.run(sources, target, 12, 3) == 10
    assert len(set(order)) == 2
    rows = [json.loads(line) for line in target.read_text().splitlines()]
    assert len({row["question"] for row in rows}) == 12
    assert {(row["left"], row["grade"]) for row in rows[2:]} == {("ours", 5)}
    assert read_human(target)["q5", "ours", "rival"] in (1, 2, 4, 5)


def test_a_ranking_without_a_match_is_no_success(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sources = [write(tmp_path / "a.jsonl", q1="x"), write(tmp_path / "b.jsonl", q1="y")]
    clients, _ = judged_by(lambda request: "nothing to read")
    monkeypatch.setattr(ranking, "connect", lambda endpoints, lane: clients)
    files = ranking.Files(tmp_path / "m.jsonl", tmp_path / "r.html")
    assert ranking.run(sources, Rule(), files, 0, {}) == 1
    assert "no match was judged" in capsys.readouterr().err
    assert not files.page.exists()


async def test_a_judge_that_is_away_is_an_error_by_name(tmp_path: Path) -> None:
    clients = Clients({}, House().telemetry)
    pairings = pair_all(read_contestants([write(tmp_path / "a.jsonl", q1="x"), write(tmp_path / "b.jsonl", q1="y")]))
    with pytest.raises(FathomError, match="reward"):
        await judge_all(clients, pairings, Rule(), MatchJournal(tmp_path / "m.jsonl"))


def test_an_unknown_method_names_the_known_ones() -> None:
    with pytest.raises(InvalidField, match="pairwise, rubric, direct, spct"):
        Rule("by taste")


@pytest.mark.parametrize(
    ("grades", "agreement"),
    [
        # As the scores have it, with one pair a grade weaker; and the other way round, which no judge may hide.
        ({"q1": "good", "q2": "bad", "q3": "rather good"}, "Spearman 0.87, Cohen's kappa 0.50; the same grade 66.7%"),
        ({"q1": "bad", "q2": "good", "q3": "rather bad"}, "Spearman -0.87, Cohen's kappa -0.50; the same grade 0.0%"),
    ],
)
def test_scores_of_single_answers_agree_with_people_offline(
    grades: Mapping[str, str],
    agreement: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    # The real rules engine behind the real service: an answer with figure and source against one that refuses.
    answer, refusal = "The return of Apple in 2014 was 40.6 % [1].", "No idea."
    questions = {name: f"What was the return of Apple in 201{place}?" for place, name in enumerate(grades)}
    better = {"q1": "ours", "q2": "rival", "q3": "ours"}
    sources = [
        write(tmp_path / f"{name}.jsonl", **{questions[q]: answer if better[q] == name else refusal for q in grades})
        for name in ("ours", "rival")
    ]
    rows = [{"question": questions[q], "left": "ours", "right": "rival", "grade": grade} for q, grade in grades.items()]
    (tmp_path / "human.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    clients, peer = judged_by(judge_by_rules)
    monkeypatch.setattr(ranking, "connect", lambda endpoints, lane: clients)
    files = ranking.Files(tmp_path / "m.jsonl", tmp_path / "r.html", tmp_path / "human.jsonl")
    assert ranking.run(sources, Rule("direct"), files, 0, {}) == 0
    assert f"3 pairs graded by judge and person: {agreement}" in capsys.readouterr().out
    # Each answer is shown alone: nobody can prefer a place.
    assert all(request.messages[1].content.count("# Answer") == 1 for request in peer.seen)
    assert not any("Second answer" in request.messages[1].content for request in peer.seen)
    (first, *_) = map(json.loads, (tmp_path / "m.jsonl").read_text().splitlines())
    assert first["reason"].startswith("left: accuracy 10, logic ")
