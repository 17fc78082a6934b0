"""The catalogue of prompts as the contract lists it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fathom.core.errors import InvalidField
from fathom.services.planner.config import Config
from fathom.services.planner.prompts.catalogue import load_catalogue
from fathom.services.planner.prompts.listing import list_prompts
from fathom.services.planner.prompts.selection import SMALL_WINDOW, Prompts


def test_every_prompt_is_listed_once_with_its_text_and_one_version_of_each_variant_is_in_use() -> None:
    catalogue = load_catalogue()
    found = list_prompts(Prompts.of(catalogue, Config())).prompts
    assert {one.id for one in found} == {prompt.id for prompt in catalogue}
    assert len(found) == len({one.id for one in found})
    for one in found:
        assert (one.body, one.sha256) == (catalogue.get(one.id).body, catalogue.get(one.id).sha256)
        known = catalogue.get(one.id).header
        assert (one.few_shot, json.loads(one.output_schema or "null")) == (known.few_shot, known.output_schema)
    variants = {(one.stage, one.name, one.language) for one in found}
    assert sorted((one.stage, one.name, one.language) for one in found if one.in_use) == sorted(variants)


def test_the_version_that_the_settings_name_is_the_one_in_use() -> None:
    catalogue = load_catalogue()
    newest = [
        one.version
        for one in list_prompts(Prompts.of(catalogue, Config()), "research").prompts
        if one.in_use and not one.name
    ]
    named = list_prompts(Prompts.of(catalogue, Config(prompt_versions={"research": 2})), "research").prompts
    assert [one.version for one in named if one.in_use and not one.name] == [2, 2]
    assert min(newest) > 2
    assert {one.stage for one in named} == {"research"}


@pytest.mark.parametrize("window_tokens", [0, SMALL_WINDOW - 1])
def test_runs_take_the_version_that_is_listed_as_in_use_also_of_the_short_form(
    tmp_path: Path, window_tokens: int
) -> None:
    newer = load_catalogue().get("answer.short.v1.en")
    (tmp_path / "answer.short.v2.en.md").write_text(
        f"---\nname: short\nstage: answer\nversion: 2\nlanguage: en\noutput: {newer.header.output}\n---\n{newer.body}\n"
    )
    prompts = Prompts.of(load_catalogue(tmp_path), Config(answer_form="short", prompt_versions={"answer": 1}))
    listed = list_prompts(prompts, "answer").prompts
    assert [one.version for one in listed if one.in_use and (one.name, one.language) == ("short", "en")] == [1]
    assert prompts.choose("How did Apple do?", window_tokens=window_tokens)["answer"] == "answer.short.v1.en"


def test_an_unknown_stage_is_refused_by_name() -> None:
    with pytest.raises(InvalidField, match="stage"):
        list_prompts(Prompts.of(load_catalogue(), Config()), "none")
