"""Search-R1's tags."""

import pytest

from fathom.domain.chat.tags import Action, cut_after_action, information_block, parse_action


@pytest.mark.parametrize(
    ("text", "action"),
    [
        ("<search> a b </search>", Action("search", "a b")),
        ("<think>x</think><answer>Paris</answer>", Action("answer", "Paris")),
        ("<answer>1</answer><search>q</search>", Action("answer", "1")),
        ("<search>q</answer>", Action(None)),
        ("<search>line\nline</search>", Action("search", "line\nline")),
        ("<search>one</search><search>two</search>", Action("search", "one")),
        ("no action", Action(None)),
        ("<answer></answer>", Action("answer", "")),
        ("<search>unclosed", Action(None)),
    ],
)
def test_the_first_well_formed_action_counts(text: str, action: Action) -> None:
    assert parse_action(text) == action


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("a<search>q</search>b", "a<search>q</search>"),
        ("a<answer>x</answer>b", "a<answer>x</answer>"),
        ("<answer>x</answer> <search>q</search> b", "<answer>x</answer> <search>q</search>"),
        ("plain", "plain"),
    ],
)
def test_a_search_tag_cuts_before_an_answer_tag(text: str, kept: str) -> None:
    assert cut_after_action(text) == kept


def test_information_keeps_its_closing_tag_when_it_is_shortened() -> None:
    assert information_block("  Doc 1  ") == "\n\n<information>Doc 1</information>\n\n"
    assert information_block("abcdef", 3) == "\n\n<information>abc</information>\n\n"
