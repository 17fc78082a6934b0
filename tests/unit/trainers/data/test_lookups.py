"""The lookup task and its warm start: what can be found, what is taught, and that nothing can be remembered."""

from __future__ import annotations

import pytest
import torch

from fathom.core.errors import InvalidField
from fathom.domain.chat.tags import information_block
from fathom.trainers.learners import tiny
from tests.support.training.lessons import render_lesson, warm_start
from tests.support.training.lookups import (
    build_guess,
    build_search,
    find_documents,
    format_documents,
    lessons,
    lookups,
    vocabulary,
)


def test_a_query_finds_its_fact_first() -> None:
    facts = lookups()
    assert len({fact.id for fact in facts}) == 48
    for fact in facts:
        assert find_documents(fact.query, facts)[0] == fact
        assert fact.value not in fact.task.question
    assert find_documents("nothing", facts) == []
    assert format_documents(facts[:1]) == f"Doc 1(Title: price amber) price amber is {facts[0].value} ."


def test_the_vocabulary_has_every_word_that_is_shown() -> None:
    words, facts = set(vocabulary()), lookups(3)
    for fact in facts:
        text = information_block(format_documents(find_documents(fact.query, facts)))
        for word in (*text.split(), *fact.task.question.split(), *fact.query.split()):
            assert word in words


def test_lessons_ask_only_for_the_facts_that_they_may() -> None:
    given = lessons(["price-amber", "yield-delta"], 400, 5)
    questions = {messages[1]["content"] for messages in given}
    assert questions == {"what is price of amber", "what is yield of delta"}
    taught = [messages for messages in given if messages[2].get("given")]
    acting = [messages for messages in given if not messages[2].get("given")]
    searching = sum(len(messages) == 5 for messages in acting) / len(acting)
    assert len(acting) == 200
    assert 0.08 < searching < 0.25
    answers = {m[-1]["content"] for m in taught if m[1]["content"] == "what is price of amber"}
    assert len(answers) > 5, "values differ from lesson to lesson"


def test_masks_are_one_on_what_is_taught() -> None:
    tokenizer = tiny.build_tokenizer(vocabulary())
    facts = lookups()
    row = render_lesson(tokenizer, "all", build_search(facts[0], facts))
    taught = tokenizer.decode([token for token, kept in zip(row.ids, row.mask, strict=True) if kept])
    assert taught == f"<search> price amber </search> <|end|> <answer> {facts[0].value} </answer> <|end|>"
    begun = render_lesson(tokenizer, "begun", build_search(facts[0], facts, "<search>"))
    assert (sum(begun.mask), begun.start) == (sum(row.mask) - 1, row.start + 1), "to search is not taught, how is"
    with pytest.raises(InvalidField, match="given"):
        render_lesson(tokenizer, "wrong", build_search(facts[0], facts, "<answer>"))
    with pytest.raises(InvalidField, match="assistant"):
        render_lesson(tokenizer, "wrong", build_guess(facts[0], "1")[:2])
    tokenizer.chat_template = "{{ messages | length }} {% for m in messages %}{{ m['content'] }} {% endfor %}"
    with pytest.raises(InvalidField, match="chat_template"):
        render_lesson(tokenizer, "wrong", build_search(facts[0], facts))


def test_a_warm_start_teaches_what_is_imitated() -> None:
    torch.set_num_threads(1)
    words, facts = vocabulary(), lookups()
    tokenizer, model = tiny.build_tokenizer(words), tiny.build_model(words, 32, 1, 3, 128)
    lesson = [build_guess(facts[0], "4"), build_search(facts[1], facts)]
    first = warm_start(model, tokenizer, lesson, steps=1, seed=3)
    assert warm_start(model, tokenizer, lesson, steps=60, seed=3) < first / 4
