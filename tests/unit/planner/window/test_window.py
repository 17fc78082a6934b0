"""Compaction of long runs: when it happens, what goes, what stays, and that it can be resumed and recalled."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest
from prometheus_client import CollectorRegistry

from fathom.api.planner.v1 import trajectory_pb2 as pb
from fathom.core.errors import InvalidField
from fathom.domain.chat.messages import Message, Role
from fathom.services.planner.model.compaction import StepPolicy, WindowSettings
from fathom.services.planner.model.episode import ToolStatus
from fathom.services.planner.proto.episode import step_from_proto, step_to_proto, trajectory_to_proto
from fathom.services.planner.proto.window import compaction_from_proto, compaction_to_proto, settings_from_proto
from fathom.services.planner.window.metrics import WindowMetrics
from fathom.services.planner.window.quantities import find_missing, find_numbers
from tests.support.views import find_split_pairs
from tests.unit.planner.window.long_runs import Line, Run, ScriptedWriter, mix_lines, play, task

ACTIVE = [StepPolicy.DELETE, StepPolicy.SUMMARIZE, StepPolicy.HYBRID]
SETTINGS = WindowSettings()


def join_view(run: Run, position: int = -1) -> str:
    return "\n".join(message.content for message in run.model.views[position].messages)


def code(*bodies: str) -> list[Line]:
    return [("python", {"code": body}) for body in bodies]


async def fit_settings(policy: StepPolicy, *, room: int, target: int) -> WindowSettings:
    """Return settings that compact ``room`` tokens above the opening, down to ``target`` tokens above it.

    The opening (prompt, tools and question) is measured, so that a longer prompt leaves as much room for steps.
    """
    [opening, *_] = (await play([("finish", {"answer": "Done."})], WindowSettings(StepPolicy.OFF))).model.prompts
    return WindowSettings(policy, math.ceil((opening + room) / SETTINGS.trigger), opening + target)


@pytest.mark.parametrize("policy", ACTIVE)
async def test_compacts_at_seventy_percent_of_the_real_request_and_never_before(policy: StepPolicy) -> None:
    # Forty rounds of tables, cells and documents are several windows of 24,000 tokens.
    run = await play(mix_lines(40), replace(SETTINGS, policy=policy))
    assert len(run.episode.steps) == 40
    compacted = dict(run.notes.compactions)
    assert compacted
    for index, (view, real) in enumerate(zip(run.model.views, run.model.prompts, strict=True)):
        assert view.tokens == real, "the measure is what the engine counts"
        assert real < 0.70 * 24_000
        if index in compacted:
            assert compacted[index].tokens_before >= 0.70 * 24_000
            # After a compaction the measure is taken anew, not estimated from what was dropped.
            assert compacted[index].tokens_after == real
    assert run.episode.max_context_tokens == max(run.model.prompts)


async def test_off_is_off() -> None:
    run = await play(mix_lines(40), replace(SETTINGS, policy=StepPolicy.OFF))
    # The same script without a policy: it would not have fitted.
    assert max(run.model.prompts) > 24_000
    assert not run.notes.compactions


@pytest.mark.parametrize("policy", ACTIVE)
async def test_failed_attempts_go_and_the_code_that_ran_stays(policy: StepPolicy) -> None:
    """Four failing edits and a success leave the success alone, newest steps or not."""
    attempts = code(*(f"bad({number})" for number in range(4)), "good(4)")
    # Measured: room for four failures and a success, and a target that the success alone fits into.
    settings = await fit_settings(policy, room=1_575, target=1_298)
    run = await play([*attempts, ("finish", {"answer": "Done."})], settings)
    assert [index for index, _ in run.notes.compactions] == [5]
    text = join_view(run)
    assert "bad(" not in text
    assert "Traceback" not in text
    assert "good(4)" in text
    assert run.episode.steps[4].results[0].content in text


async def test_failures_that_nothing_has_mended_stay() -> None:
    # None of the eight runs, so the last ones are all that the model knows of what is wrong.
    attempts = code(*(f"bad({number})" for number in range(8)))
    settings = await fit_settings(StepPolicy.DELETE, room=1_225, target=966)
    run = await play([*attempts, ("finish", {"answer": "I could not."})], settings)
    assert run.notes.compactions
    assert "bad(7)" in join_view(run)
    assert run.episode.steps[7].results[0].content in join_view(run)


async def test_repetitions_leave_one_and_cited_material_stays() -> None:
    same: Line = ("data", {"question": "prices"})
    settings = await fit_settings(StepPolicy.DELETE, room=3_395, target=3_027)
    # The second repetition is refused; the first is a copy; a thought cites the original.
    script: list[Line] = [same, same, ("think", {"content": "As [1] shows."}), same, *code("a", "b", "c"), same]
    run = await play([*script, ("finish", {"answer": "Done."})], settings)
    first = run.notes.compactions[0][1]
    sources = {item.source for item in first.shown}
    said = [index for index, message in enumerate(run.episode.messages) if '"question": "prices"' in message.content]
    assert said[0] in sources, "its material is cited"
    assert said[2] not in sources, "it was refused, being the third of its kind"
    run = await play([same, same, *code("a", "b", "c", "d"), ("finish", {"answer": "Done."})], settings)
    sources = {item.source for item in run.notes.compactions[0][1].shown}
    said = [index for index, message in enumerate(run.episode.messages) if '"question": "prices"' in message.content]
    assert (said[0] in sources, said[1] in sources) == (False, True), "the copy stands for both"
    assert '"material": 1' in join_view(run) or '"material":1' in join_view(run)


async def test_the_last_five_results_stay_and_older_ones_become_one_line() -> None:
    run = await play(mix_lines(24), replace(SETTINGS, policy=StepPolicy.DELETE))
    index, compaction = run.notes.compactions[0]
    results = [message for message in run.model.views[index].messages if message.role is Role.TOOL]
    originals = {result.content for step in run.episode.steps for result in step.results}
    # Results in full are byte for byte those of the record.
    assert all(message.content in originals for message in results[-5:])
    old = [message for message in results[:-5] if message.content not in originals]
    assert old
    for message in old:
        line = json.loads(message.content)
        assert "\n" not in message.content
        again = run.episode.steps[line["recall"]["round"] - 1].results[0]
        # The line says which tool it was and how many characters are gone.
        assert (line["tool"], line["left_out"]) == (again.call.name, len(again.content))
        if again.call.name == "data":
            assert line["sheets"][0]["columns"] == [{"name": "x"}]
        assert line["recall"]["round"] - 1 in compaction.dropped_steps


@pytest.mark.parametrize("policy", [StepPolicy.SUMMARIZE, StepPolicy.HYBRID])
async def test_a_summary_keeps_what_the_row_names_and_every_number(policy: StepPolicy) -> None:
    """With a writer that is out of reach, the extract and the list of numbers do it alone."""
    todo: Line = ("todo", {"items": ["compare margins", "say what is missing"]})
    # The todo list and the numbers of tables must survive a summary, for the answer is made of them.
    script: list[Line] = [todo, *mix_lines(40, seed=3)[1:]]
    run = await play(script, await fit_settings(policy, room=8_295, target=5_045))
    index, compaction = run.notes.compactions[-1]
    views = run.model.views[index].messages
    notes = next(message.content for message in views if message.tool_call_id == "notes")
    for part in ("How did it go?", "compare margins", "say what is missing"):
        assert part in notes
    for material in run.episode.material[:3]:
        if material.variable:
            assert f"{material.variable} [{material.number}]" in notes
            assert "x: f8 USD" in notes
    # Not one number was left out for want of room.
    assert not compaction.numbers_left_out
    text = "\n".join(message.content for message in views)
    gone = [
        result.content
        for step in run.episode.steps[:index]
        for result in step.results
        if result.status is ToolStatus.OK
        and result.content not in text
        # Gone from the view altogether, with not even a line that recalls it.
        and f'"recall":{{"round":{step.index + 1}}}' not in text
    ]
    assert gone
    for content in gone:
        assert not find_missing(find_numbers(content.partition("\n")[2]), text)


async def test_a_writer_is_used_checked_and_given_up_after_three_failures() -> None:
    script = mix_lines(50, seed=5)
    settings = await fit_settings(StepPolicy.SUMMARIZE, room=6_895, target=3_845)
    extracted = await play(script, settings)
    index = extracted.notes.compactions[0][0]
    results = [result for step in extracted.episode.steps[:6] for result in step.results]
    number = next(found[5] for found in (find_numbers(result.content) for result in results) if len(found) > 30)
    good = f"It was {number}."
    # The first summary invents a number, which no result has; the second has one of theirs.
    run = await play(script, settings, writer=ScriptedWriter(["It was 123456.789.", good]))
    first = run.notes.compactions[0]
    assert first[0] == index
    assert (first[1].written, first[1].failures) == (True, 1)
    assert first[1].usage.completion_tokens == 20, "both attempts are accounted for"
    assert good in join_view(run, index)
    assert "123456.789" not in join_view(run, index)

    # Empty, without a number, and no reply at all.
    failing = ScriptedWriter(["", "no number at all", None, good, good])
    run = await play(script, settings, writer=failing)
    assert len(run.notes.compactions) >= 3
    assert len(failing.asked) == 3, "the third failure is the last question"
    assert [compaction.written for _, compaction in run.notes.compactions[:2]] == [False, False]
    assert [asked[-1].content[:13] for asked in failing.asked[:2]] == ["Question: How", "That was empt"]


@pytest.mark.parametrize("policy", ACTIVE)
async def test_resuming_anywhere_shows_the_same_views_byte_for_byte(policy: StepPolicy) -> None:
    script = mix_lines(36)
    settings = replace(SETTINGS, policy=policy)
    whole = await play(script, settings)
    compacted = whole.notes.compactions[0][0]
    # Before, at and behind the compaction, and at the last round.
    for known in (compacted - 1, compacted, compacted + 1, 35):
        message = [s for s in whole.episode.steps[:known]]
        resumed = await play(script, settings, known=message)
        assert [view.messages for view in resumed.model.views] == [view.messages for view in whole.model.views[known:]]
        assert [list(v.token_ids) for v in resumed.model.views] == [
            list(v.token_ids) for v in whole.model.views[known:]
        ]
        assert resumed.episode.hash() == whole.episode.hash()


async def test_a_worker_that_dies_after_sampling_leaves_its_compaction_to_the_next() -> None:
    script = mix_lines(36)
    whole = await play(script, SETTINGS)
    compacted = whole.notes.compactions[0][0]
    steps = whole.episode.steps
    # As the log has it: sampled, and with no result yet.
    noted = step_from_proto(step_to_proto(replace(steps[compacted], results=()), ""))
    resumed = await play(script, SETTINGS, known=steps[:compacted], cut_short=noted)
    assert [view.messages for view in resumed.model.views] == [v.messages for v in whole.model.views[compacted + 1 :]]
    assert resumed.episode.hash() == whole.episode.hash()


@pytest.mark.parametrize("policy", ACTIVE)
async def test_segments_hold_each_sampled_id_once(policy: StepPolicy) -> None:
    run = await play(mix_lines(40), replace(SETTINGS, policy=policy))
    message = trajectory_to_proto(run.episode, None, pb.PROTOCOL_RESEARCH, 0, ())  # type: ignore[arg-type]
    assert len(message.segments) == len(run.notes.compactions) + 1
    assert [part.first_step for part in message.segments][1:] == [index for index, _ in run.notes.compactions]
    # Steps count from 0.
    assert message.segments[-1].last_step == 39
    sampled = [token for step in run.episode.steps for token in step.completion.sampled_token_ids]
    trained = []
    for part in message.segments:
        assert len(part.token_ids) == len(part.mask) == len(part.log_probs)
        trained += [token for token, bit in zip(part.token_ids, part.mask, strict=True) if bit]
        # The scripted model's log-probability, and nothing where nothing was sampled.
        assert all((value == -0.5) == bool(bit) for value, bit in zip(part.log_probs, part.mask, strict=True))
    assert trained == sampled
    assert list(message.token_ids) == list(message.segments[-1].token_ids)
    assert message.max_context_tokens == max(run.model.prompts)
    # Six rounds fit into the window, so there is one segment, which needs no list.
    short = await play(mix_lines(6), SETTINGS)
    assert not trajectory_to_proto(short.episode, None, pb.PROTOCOL_RESEARCH, 0, ()).segments  # type: ignore[arg-type]


async def test_a_compaction_travels_by_proto() -> None:
    run = await play(mix_lines(40), replace(SETTINGS, policy=StepPolicy.SUMMARIZE))
    for _, compaction in run.notes.compactions:
        assert (
            compaction_from_proto(pb.Compaction.FromString(compaction_to_proto(compaction).SerializeToString()))
            == compaction
        )


async def test_long_history_is_cut_and_the_question_is_not() -> None:
    history = tuple(
        message
        for turn in range(6)
        for message in (
            Message(Role.USER, f"Question {turn}?"),
            # Six turns of some 3,600 words each are more than the window.
            Message(Role.ASSISTANT, f"Answer {turn}: " + "so it is. " * 1_200),
        )
    )
    question = "And now, what about 2019?"
    script: list[Line] = [("search", {"query": "2019"}), ("finish", {"answer": "Done."})]
    run = await play(script, SETTINGS, of=task(question, history))
    assert [index for index, _ in run.notes.compactions] == [0]
    messages = run.model.views[0].messages
    assert messages[-1] == run.episode.opening[-1]
    assert question in messages[-1].content
    assert messages[0].role is Role.SYSTEM
    assert messages[-2] == history[-1], "the last turn stays in full"
    assert run.model.prompts[0] < 0.70 * 24_000
    assert [part.first_step for part in run.episode.segments] == [0]


@pytest.mark.parametrize("policy", ACTIVE)
async def test_one_result_that_is_larger_than_the_window_is_cut_and_can_be_recalled(policy: StepPolicy) -> None:
    run = await play([*code("flood"), ("finish", {"answer": "Done."})], replace(SETTINGS, policy=policy))
    assert [index for index, _ in run.notes.compactions] == [1]
    assert run.model.prompts[-1] < 0.70 * 24_000
    assert "(the whole: recall round 1)" in join_view(run)


async def test_what_was_dropped_can_be_recalled_as_its_line_says() -> None:
    script = mix_lines(24)
    run = await play(script, replace(SETTINGS, policy=StepPolicy.DELETE))
    # A cell in the old part, whose result is many numbers.
    dropped = next(i for i in run.notes.compactions[0][1].dropped_steps if script[i][0] == "python" and i > 3)
    assert f'"recall":{{"round":{dropped + 1}}}' in join_view(run)
    number = find_numbers(run.episode.steps[dropped].results[0].content)[7]
    assert number not in join_view(run)
    # The same script, which asks for the round before it ends.
    script[-1:] = [("recall", {"round": dropped + 1}), script[-1]]
    run = await play(script, replace(SETTINGS, policy=StepPolicy.DELETE))
    assert number in join_view(run)


async def test_metrics_tell_sizes_and_savings() -> None:
    registry = CollectorRegistry()
    run = await play(
        mix_lines(40), replace(SETTINGS, policy=StepPolicy.DELETE), metrics=WindowMetrics.register(registry)
    )
    value = registry.get_sample_value
    labels = {"policy": "delete"}
    assert value("fathom_planner_context_tokens_count") == 40
    assert value("fathom_planner_max_context_tokens_sum") == max(run.model.prompts)
    assert value("fathom_planner_compactions_total", labels) == len(run.notes.compactions)
    saved = sum(compaction.tokens_before - compaction.tokens_after for _, compaction in run.notes.compactions)
    assert value("fathom_planner_compacted_tokens_total", labels) == saved


def test_a_request_may_choose_a_policy_and_a_smaller_window() -> None:
    chosen = settings_from_proto(pb.Window(policy=pb.STEP_POLICY_DELETE, tokens=12_000), SETTINGS)
    assert (chosen.policy, chosen.tokens, chosen.soft_tokens) == (StepPolicy.DELETE, 12_000, 8_000)
    assert settings_from_proto(pb.Window(), SETTINGS) == SETTINGS
    for tokens in (-1, 10, 24_001):
        with pytest.raises(InvalidField, match=r"window\.tokens"):
            settings_from_proto(pb.Window(tokens=tokens), SETTINGS)
    with pytest.raises(InvalidField, match=r"window\.policy"):
        settings_from_proto(pb.Window(policy=9), SETTINGS)  # type: ignore[arg-type]
    assert SETTINGS.within(8_192).trigger_tokens == pytest.approx(5_734.4)


async def test_a_run_still_ends_well_under_every_policy() -> None:
    for policy in StepPolicy:
        run = await play(mix_lines(30), replace(SETTINGS, policy=policy))
        assert run.episode.steps[-1].completion.tool_calls[0].name == "finish"
        for view in run.model.views:
            assert not find_split_pairs(view.messages, view.messages), "no result without its call"
