"""Search-R1's reward: exact match, answers, printing."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from fathom.core.errors import InvalidField
from fathom.trainers.batch import DataProto
from fathom.trainers.search_r1 import RewardManager, compute_score_em, em_check, extract_solution
from fathom.trainers.search_r1.tokens import Tokens
from tests.unit.trainers.search_r1.scripts import byte_tokenizer

TOKENIZER = byte_tokenizer()
INSTRUCTION = (
    "Answer the given question. You must reason inside <think> and </think>. If you find no further external knowledge"
    " needed, you can directly provide the answer inside <answer> and </answer>, without detailed illustrations. For"
    " example, <answer> Beijing </answer>. Question: what is the capital of France?\n"
)
TARGET = {"target": ["Paris", "City of Paris"]}


def batch(parts: list[list[tuple[str, int]]], **fields: Any) -> DataProto:
    """Rows of (text, sampled) parts behind the instruction."""
    rows = [[(token, sampled) for text, sampled in row for token in TOKENIZER.encode(text)] for row in parts]
    ids = Tokens.from_rows([[token for token, _ in row] for row in rows], TOKENIZER.pad_token_id)
    mask = Tokens.from_rows([[sampled for _, sampled in row] for row in rows], 0).ids
    prompts = torch.tensor([TOKENIZER.encode(INSTRUCTION)] * len(rows))
    return DataProto.from_dict(
        {
            "prompts": prompts, "responses": ids.ids, "response_mask": mask,
            "attention_mask": torch.cat([torch.ones_like(prompts), ids.mask], dim=1), **fields,
        },
        {"data_source": ["nq"] * len(rows), "reward_model": [{"style": "rule", "ground_truth": TARGET}] * len(rows)},
    )  # fmt: skip


def test_the_score_stands_on_the_last_token_of_the_model() -> None:
    """Also when an observation follows, or the response was cut inside one."""
    shown: list[str] = []
    manager = RewardManager(TOKENIZER, 1, 0.1, show=shown.append)
    data = batch([
        [("<search>x</search>", 1), ("<information>y</information>", 0), ("<answer>Paris</answer>", 1)],
        [("<answer>Rome</answer>", 1)],
        [("no answer", 1), ("<information>cut", 0)],
    ])  # fmt: skip
    scores = manager(data)
    expected = torch.zeros_like(scores)
    expected[0, 18 + 28 + 22 - 1], expected[1, 20] = 1.0, 0.1
    assert torch.equal(scores, expected)
    assert (scores.shape, scores.dtype) == (data.tensor("responses").shape, torch.float32)
    given = torch.ones(scores.shape)
    assert torch.equal(manager(data.with_tensors(rm_scores=given)), given)


def test_prints_at_most_num_examine_per_source() -> None:
    """Over the life of the manager, for each data source."""
    shown: list[str] = []
    manager = RewardManager(TOKENIZER, 2, show=shown.append)
    data = batch([[("<answer>Paris</answer>", 1)]] * 3)
    data.non_tensor_batch["data_source"][2] = "hotpotqa"
    manager(data)
    manager(data)
    assert [line.split("]")[0] for line in shown] == ["[nq", "[nq", "[hotpotqa", "[hotpotqa"]
    assert "score 1" in shown[0]
    silent: list[str] = []
    RewardManager(TOKENIZER, 0, show=silent.append)(data)
    assert not silent
    with pytest.raises(InvalidField, match="format_score"):
        RewardManager(TOKENIZER, 0, 2.0)


def test_an_answer_in_an_observation_is_nobodys_answer() -> None:
    """The hint after an invalid action names the tags: the original takes what stands between them for an answer."""
    hint = "put the final answer between <answer> and </answer>. <answer>Paris</answer>"
    data = batch([[("say", 1), (hint, 0)]])
    assert RewardManager(TOKENIZER, 0)(data).sum() == 0
    assert RewardManager(TOKENIZER, 0, parity_answer_extraction=True)(data).sum() == 1


@pytest.mark.parametrize(
    ("answer", "score"),
    [
        ("Paris", 1.0), ("  the PARIS! ", 1.0), ("a city   of paris.", 1.0), ("Paris, France", 0.2), ("", 0.2),
        ("city of\nParis", 1.0), ("Ｐａｒｉｓ。", 1.0),
    ],
)  # fmt: skip
def test_exact_match_after_normalisation(answer: str, score: float) -> None:
    """Match gives score, another answer format_score; case, articles, punctuation and blanks do not count."""
    text = f"<think>t</think><answer>{answer}</answer>"
    assert compute_score_em(text, TARGET, format_score=0.2) == score
    assert compute_score_em(text, TARGET, "strict", 0.2, 3.0) == (3.0 if score == 1.0 else 0.2)


def test_no_answer_gives_nothing_and_targets_may_be_one_text() -> None:
    """None gives 0, not format_score; a target may be a string; a missing one is named."""
    assert compute_score_em("Paris", TARGET, format_score=0.5) == 0.0
    assert compute_score_em("<answer>Paris", TARGET, format_score=0.5) == 0.0
    assert compute_score_em("<answer>Paris</answer>", {"target": "paris"}) == 1.0
    with pytest.raises(InvalidField, match=r"ground_truth\.target"):
        compute_score_em("<answer>Paris</answer>", {"answers": []})
    guesses = "".join(f"<answer>guess {number}</answer>" for number in range(10)) + "<answer>Paris</answer>"
    assert compute_score_em(guesses, TARGET) == 0.25


def test_the_instructions_example_is_no_answer() -> None:
    """Prompt and response with the example only: None; with an answer: the last; parity: the original's defect."""
    chat = f"<|im_start|>user\n{INSTRUCTION}<|im_end|>\n<|im_start|>assistant\n"
    for prompt in (INSTRUCTION, chat):
        assert extract_solution(prompt) is None
        assert extract_solution(prompt + "I do not know") is None
        assert extract_solution(prompt + "<answer> a </answer> no, <answer> b </answer>") == "b"
    assert extract_solution("<answer>\nonly\n</answer>") == "only"
    assert extract_solution(INSTRUCTION + "I do not know", parity_answer_extraction=True) == "Beijing"
    assert extract_solution("<answer>only</answer>", parity_answer_extraction=True) is None
    assert compute_score_em(INSTRUCTION, {"target": ["Beijing"]}) == 0.0
    assert compute_score_em(INSTRUCTION, {"target": ["Beijing"]}, parity_answer_extraction=True) == 1.0


@pytest.mark.parametrize(
    ("method", "answer", "target", "right"),
    [
        ("strict", "营收增长。", "营收增长", True),
        ("strict", "12%", "0.12", False),
        ("sub_em", "it is Paris, of course", "Paris", True),
        ("sub_em", "Rome", "Paris", False),
        ("number", "about 3.2亿", "320 million", True),
        ("number", "3.5亿", "320 million", False),
        ("tolerant", "12.0%", "0.12", True),
        ("tolerant", "the Paris", "Paris", True),
    ],
)
def test_exact_match_and_its_options(method: str, answer: str, target: str, right: bool) -> None:
    """EM is the default; sub-EM, Chinese-aware and number-tolerant matching are options."""
    assert em_check(answer, [target], method) is right
    assert compute_score_em(f"<answer>{answer}</answer>", {"target": [target]}, method) == float(right)
    with pytest.raises(InvalidField, match="method"):
        em_check(answer, target, "nearly")
