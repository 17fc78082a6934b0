"""Tags of a question's words: the marked questions, the head made from them, and what the parser does with tags."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fathom.core.errors import CorruptData
from fathom.services.datafetch.engine import Engine
from fathom.services.datafetch.parser.mention import Mention, MentionKind
from fathom.services.datafetch.parser.question import Understanding, crop, find_phrases
from fathom.services.datafetch.parser.rewording import Meanings
from fathom.services.datafetch.parser.tagging.markup import FILLER, KINDS, load_kinds, load_marked, parse_line
from fathom.services.datafetch.parser.tagging.tagger import Tag, find_path, load_head
from fathom.services.datafetch.parser.tagging.units import describe_reading, find_units
from fathom.services.datafetch.query.model import Query
from fathom.services.datafetch.tagger_training import hash_marked

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_marks_give_back_the_question_and_its_labels() -> None:
    marked = parse_line("zh [entity:辉瑞][period:2022年]跌了吗 [calc.max:50-day high]")
    assert marked.text == "辉瑞2022年跌了吗 50-day high"
    units = find_units(marked.text)
    shown = [(marked.text[slice(*unit)], label) for unit, label in zip(units, marked.label_units(units), strict=True)]
    assert shown[:4] == [("辉", "entity"), ("瑞", "entity"), ("2022", "period"), ("年", "period")]
    assert shown[4:6] == [("跌", FILLER), ("了", FILLER)]
    assert [label for _, label in shown[-4:]] == ["calc.max"] * 4


@pytest.mark.parametrize("line", ["[verb:fell]", "[entity:Apple fell", "Apple] fell", "[calc.sink:fell]"])
async def test_a_mark_that_is_none_is_named_with_its_file(line: str) -> None:
    with pytest.raises(CorruptData, match="annotated"):
        parse_line(line, "annotated.txt")


async def test_the_head_is_made_from_the_marked_questions() -> None:
    head = load_head()
    assert head.version == hash_marked(load_marked()), "run python -m fathom.services.datafetch.tagger_training"
    assert set(load_kinds()) <= set(KINDS)


async def test_a_damaged_head_is_named(tmp_path: Path) -> None:
    path = tmp_path / "head.json"
    path.write_text('{"labels": ["filler"]}', encoding="utf-8")
    with pytest.raises(CorruptData, match=r"head\.json"):
        load_head(path)


async def test_neighbours_decide_between_labels_that_are_alike() -> None:
    logits = np.array([[2.0, 0.0], [0.0, 0.1], [2.0, 0.0]])
    assert find_path(logits, np.zeros((2, 2))) == [0, 1, 0]
    assert find_path(logits, np.array([[1.0, -1.0], [-1.0, 1.0]])) == [0, 0, 0]


async def test_a_reading_names_measures_and_only_the_kind_of_names() -> None:
    mentions = [Mention(MentionKind.ENTITY, 0, 5, "AAPL"), Mention(MentionKind.MEASURE, 6, 10, "return")]
    assert [describe_reading(span, mentions) for span in ((0, 5), (6, 10), (11, 12))] == [
        "ENTITY",
        "MEASURE:return",
        "",
    ]


def make_tag(label: str, text: str, words: str, chance: float = 0.9) -> Tag:
    """Return the tag of some words of a text, sure from one half on."""
    start = text.find(words)
    units = tuple((start + first, start + last) for first, last in find_units(words))
    return Tag(label, units, (chance,) * len(units), 0.5)


def make_meanings(*tags: Tag) -> Meanings:
    """Return a finder of meanings with these tags, which knows no other likeness."""
    return Meanings(lambda words: [], lambda words: [], tag=lambda text, mentions: tags)


async def test_a_sure_filler_is_accounted_for(engine: Engine) -> None:
    question = "how far did Apple finally fall in 2022"
    assert [item.subject for item in engine.reader.read(question, None).missing] == ["finally"]
    seen = engine.reader.read(question, None, make_meanings(make_tag(FILLER, question, "finally")))
    assert not seen.missing
    assert not seen.unread
    # Nothing was read as something else, so nothing is said.
    assert not seen.reworded


async def test_a_word_of_a_calculation_is_its_term(engine: Engine) -> None:
    question = "how deep did Apple sink in 2022"
    seen = engine.reader.read(question, None, make_meanings(make_tag("calc.drawdown", question, "sink")))
    assert [(item.surface, item.id, item.how) for item in seen.reworded] == [("sink", "maximum drawdown", "tag")]
    assert [(question[item.start : item.end], item.value) for item in seen.mentions if item.kind == "MEASURE"] == [
        ("sink", "max_drawdown")
    ]


async def test_a_change_that_spoils_the_others_is_left_out(engine: Engine) -> None:
    question = "how far did Apple finally fall as goods of Mexico in 2022"
    tags = [make_tag(FILLER, question, "finally"), make_tag("measure", question, "goods")]
    likes = [("imports from Mexico", 0.9), ("exports", 0.1)]
    seen = engine.reader.read(question, None, Meanings(lambda w: [], lambda w: likes, tag=lambda text, mentions: tags))
    unread = [question[slice(*span)] for span in seen.unread]
    assert "goods" in unread
    assert "finally" not in unread


async def test_a_word_beside_the_word_of_its_calculation_adds_nothing(engine: Engine) -> None:
    question = "苹果2020年最高冲到多少"
    meanings = make_meanings(make_tag("calc.max", question, "最高冲到"))
    seen = engine.reader.read(question, None, meanings)
    assert not seen.unread
    assert not seen.reworded


async def test_an_unsure_tag_and_a_kind_without_a_word_leave_the_question_as_it_is(engine: Engine) -> None:
    question = "how deep did Apple sink in 2022"
    for label, chance in (("calc.drawdown", 0.4), ("calc.judge", 0.9)):
        meanings = make_meanings(make_tag(label, question, "sink", chance))
        assert [question[slice(*span)] for span in engine.reader.read(question, None, meanings).unread] == ["sink"]


@pytest.mark.parametrize(
    ("question", "word"), [("how far did Apple fall after Halloween", "after"), ("波音……不，苹果2020年的波动率", "不")]
)
async def test_a_word_that_decides_or_denies_is_never_left_out(engine: Engine, question: str, word: str) -> None:
    meanings = make_meanings(make_tag(FILLER, question, word))
    assert word in [question[slice(*span)] for span in engine.reader.read(question, None, meanings).unread]


async def test_one_word_beside_a_known_name_is_no_name() -> None:
    text = "unemployment rate (index)"
    mentions = [Mention(MentionKind.INDICATOR, 0, 17, "unrate"), Mention(MentionKind.UNKNOWN, 19, 24, "", 0.0)]
    alone = [make_tag("measure", text, "index")]
    whole = [make_tag("measure", text, "unemployment rate (index")]
    seen = Understanding(Query(indicators=("unrate",)), mentions=mentions)
    assert find_phrases(text, seen, alone) == []
    assert find_phrases(text, seen, whole) == [(0, 24)]


async def test_a_name_is_looked_up_without_its_verb() -> None:
    text = "jobless rate running from 2014"
    unread = [Mention(MentionKind.UNKNOWN, 0, 7, "", 0.0), Mention(MentionKind.UNKNOWN, 13, 20, "", 0.0)]
    tags = [make_tag("measure", text, "jobless rate", 0.3), make_tag(FILLER, text, "running")]
    assert find_phrases(text, Understanding(mentions=unread), tags) == [(0, 12), (0, 7)]
    assert find_phrases(text, Understanding(mentions=unread), []) == [(0, 7), (13, 20)]
    assert crop((0, 20), [(0, 12)]) == (0, 12)
    assert crop((0, 20), []) == (0, 20)
