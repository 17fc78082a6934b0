"""Questions for training: provenance, near duplicates, noise, difficulty, shares, and models that reply badly."""

from __future__ import annotations

import json
import re
import unicodedata
from collections import Counter
from pathlib import Path

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st

from fathom.api.policy.v1 import policy_pb2 as policy
from fathom.clients import Clients
from fathom.core.errors import CorruptData, InvalidField, NotFound
from fathom.core.telemetry import Telemetry
from fathom.domain.journal import Journal
from fathom.domain.text.shingles import make_shingles, measure_jaccard
from fathom.trainers.commands import query_files
from fathom.trainers.data.queries.asking import Asker
from fathom.trainers.data.queries.difficulty import rate_all
from fathom.trainers.data.queries.duplicates import find_duplicates
from fathom.trainers.data.queries.intents import expand
from fathom.trainers.data.queries.noise import OPERATORS, add_noise, undo_changes
from fathom.trainers.data.queries.record import Query, make_query, read_queries, write_queries
from fathom.trainers.data.queries.sampling import SHARES, divide, draw_sample
from fathom.trainers.data.queries.variants import match_phrases
from fathom.transport.rpc.dispatch import Dispatcher
from fathom.transport.rpc.service import Service
from tests.unit.reward.scripted_policy import Reply, ScriptedPolicy

SEEDS = [make_query("What is Apple's revenue?", "seeds:1"), make_query("茅台的毛利率是多少？", "seeds:2")]


def asker_of(reply: Reply) -> tuple[Asker, ScriptedPolicy]:
    """A model that replies by a function, behind the real client and dispatcher."""
    peer, telemetry = ScriptedPolicy(reply), Telemetry("test", log_level="critical")
    dispatcher = Dispatcher(Service("policy", peer), telemetry)
    dispatcher.ready = True
    return Asker(Clients({"policy": "inproc://policy"}, telemetry, dispatchers={"policy": dispatcher}), "m"), peer


def make_rated(number: int, difficulty: str) -> Query:
    return make_query(f"question {number}", f"f:{number}").model_copy(update={"difficulty": difficulty})


def test_rows_come_back_as_they_were_written(tmp_path: Path) -> None:
    assert write_queries(SEEDS, tmp_path / "q.jsonl") == 2
    assert read_queries(tmp_path / "q.jsonl") == SEEDS
    assert [query.language for query in SEEDS] == ["en", "zh"]


def test_seeds_are_lines_of_a_text_file_or_bare_rows(tmp_path: Path) -> None:
    (tmp_path / "seeds.txt").write_text("# mine\nWhat is CAGR?\n\n标普500涨了多少？\n", encoding="utf-8")
    found = read_queries(tmp_path / "seeds.txt")
    assert [(query.text, query.source) for query in found] == [
        ("What is CAGR?", "seeds.txt:2"),
        ("标普500涨了多少？", "seeds.txt:4"),
    ]
    (tmp_path / "bare.jsonl").write_text('{"question": "What is CAGR?"}\n', encoding="utf-8")
    assert read_queries(tmp_path / "bare.jsonl")[0].text == "What is CAGR?"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no query"),
        ("{", "q.jsonl:1 has no text"),
        ('{"source": "x"}', "q.jsonl:1 has no text"),
        ('{"id": "a", "text": "b", "language": "fr", "source": "c"}', "q.jsonl:1: language"),
        ('{"id": "a", "text": "b", "language": "en", "source": "c"}\n' * 2, "q.jsonl:2 has the id a for the second"),
    ],
)
def test_wrong_rows_are_named(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "q.jsonl").write_text(text, encoding="utf-8")
    with pytest.raises(InvalidField, match=message):
        read_queries(tmp_path / "q.jsonl")
    with pytest.raises(NotFound):
        read_queries(tmp_path / "absent.jsonl")


WORDS = st.lists(st.sampled_from(["a", "b", "c", "茅", "台"]), max_size=7).map(" ".join)


@given(st.lists(WORDS, max_size=12), st.sampled_from([0.3, 0.5, 0.7, 0.8, 1.0]))
def test_exactly_those_are_left_out_that_comparing_all_pairs_finds(texts: list[str], threshold: float) -> None:
    sets = [make_shingles(text, 2) for text in texts]
    staying: list[int] = []
    out: list[int] = []
    for place, own in enumerate(sets):
        # Empty texts are similar to nothing here: they share no shingle.
        near = any(own and measure_jaccard(own, sets[other]) >= threshold for other in staying)
        (out if near else staying).append(place)
    assert [item.place for item in find_duplicates(texts, threshold)] == out


TEXTS = st.text(alphabet="ab \u8305\u53f0\u5229\u6da6,", max_size=20)


@pytest.mark.parametrize("length", [1, 2, 3])
@given(one=TEXTS, other=TEXTS)
def test_similarity_is_symmetric_in_bounds_and_one_for_the_same(one: str, other: str, length: int) -> None:
    sets = [make_shingles(text, length) for text in (one, other)]
    assert measure_jaccard(sets[0], sets[0]) == 1.0
    assert measure_jaccard(*sets) == measure_jaccard(*reversed(sets))
    assert 0.0 <= measure_jaccard(*sets) <= 1.0
    assert (measure_jaccard(*sets) == 1.0) == (sets[0] == sets[1])


@pytest.mark.parametrize(
    ("one", "other", "similarity"),
    [
        # Words: 2 common pairs of 4, characters: 3 of 5, whatever the case, the width and the marks.
        ("net profit of Apple", "Net profit of Merck!", 2 / 4),
        ("茅台净利润", "茅台净利率？", 3 / 5),
        ("ＡＰＰＬＥ 2019", "apple 2019", 1.0),
        ("net profit", "净利润", 0.0),
    ],
)
def test_words_of_english_and_characters_of_chinese_are_compared(one: str, other: str, similarity: float) -> None:
    assert measure_jaccard(make_shingles(one, 2), make_shingles(other, 2)) == similarity


def test_a_pair_right_at_the_threshold_is_one() -> None:
    words = [f"w{number}" for number in range(18)]
    # 7 common runs of 10 in all, and 0.7 * 10 is above 7 in floating point.
    assert find_duplicates([" ".join(words[:11]), " ".join(words[:8])], 0.7)


def test_a_duplicate_names_the_text_that_it_nearly_is() -> None:
    texts = [
        "what did apple earn in 2019",
        "what did msft earn in 2021",
        "What did Apple earn in 2019?!",
        "茅台的毛利率",
    ]
    (found,) = find_duplicates(texts)
    assert (found.place, found.of, found.similarity) == (2, 0, 1.0)
    with pytest.raises(InvalidField, match="threshold"):
        find_duplicates(texts, 0.0)


@pytest.mark.parametrize(
    ("operator", "text"),
    [
        ("slip", "What was the revenue of Microsoft in 2021?"),
        ("sound_alike", "茅台2021年的营业收入是多少？"),
        ("mispunctuate", "Apple, 2021: revenue of 1,234.5?"),
        ("change_width", "标普500（2021年）涨了多少？"),
        ("drop_case", "What did Apple Earn in 2021?"),
        ("look_alike", "茅台2021年的营业收入增幅是多少？"),
        ("look_alike", "return of the modern index in 2021"),
        ("speak", "What is the maximum of 2021?"),
        ("speak", "2021年茅台的净利润是多少？"),
        ("switch_language", "What was the net profit of Apple in 2021?"),
        ("switch_language", "苹果2021年的净利润是多少？"),
    ],
)
def test_noise_changes_the_text_and_never_a_number(operator: str, text: str) -> None:
    query = make_query(text, "f:1").model_copy(update={"difficulty": "easy"})
    noisy = add_noise(query, (operator,), 1.0, seed=3)
    assert noisy is not None
    assert noisy.text != text
    assert (noisy.clean, noisy.noise, noisy.parent, noisy.difficulty) == (text, (operator,), query.id, "easy")
    # As a reader sees them, whatever their width.
    digits = ["".join(str(int(letter)) for letter in one if letter.isdigit()) for one in (text, noisy.text)]
    assert digits[0] == digits[1]


MIXED = st.text(alphabet="abmrnwdcl ACM012345,.?% 茅台货贷未末净利润是多少什么为营收一五十千亿", max_size=40)
PHRASES = st.lists(
    st.sampled_from(
        ["What is", "net profit", "茅台", "Modern Corp", "1,234.5", "为什么", "毛利率", "2021年", "3M", "?"]
    ),
    max_size=8,
).map(" ".join)


@given(text=st.one_of(MIXED, PHRASES), rate=st.sampled_from([0.2, 0.6, 1.0]), seed=st.integers(0, 50))
def test_noise_can_be_undone_and_leaves_numbers_and_names(text: str, rate: float, seed: int) -> None:
    if not text.strip():
        return
    names = ("茅台", "Modern Corp", "3M")
    noisy = add_noise(make_query(text, "f:1"), tuple(OPERATORS), rate, seed, names)
    if noisy is None:
        return
    assert undo_changes(noisy.text, noisy.changes) == noisy.clean == text
    assert {change.operator for change in noisy.changes} == set(noisy.noise)
    # Width aside, which is another way to write the same digits.
    digits, kept = (
        "".join(re.findall(r"[\d〇零一二三四五六七八九十百千万亿两]", unicodedata.normalize("NFKC", one)))
        for one in (text, noisy.text)
    )
    assert digits == kept
    before, after = (Counter(match_phrases(names).findall(one)) for one in (text, noisy.text))
    assert before <= after


@pytest.mark.parametrize("operator", ["look_alike", "speak", "switch_language"])
def test_latin_names_need_no_list(operator: str) -> None:
    text = "What is the return of Warner and NVIDIA in Q3 in comparison with modern mills?"
    noisy = add_noise(make_query(text, "f:1"), (operator,), 1.0, 3)
    assert noisy is not None
    assert all(name in noisy.text for name in ("Warner", "NVIDIA", "Q3"))


def test_other_words_ask_the_same() -> None:
    def change(operator: str, text: str) -> str:
        noisy = add_noise(make_query(text, "f:1"), (operator,), 1.0, 1)
        assert noisy is not None
        return noisy.text

    assert change("speak", "What is the maximum?") == "What's the max?"
    assert change("speak", "为什么茅台的毛利率下跌？") == "为啥茅台的毛利率往下掉？"
    assert change("switch_language", "What was the net profit of Apple?") == "What was the 净利润 of Apple?"
    assert change("switch_language", "苹果的净利润和returns") == "苹果的net profit和returns"
    assert change("look_alike", "未来") == "末来"


def test_changes_of_another_text_are_refused() -> None:
    noisy = add_noise(make_query("What is the maximum?", "f:1"), ("speak",), 1.0, 1)
    assert noisy is not None
    with pytest.raises(InvalidField, match="does not stand at"):
        undo_changes("another text", noisy.changes)


def test_noise_follows_from_seed_and_rate() -> None:
    query = make_query("What was the quarterly revenue of Microsoft and Amazon?", "f:1")
    assert add_noise(query, tuple(OPERATORS), 0.5, 1) == add_noise(query, tuple(OPERATORS), 0.5, 1)
    assert add_noise(query, tuple(OPERATORS), 0.5, 1) != add_noise(query, tuple(OPERATORS), 0.5, 2)
    assert add_noise(query, tuple(OPERATORS), 0.0, 1) is None
    with pytest.raises(InvalidField, match="none of slip"):
        add_noise(query, ("blur",), 0.5, 1)
    with pytest.raises(InvalidField, match="rate"):
        add_noise(query, ("slip",), 1.5, 1)


def test_three_thousand_are_drawn_in_exact_shares() -> None:
    queries = [
        make_rated(number, name)
        for name, count in (("easy", 2000), ("medium", 950), ("hard", 300))
        for number in range(count)
    ]
    queries = [query.model_copy(update={"id": f"{query.difficulty}-{query.id}"}) for query in queries]
    sample = draw_sample(queries, 3_000, seed=7)
    assert Counter(query.difficulty for query in sample.queries) == {"easy": 1800, "medium": 900, "hard": 300}
    assert len({query.id for query in sample.queries}) == 3_000
    assert not sample.short
    assert draw_sample(queries[::-1], 3_000, seed=7) == sample
    assert draw_sample(queries, 3_000, seed=8) != sample


def test_too_few_of_a_kind_are_reported_and_not_replaced() -> None:
    queries = [make_rated(number, "easy") for number in range(100)] + [make_rated(200, "hard")]
    sample = draw_sample(queries, 100, seed=7)
    assert Counter(query.difficulty for query in sample.queries) == {"easy": 60, "hard": 1}
    assert sample.short == {"medium": 30, "hard": 9}
    with pytest.raises(InvalidField, match="rate it first"):
        draw_sample([*queries, SEEDS[0]], 10, seed=7)


@given(st.integers(1, 5_000))
def test_shares_add_up_and_are_off_by_less_than_one(total: int) -> None:
    found = divide(total, SHARES)
    assert sum(found.values()) == total
    assert all(abs(found[name] - total * share / 100) < 1 for name, share in SHARES.items())


async def test_a_label_that_is_none_is_asked_again_once_and_then_left_out(tmp_path: Path) -> None:
    # Wrong at first and right when told, against one that never is.
    def reply(request: policy.GenerateRequest) -> str:
        if "Apple" in request.messages[1].content and len(request.messages) == 2:
            return '{"rationale": "r", "difficulty": "trivial"}'
        if "Apple" in request.messages[1].content:
            assert "difficulty" in request.messages[3].content
            return 'Sorry: ```json\n{"rationale": "a figure", "difficulty": "easy"}\n```'
        return "no label at all"

    asker, peer = asker_of(reply)
    assert await rate_all(SEEDS, asker, tmp_path / "rated.jsonl") == 1
    (row,) = read_queries(tmp_path / "rated.jsonl")
    assert (row.id, row.difficulty, row.rationale) == (SEEDS[0].id, "easy", "a figure")
    assert len(peer.seen) == 4


async def test_a_killed_rating_goes_on_and_loses_and_doubles_nothing(tmp_path: Path) -> None:
    target = tmp_path / "rated.jsonl"
    queries = [make_query(f"question {number}", f"f:{number}") for number in range(20)]
    asker, peer = asker_of(lambda request: '{"rationale": "r", "difficulty": "hard"}')
    await rate_all(queries, asker, target)
    whole = target.read_bytes()
    # Somewhere within a line, as a kill leaves it.
    target.write_bytes(whole[: len(whole) // 2])
    rows = target.read_bytes().count(b"\n")
    await rate_all(queries, asker, target)
    assert sorted(query.id for query in read_queries(target)) == sorted(query.id for query in queries)
    assert len(peer.seen) == 40 - rows


def propose(request: policy.GenerateRequest) -> str:
    """Two questions with intents that are new each time, as far as the number of the request goes."""
    number = request.sampling.seed * 10 + ("茅台" in request.messages[1].content)
    made = [{"intent": f"intent {number}{part}", "question": f"What about matter {number}{part}?"} for part in "ab"]
    return json.dumps({"questions": made})


async def test_intents_grow_until_there_are_enough_with_their_provenance(tmp_path: Path) -> None:
    asker, _ = asker_of(propose)
    done = await expand(SEEDS, asker, tmp_path / "new.jsonl", each=2, intents=150)
    found = read_queries(tmp_path / "new.jsonl")
    assert done.intents >= 150
    assert len({query.intent for query in found}) == done.intents
    assert {query.parent for query in found} == {seed.id for seed in SEEDS}
    assert {(query.source, query.made_by) for query in found} == {("seeds:1", "m@0"), ("seeds:2", "m@0")}


async def test_a_killed_expansion_goes_on_behind_what_it_has(tmp_path: Path) -> None:
    target = tmp_path / "new.jsonl"
    asker, _ = asker_of(propose)
    await expand(SEEDS, asker, target, each=2, intents=12)
    before = target.read_text().splitlines()
    target.write_bytes(target.read_bytes() + b'{"id": "cut')
    done = await expand(SEEDS, asker, target, each=2, intents=20)
    assert target.read_text().splitlines()[: len(before)] == before
    assert len({query.id for query in read_queries(target)}) == done.queries == 20


async def test_a_model_without_further_intents_ends_the_expansion(tmp_path: Path) -> None:
    # One intent in two spellings of case would otherwise be asked for again for ever.
    always = json.dumps({"questions": [{"intent": "The Same", "question": "What is it?"}]})
    asker, peer = asker_of(lambda request: always)
    done = await expand(SEEDS, asker, tmp_path / "new.jsonl", each=2, intents=150)
    assert (done.intents, done.queries) == (1, 2)
    assert len(peer.seen) <= 6
    mute, _ = asker_of(lambda request: "nothing")
    assert (await expand(SEEDS, mute, tmp_path / "none.jsonl", each=2, intents=5)).dropped == 2


def test_a_journal_refuses_a_whole_line_that_is_no_row(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j.jsonl")
    journal.append([{"text": "a\u2028b"}, {"n": 2}])
    assert journal.read() == [{"text": "a\u2028b"}, {"n": 2}]
    (tmp_path / "j.jsonl").write_text('{"n": 1}\n[2]\n', encoding="utf-8")
    with pytest.raises(CorruptData, match=r"j.jsonl:2"):
        journal.read()


def test_the_commands_pass_files_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "seeds.txt").write_text(
        "What did Apple earn in the year 2019?\nwhat did apple earn in the year 2019\n茅台的毛利率是多少？\n",
        encoding="utf-8",
    )
    query_files.drop_duplicates(tmp_path / "seeds.txt", tmp_path / "once.jsonl", 0.8)
    query_files.add_noise_to_file(
        tmp_path / "once.jsonl", tmp_path / "noisy.jsonl", ["slip", "sound_alike"], 1.0, 7, only=False
    )
    found = read_queries(tmp_path / "noisy.jsonl")
    assert [bool(query.noise) for query in found] == [False, True, False, True]
    write_queries((query.model_copy(update={"difficulty": "easy"}) for query in found), tmp_path / "rated.jsonl")
    query_files.sample_file(tmp_path / "rated.jsonl", tmp_path / "sample.jsonl", 5, 7)
    shown = capsys.readouterr()
    assert "3 of 5 queries: 3 easy, 0 medium, 0 hard" in shown.out
    assert "too few: 2 medium of 2" in shown.err or "too few: 1 medium of 1" in shown.err
    with pytest.raises(typer.Exit):
        query_files.add_noise_to_file(tmp_path / "once.jsonl", tmp_path / "x.jsonl", ["slip"], 0.0, 7, only=False)
    assert not (tmp_path / "x.jsonl").exists()


def test_leaks_are_refused_with_the_rows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "train.txt").write_text("so, what did Apple earn in the year 2019?\n", encoding="utf-8")
    (tmp_path / "held.txt").write_text("What did Apple earn in the year 2019\nHow high was inflation in May 1980?\n")
    with pytest.raises(typer.Exit) as ended:
        query_files.check_leaks([tmp_path / "train.txt"], [tmp_path / "held.txt"], 0.7)
    assert ended.value.exit_code == 1
    shown = capsys.readouterr().out
    assert "held.txt q_" in shown
    assert "100% of it is in train.txt q_" in shown
    assert "1 of 2 queries leak" in shown
    (tmp_path / "other.txt").write_text("How high was inflation in the winter of 1947?\n", encoding="utf-8")
    query_files.check_leaks([tmp_path / "train.txt"], [tmp_path / "other.txt"], 0.7)
    assert "0 of 1 queries leak" in capsys.readouterr().out
