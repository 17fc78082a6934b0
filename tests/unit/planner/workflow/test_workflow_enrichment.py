"""The enrichment of a plan: three parts, each switchable and traced, never deeper than level 3."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fathom.api.datafetch.v1 import datafetch_pb2 as pb
from fathom.core.errors import DependencyFailed
from fathom.services.planner.answering.rendering.material import estimate_tokens
from fathom.services.planner.config import Config
from fathom.services.planner.model.stages import ASSOCIATION, FRAMEWORKS, INDICATORS, PARTS
from fathom.services.planner.workflow.enrichment import DEEPEST, LibraryEnricher, find_surfaces, format_tree

MARGIN = pb.Indicator(id="gross_margin", name="gross margin", name_zh="毛利率")


class Datafetch:
    """Knows one topic and one indicator."""

    def __init__(self, *, down: bool = False) -> None:
        self.down, self.frameworks, self.mentions = down, list[Any](), list[str]()

    async def list_frameworks(self, request: pb.ListFrameworksRequest, timeout_s: float) -> pb.ListFrameworksResponse:
        if self.down:
            raise DependencyFailed("datafetch", "gone")
        self.frameworks.append(request)
        node = pb.FrameworkNode(path=["P", "M", "gross margin"], name="gross margin", tool=pb.FRAMEWORK_TOOL_DATA)
        return pb.ListFrameworksResponse(frameworks=[pb.Framework(topic="company", name="Company", nodes=[node])])

    async def match_indicators(
        self, request: pb.MatchIndicatorsRequest, timeout_s: float
    ) -> pb.MatchIndicatorsResponse:
        if self.down:
            raise DependencyFailed("datafetch", "gone")
        self.mentions += request.mentions
        scores = {
            "gross margin": 1.0,
            "margin before overhead": 0.8,
            "Apple gross margin": 0.5,
            "flux": 0.3,
            "gross margin of a segment": 0.62,
            "margin of safety": 0.62,
        }
        return pb.MatchIndicatorsResponse(
            results=[
                pb.IndicatorMatches(indicators=[MARGIN], scores=[scores.get(text, 0.1)], surfaces=["gross margin"])
                for text in request.mentions
            ]
        )


def enricher(datafetch: Datafetch, parts: tuple[str, ...] = PARTS, budget: int = 500) -> LibraryEnricher:
    return LibraryEnricher(cast(Any, SimpleNamespace(datafetch=datafetch)), parts, budget)


async def test_a_question_gets_its_framework_and_the_indicators_near_it() -> None:
    datafetch = Datafetch()
    around = await enricher(datafetch).find_context("How profitable is Apple?", False)
    assert around.framework == "# company: Company\n    - gross margin [data]"
    assert around.indicators == ("gross margin",)
    assert [(one.part, one.found) for one in around.widening] == [
        (FRAMEWORKS, ("company",)), (INDICATORS, ("gross_margin",)),
    ]  # fmt: skip
    assert (datafetch.frameworks[0].level, datafetch.frameworks[0].limit) == (DEEPEST, 2)
    assert (await enricher(datafetch).find_context("苹果", True)).indicators == ("毛利率",)


async def test_what_a_model_calls_an_indicator_becomes_a_name_of_the_library_or_nothing() -> None:
    texts = ["Apple gross margin"]
    meant = await enricher(Datafetch()).look_up(["gross margin", "margin before overhead", "flux"], texts, False)
    assert meant.known == {"gross margin": "gross_margin", "margin before overhead": "gross_margin", "flux": ""}
    assert meant.canonical == {"gross margin": "gross margin", "margin before overhead": "gross margin"}
    assert meant.inside == {"Apple gross margin": ("gross margin",)}
    assert [(one.part, one.found) for one in meant.widening] == [(ASSOCIATION, ("gross_margin",))]


async def test_a_longer_name_that_holds_one_of_the_librarys_is_known_by_it() -> None:
    meant = await enricher(Datafetch()).look_up(["gross margin of a segment", "margin of safety"], [], False)
    assert meant.known == {"gross margin of a segment": "gross_margin", "margin of safety": ""}


@pytest.mark.parametrize("off", PARTS)
async def test_each_part_can_be_switched_off(off: str) -> None:
    datafetch = Datafetch()
    found = enricher(datafetch, tuple(part for part in PARTS if part != off))
    around = await found.find_context("How profitable is Apple?", False)
    meant = await found.look_up(["flux"], ["Apple gross margin"], False)
    traced = {one.part for one in (*around.widening, *meant.widening)}
    assert traced == set(PARTS) - {off}
    assert bool(around.framework) is (off != FRAMEWORKS)
    assert bool(around.indicators) is (off != INDICATORS)
    assert ("flux" in meant.known) is (off != ASSOCIATION)
    assert meant.inside["Apple gross margin"] == ("gross margin",), "the lint needs it, whatever is find_candidates"


async def test_a_library_out_of_reach_is_told_and_narrows_the_plan() -> None:
    found = enricher(Datafetch(down=True))
    around = await found.find_context("How profitable is Apple?", False)
    assert (around.framework, around.indicators) == ("", ())
    assert ["gone" in one.error for one in around.widening] == [True, True]
    meant = await found.look_up(["gross margin"], ["Apple"], False)
    assert meant.known == {}
    assert "gone" in meant.widening[0].error


def test_an_unknown_part_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="magic"):
        Config(workflow_widening=frozenset({"magic"}))


@pytest.mark.parametrize(
    ("text", "surfaces", "wanted"),
    [
        ("Apple gross margin 2020", ["gross margin", "net margin"], ("gross margin",)),
        ("Apple's Gross  Margins", ["gross margin"], ("gross margin",)),
        ("marginal costs", ["margin"], ()),
        ("supergross margin", ["gross margin"], ()),
        ("贵州茅台毛利率", ["毛利率", "净利率"], ("毛利率",)),
        ("anything", ["", "a"], ()),
    ],
)
def test_names_are_found_where_they_stand_as_words(text: str, surfaces: list[str], wanted: tuple[str, ...]) -> None:
    assert find_surfaces(text, surfaces) == wanted


NODES = st.lists(
    st.builds(
        lambda path, zh: pb.FrameworkNode(path=path, name=path[-1], name_zh=zh, tool=pb.FRAMEWORK_TOOL_DATA),
        st.lists(st.sampled_from(["a", "b", "deep"]), min_size=1, max_size=7),
        st.sampled_from(["", "层"]),
    ),
    max_size=60,
)


@given(NODES, st.booleans(), st.integers(min_value=20, max_value=300))
def test_no_tree_comes_deeper_than_level_three_or_beyond_its_budget(
    nodes: list[pb.FrameworkNode], chinese: bool, budget: int
) -> None:
    shown = format_tree([pb.Framework(topic="t", name="T", nodes=nodes)], chinese, budget)
    assert all(len(line) - len(line.lstrip()) <= 2 * (DEEPEST - 1) for line in shown.splitlines())
    fitting = [node for node in nodes if len(node.path) <= DEEPEST]
    assert len(shown.splitlines()) <= 1 + len(fitting) + 1
    assert estimate_tokens(shown) <= budget + 2
