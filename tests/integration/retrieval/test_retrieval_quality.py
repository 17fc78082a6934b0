"""Public labelled sets: what words alone must reach, and that both together lose nothing against the better one."""

from __future__ import annotations

from pathlib import Path

import pytest

from fathom.services.retrieval.config import Config, Recipe
from fathom.services.retrieval.tools.datasets import SETS, load_named
from fathom.services.retrieval.tools.evaluation import evaluate

ROOT = Path(__file__).resolve().parents[3]
SHARED = next((up / "shared" / "data" for up in (ROOT.parent, ROOT.parent.parent) if (up / "shared").is_dir()), None)
# Somewhat below what was measured (docs/measurements.md), in percent of nDCG@10.
BARS = {"cmrc2018": 97.0, "finna_zh_news": 93.5, "qed_nq": 92.0, "tatqa_plain": 66.0, "mtrag": 78.0}


@pytest.fixture(scope="module")
def data() -> Path:
    if SHARED is None:
        pytest.skip("the shared evaluation data are not beside this repository")
    return SHARED


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(BARS))
def test_words_reach_their_bar(data: Path, tmp_path: Path, name: str) -> None:
    if not (data / SETS[name].corpus).exists():
        pytest.skip(f"{name} is not among the shared data")
    documents, queries, _ = load_named(name, data)
    result = evaluate(documents, queries, Recipe(), Config(), tmp_path)
    assert 100 * result.get_figure("bm25") >= BARS[name]


@pytest.mark.slow
def test_both_together_lose_nothing(data: Path, tmp_path: Path) -> None:
    """A sample of qed_nq: 120 real questions, their paragraphs and 60 others."""
    documents, queries, encoder = load_named("qed_nq", data)
    sample = queries[:120]
    wanted = {ident for query in sample for ident in query.relevant}
    others = [document for document in documents if document.id not in wanted][:60]
    kept = [document for document in documents if document.id in wanted] + others
    config = Config(model_dir=ROOT / ".fathom" / "models")
    result = evaluate(kept, sample, Recipe(encoder=encoder), config, tmp_path)
    single = max(result.get_figure("bm25"), result.get_figure("dense"))
    # Half a point: of 120 questions one may fall by a place.
    assert 100 * result.get_figure("hybrid") >= 100 * single - 0.5
    assert 100 * result.get_figure("dense") >= 97.0
