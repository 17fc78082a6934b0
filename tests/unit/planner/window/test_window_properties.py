"""Test what holds for every cut of every run: pairs stay together, order stays, the protected set is never dropped."""

from __future__ import annotations

import json
from collections import Counter

from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

from fathom.domain.chat.messages import Message, Role, ToolCall
from fathom.services.planner.model.compaction import StepPolicy, WindowSettings
from fathom.services.planner.model.episode import ToolStatus
from fathom.services.planner.window.attempts import make_call_key
from fathom.services.planner.window.quantities import find_missing, find_numbers
from tests.support.views import find_split_pairs
from tests.unit.planner.window.long_runs import Line, play, task

PROSE = "I think that I am done. "


def python_calls(*codes: str) -> str:
    return "\n".join(
        f'<tool_call>{{"name": "python", "arguments": {{"code": "{code}"}}}}</tool_call>' for code in codes
    )


# Its last compaction keeps notes of an earlier one, which left out numbers of tables.
KEPT_NOTES: list[Line | str] = [
    ("search", {"query": "topic 1"}),
    ("python", {"wrong": 1}),
    ("data", {"question": "prices 0"}),
    ("python", {"wrong": 1}),
    ("finish", {"answer": " "}),
    ("nope", {}),
    ("todo", {"items": ["item 6"]}),
    ("nope", {}),
    ("data", {"question": "prices 2"}),
    ("data", {"question": "prices 0"}),
    ("finish", {"answer": " "}),
    python_calls("good(1)", "good(1)", "good(1)"),
    ("python", {"code": "bad(2)"}),
    python_calls("good(1)", "bad(2)", "good(2)"),
    ("search", {"query": "topic 0"}),
    ("python", {"code": "bad(3)"}),
    ("todo", {"items": ["item 2"]}),
    ("think", {"content": "As [3] shows. " * 9}),
    ("python", {"code": "bad(3)"}),
    ("todo", {"items": ["item 8"]}),
    ("todo", {"items": ["item 0"]}),
    ("think", {"content": "As [6] shows. " * 9}),
]

# The third copy of one list is refused, and its result shows no list.
REFUSED_PLAN: list[Line | str] = [
    ("data", {"question": "prices 1"}),
    ("todo", {"items": ["item 0"]}),
    ("python", {"code": "bad(0)"}),
    ("todo", {"items": ["item 0"]}),
    ("todo", {"items": ["item 0"]}),
    ("python", {"wrong": 1}),
]

several = st.builds(
    lambda codes: python_calls(*codes),
    st.lists(st.sampled_from(["bad(1)", "good(1)", "good(2)", "bad(2)"]), min_size=2, max_size=3),
)
lines = st.one_of(
    st.builds(lambda n: ("data", {"question": f"prices {n}"}), st.integers(0, 4)),
    st.builds(lambda n: ("python", {"code": f"good({n})"}), st.integers(0, 9)),
    st.builds(lambda n: ("python", {"code": f"bad({n})"}), st.integers(0, 3)),
    st.builds(lambda n: ("search", {"query": f"topic {n}"}), st.integers(0, 9)),
    st.builds(lambda n: ("think", {"content": f"As [{n}] shows. " * 9}), st.integers(1, 9)),
    st.builds(lambda n: ("todo", {"items": [f"item {n}"]}), st.integers(0, 9)),
    st.just(("python", {"wrong": 1})),
    st.just(("nope", {})),
    st.just(("finish", {"answer": " "})),
    several,
)
turns = st.lists(st.integers(1, 900), max_size=3)


def with_prose(script: list[Line | str], every: int) -> list[Line | str]:
    """Insert prose now and then, never twice in a row: a second one would be the answer."""
    return [part for index, line in enumerate(script) for part in ([PROSE, line] if index % every == 2 else [line])]


@settings(max_examples=40, deadline=None, phases=(Phase.explicit, Phase.reuse, Phase.generate))
@given(
    st.lists(lines, min_size=6, max_size=22),
    st.sampled_from([StepPolicy.DELETE, StepPolicy.SUMMARIZE, StepPolicy.HYBRID]),
    st.integers(5_000, 13_000),
    turns,
    st.integers(4, 9),
)
@example(KEPT_NOTES, StepPolicy.HYBRID, 5_152, [396, 809, 561], 6)
@example(REFUSED_PLAN, StepPolicy.SUMMARIZE, 6_197, [], 9)
@example([("nope", {})] * 6, StepPolicy.SUMMARIZE, 8_239, [312], 9)
async def test_every_view_of_every_run(
    script: list[Line | str], policy: StepPolicy, tokens: int, answers: list[int], every: int
) -> None:
    history = tuple(
        message
        for number, length in enumerate(answers)
        for message in (Message(Role.USER, f"Before {number}?"), Message(Role.ASSISTANT, "word " * length))
    )
    bounds = WindowSettings(policy, tokens, tokens * 2 // 3)
    # Twice: the first end is refused where a script has queried no source.
    ends: list[Line | str] = [("finish", {"answer": "Done."})] * 2
    run = await play([*with_prose(script, every), *ends], bounds, of=task(history=history))
    episode = run.episode
    assert len(episode.steps) >= len(script)
    known = list(episode.opening)
    for view, step in zip(run.model.views, episode.steps, strict=True):
        everything = (*known, *step.new_messages) if step.index else episode.opening
        assert not find_split_pairs(view.messages, everything)
        assert view.messages[0] == episode.opening[0], "the system prompt"
        assert episode.opening[-1] in view.messages, "the question"
        if step.compaction is not None:
            check(view.messages, step.index, episode, bounds)
        known = [*everything, Message(Role.ASSISTANT, step.completion.text, step.completion.tool_calls)]


def check(messages: tuple[Message, ...], index: int, episode, bounds: WindowSettings) -> None:  # type: ignore[no-untyped-def]
    step = episode.steps[index]
    compaction = step.compaction
    assert compaction.tokens_before >= bounds.trigger_tokens
    assert compaction.tokens_after < compaction.tokens_before
    sources = [item.source for item in compaction.shown if item.source >= 0]
    assert sources == sorted(set(sources)), "in order, each once"
    text = "\n".join(message.content for message in messages)
    said = [message.content for message in messages if message.role is Role.ASSISTANT]
    if index:
        assert episode.steps[index - 1].completion.text in said, "the newest step"
    # The plan, the sheets with their columns, and what was cited.
    before = [result for past in episode.steps[:index] for result in past.results]
    # A list that was sent twice already is refused: that result holds no plan.
    plans = [
        json.loads(result.content)["items"]
        for result in before
        if result.call.name == "todo" and result.status is ToolStatus.OK
    ]
    if plans:
        assert plans[-1][0]["text"] in text
    for result in before:
        for material in result.material:
            if material.variable:
                assert material.variable in text
                assert material.item.columns[1].name in text
    notes = [message for message in messages if message.tool_call_id == "notes"]
    if notes and bounds.policy is not StepPolicy.DELETE and not compaction.numbers_left_out:
        dropped = [past for past in episode.steps[:index] if past.completion.text not in said]
        repeated = [key for key, times in Counter(make_call_key(result.call) for result in before).items() if times > 1]
        for past in dropped:
            for result in past.results:
                # What was repeated is shown by its newest copy, in full or as one line.
                if result.status in ("ok", "empty") and make_call_key(result.call) not in repeated:
                    assert not find_missing(find_numbers(result.content.partition("\n")[2]), text)


calls = st.lists(st.integers(0, 3).map(lambda n: ToolCall(f"c{n}", "t", "{}")), max_size=3, unique_by=lambda c: c.id)


@given(st.lists(calls, max_size=5))
def test_the_validator_finds_every_split_pair(rounds: list[list[ToolCall]]) -> None:
    whole: list[Message] = []
    for made in rounds:
        whole.append(Message(Role.ASSISTANT, "", tuple(made)))
        whole += [Message(Role.TOOL, "r", tool_call_id=call.id) for call in made]
    assert not find_split_pairs(whole, whole)
    for position, message in enumerate(whole):
        rest = [*whole[:position], *whole[position + 1 :]]
        if message.role is Role.TOOL:
            assert find_split_pairs(rest, whole) == [f"the call {(message.tool_call_id, '{}')!r} lost its result"]
        elif message.tool_calls and position == 0:
            assert find_split_pairs(rest, whole)[0] == f"the result of {message.tool_calls[0].id!r} has no call"
