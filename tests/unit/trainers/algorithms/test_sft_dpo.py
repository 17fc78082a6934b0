"""SFT and DPO on exported rows: masks from spans, denominators of the whole batch, exact resume, and that they learn."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch.nn.functional import cross_entropy
from typer.testing import CliRunner

from fathom.cli.main import app
from fathom.core.errors import Conflict, InvalidField
from fathom.trainers.algorithms.context import TrainingDiverged
from fathom.trainers.algorithms.dpo import DpoTrainer, Preferences, answer_sums
from fathom.trainers.algorithms.sft import Imitation, ImitationTrainer, SftTrainer
from fathom.trainers.checkpoints import StoreCheckpoints
from fathom.trainers.config.imitation import ImitationConfig
from fathom.trainers.config.tree import TrainConfig
from fathom.trainers.data.sequences import Preference, Row, batch, pair_batch, read_pairs, read_rows
from fathom.trainers.learners import tiny
from fathom.trainers.learners.forward import response_tokens
from fathom.trainers.learners.networks import Placement, PolicyNetwork
from fathom.transport.store import open_store

WORDS = [f"w{n}" for n in range(12)]
SIZE = len(tiny.SPECIAL) + len(WORDS)
LONG = Row("long", (2, 5, 9, 10, 3, 6, 11, 12, 13, 3), (0, 0, 0, 1, 1, 0, 0, 1, 1, 1))
SHORT = Row("short", (2, 8, 3), (0, 1, 1))


pytestmark = pytest.mark.usefixtures("one_thread")


def model(seed: int = 0) -> Any:
    return tiny.build_model(WORDS, 16, 1, seed, 64)


def network_of(language_model: Any) -> PolicyNetwork:
    return PolicyNetwork(language_model, Placement())


def settings(tmp_path: Path, **sections: dict[str, Any]) -> TrainConfig:
    base: dict[str, dict[str, Any]] = {
        "data": {"train_batch_size": 4},
        "actor": {"ppo_micro_batch_size_per_gpu": 4, "optim": {"lr": 0.01}},
        "trainer": {"output": str(tmp_path), "total_epochs": 2, "save_freq": 0, "val_before_train": False},
    }
    return TrainConfig.model_validate({name: base.get(name, {}) | sections.get(name, {}) for name in base | sections})


def rows(count: int) -> list[Row]:
    """Row n: a prompt that names n, an answer that repeats it twice."""
    return [Row(f"r{n}", (2, 8 + n % 12, 6, 8 + n % 12, 8 + n % 12, 3), (0, 0, 0, 1, 1, 1)) for n in range(count)]


def test_a_batch_is_padded_on_both_sides_and_never_packed() -> None:
    data = batch([LONG, SHORT], 0)
    assert data.batch["prompts"].tolist() == [[2, 5, 9], [0, 0, 2]]
    assert data.batch["responses"].tolist() == [[10, 3, 6, 11, 12, 13, 3], [8, 3, 0, 0, 0, 0, 0]]
    assert data.batch["response_mask"].tolist() == [[1, 1, 0, 0, 1, 1, 1], [1, 1, 0, 0, 0, 0, 0]]
    assert data.batch["attention_mask"].tolist() == [[1] * 10, [0, 0, 1, 1, 1, 0, 0, 0, 0, 0]]
    assert data.batch["position_ids"][1].tolist()[:5] == [0, 0, 0, 1, 2]
    assert data.array("uid").tolist() == ["long", "short"]


def test_padding_changes_no_log_probability() -> None:
    network = model().eval()
    together = response_tokens(network, batch([LONG, SHORT], 0), 1.0).log_probs
    alone = response_tokens(network, batch([SHORT], 0), 1.0).log_probs
    assert torch.allclose(together[1, :2], alone[0], atol=1e-5)


def open_checkpoints(folder: Path, keep: int = 3) -> StoreCheckpoints:
    return StoreCheckpoints(open_store(folder.as_uri()), folder.as_uri(), "run", keep)


def test_the_loss_is_the_mean_over_target_tokens_alone(tmp_path: Path) -> None:
    """By hand: cross entropy of each row alone, at the places to learn."""
    network = model().eval()
    sums, count = 0.0, 0
    for row in (LONG, SHORT):
        # A logit at a place is about the next token, so ids and masks are read one further on.
        logits = network(input_ids=torch.tensor([row.ids])).logits[0, :-1]
        losses = cross_entropy(logits, torch.tensor(row.ids[1:]), reduction="none")
        sums += float((losses.detach() * torch.tensor(row.mask[1:])).sum())
        count += sum(row.mask)
    data = batch([LONG, SHORT], 0)
    value, metrics = Imitation(settings(tmp_path), 0).loss(network_of(network), data, torch.arange(2))
    assert float(value.detach()) == pytest.approx(sums / count, rel=1e-5)
    assert metrics["loss"] == pytest.approx(sums / count, rel=1e-5)


def gradient(objective: Any, network: Any, data: Any) -> torch.Tensor:
    network.zero_grad()
    learner = network_of(network)
    for part in objective.parts(learner, data):
        objective.loss(learner, data, part)[0].backward()
    return torch.cat([parameter.grad.flatten() for parameter in network.parameters() if parameter.grad is not None])


@pytest.mark.parametrize("micro", [1, 2, 3])
@pytest.mark.parametrize("dynamic", [False, True])
def test_a_gradient_is_the_same_however_a_batch_is_cut(tmp_path: Path, micro: int, dynamic: bool) -> None:
    network = model().train()
    data = batch([LONG, SHORT, *rows(3)], 0)
    whole = gradient(Imitation(settings(tmp_path, actor={"ppo_micro_batch_size_per_gpu": 8}), 0), network, data)
    cut = settings(
        tmp_path,
        actor={
            "ppo_micro_batch_size_per_gpu": micro,
            # Eight tokens are one short row: passes of one, two and three rows, or as many as fit.
            "use_dynamic_bsz": dynamic,
            "ppo_max_token_len_per_gpu": 8 * micro,
        },
    )
    assert torch.allclose(gradient(Imitation(cut, 0), network, data), whole, atol=1e-6)


def test_packed_rows_and_pairs_have_the_gradient_of_padded_ones(tmp_path: Path) -> None:
    """Both take the setting of the policy's learner: ``actor.use_remove_padding``."""
    packed = settings(tmp_path, actor={"use_remove_padding": True})
    found = []
    padded = settings(tmp_path, actor={"use_remove_padding": False}).actor
    for batching in (padded, packed.actor):
        network, reference = (PolicyNetwork(model(seed).train(), Placement(), batching) for seed in (1, 2))
        taught, compared = batch([LONG, SHORT, *rows(3)], 0), pair_batch(preferences(3), 0)
        slopes = []
        assert network.packed == (batching is not padded)
        for objective, data in ((Imitation(packed, 0), taught), (Preferences(packed, 0, reference), compared)):
            network.zero_grad()
            objective.loss(network, data, torch.arange(len(data)))[0].backward()
            slopes.append(torch.cat([p.grad.flatten() for p in network.parameters() if p.grad is not None]))
        found.append(torch.cat(slopes))
    assert torch.allclose(found[0], found[1], atol=1e-6)
    assert float(found[0].abs().max()) > 1e-3


def preferences(count: int) -> list[Preference]:
    """After n, n is better than n + 1."""
    found = []
    for n in range(count):
        prompt, yes, no = (2, 8 + n % 12, 6), (8 + n % 12, 3), (8 + (n + 1) % 12, 8 + n % 12, 3)
        sides = [Row(f"p{n}", (*prompt, *side), (*[0] * 3, *[1] * len(side))) for side in (yes, no)]
        found.append(Preference(f"p{n}", *sides))
    return found


# Rejected answers are longer than chosen ones, so that sums over tokens and padding both matter.
@pytest.mark.parametrize("kind", ["sigmoid", "ipo", "hinge"])
def test_dpo_gradients_are_the_same_however_pairs_are_cut(tmp_path: Path, kind: str) -> None:
    network, reference = model(1).train(), model(2)
    data = pair_batch(preferences(5), 0)
    imitation = {"loss_type": kind, "sft_weight": 0.1}
    found = [
        gradient(
            Preferences(
                settings(tmp_path, imitation=imitation, actor={"ppo_micro_batch_size_per_gpu": micro}),
                0,
                network_of(reference),
            ),
            network,
            data,
        )
        for micro in (2, 4, 64)
    ]
    # 64 holds every pair at once: the gradient to compare with.
    assert torch.allclose(found[0], found[2], atol=1e-6)
    assert torch.allclose(found[1], found[2], atol=1e-6)


def test_dpo_by_hand(tmp_path: Path) -> None:
    network, reference = model(1).eval(), model(2).eval()
    data = pair_batch(preferences(2), 0)
    objective = Preferences(settings(tmp_path), 0, network_of(reference))
    with torch.no_grad():
        own, other = answer_sums(network_of(network), data)[0], answer_sums(network_of(reference), data)[0]
        value, metrics = objective.loss(network_of(network), data, torch.arange(4))
    # Rows 0 and 1 are the chosen ones, 2 and 3 their rejected partners.
    differences = [(own[n] - other[n]) - (own[n + 2] - other[n + 2]) for n in range(2)]
    # beta 0.1: the loss of a pair is softplus of minus beta times how much the margin has grown.
    wanted = sum(math.log1p(math.exp(-0.1 * float(difference))) for difference in differences) / 2
    assert float(value) == pytest.approx(wanted, rel=1e-5)
    assert metrics["rewards/accuracy"] == sum(float(difference) > 0 for difference in differences) / 2
    with_imitation = Preferences(settings(tmp_path, imitation={"sft_weight": 1.0}), 0, network_of(reference))
    imitated = with_imitation.loss(network_of(network), data, torch.arange(4))[0]
    # The chosen answers have two tokens each.
    assert float(imitated.detach()) == pytest.approx(wanted - float(own[0] + own[1]) / 2 / 2, rel=1e-5)
    start = Preferences(settings(tmp_path), 0, network_of(network)).loss(network_of(network), data, torch.arange(4))[0]
    assert float(start.detach()) == pytest.approx(math.log(2), rel=1e-5), "the model is its own reference"


def test_the_reference_is_asked_once_per_pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    reference, network = network_of(model(2)), model(1)
    forward = reference.forward

    def count_forward(*args: Any, **options: Any) -> Any:
        asked.append(1)
        return forward(*args, **options)

    monkeypatch.setattr(reference, "forward", count_forward)
    objective = Preferences(settings(tmp_path), 0, reference)
    data = pair_batch(preferences(2), 0)
    first = objective.loss(network_of(network), data, torch.arange(4))[0]
    second = objective.loss(network_of(network), data, torch.arange(4))[0]
    resumed = Preferences(settings(tmp_path), 0, reference)
    # Through JSON, as a checkpoint stores it.
    resumed.load_state(json.loads(json.dumps(objective.state())))
    third = resumed.loss(network_of(network), data, torch.arange(4))[0]
    assert len(asked) == 1, "nor after a resume, whose batches may be others"
    assert first.tolist() == second.tolist() == third.tolist()


def train(tmp_path: Path, network: Any, data: Sequence[Row], **sections: dict[str, Any]) -> dict[str, float]:
    config = settings(tmp_path, **sections)
    return ImitationTrainer(config, network, Imitation(config, 0), data, rows(12)).fit()


def test_sft_learns_and_what_is_no_target_is_not_learned(tmp_path: Path) -> None:
    network = model()
    before = copy.deepcopy(network).eval()
    # Padded: the model itself is called below, which packing has given an attention of packed rows.
    learner = {"optim": {"lr": 0.02}, "use_remove_padding": False}
    metrics = train(tmp_path, network, rows(12), trainer={"total_epochs": 30}, actor=learner)
    assert metrics["val/loss"] < 0.1
    assert metrics["val/sure"] > 0.9
    prompt = torch.tensor([[2, 8, 6]])
    own, old = (found(input_ids=prompt).logits[0, :2].log_softmax(-1) for found in (network.eval(), before))
    target = torch.tensor([8, 6])
    learned, was = (float(x.detach()[torch.arange(2), target].sum()) for x in (own, old))
    # A mask that is off by one would teach the prompt too; one nat is noise of the shared weights.
    assert learned < was + 1.0, "prompts are given, not imitated"


def test_dpo_prefers_what_was_chosen(tmp_path: Path) -> None:
    network = model()
    config = settings(tmp_path, trainer={"total_epochs": 20}, actor={"optim": {"lr": 0.005}})
    reference = copy.deepcopy(network)
    kept = {name: value.clone() for name, value in reference.state_dict().items()}
    pairs = preferences(8)
    metrics = ImitationTrainer(config, network, Preferences(config, 0, network_of(reference)), pairs, pairs).fit()
    assert metrics["val/rewards/accuracy"] == 1.0
    assert metrics["val/rewards/margin"] > 0.5
    # Half of the pairs by chance gives log 2.
    assert metrics["val/loss"] < math.log(2) - 0.1
    assert all(torch.equal(value, kept[name]) for name, value in reference.state_dict().items())


@pytest.mark.parametrize("stop", [2, 3, 5])
def test_a_resumed_training_is_the_same_to_the_bit(tmp_path: Path, stop: int) -> None:
    """Three steps to an epoch: also at its end, and in the next one."""
    straight, resumed = model(), model()
    train(tmp_path / "a", straight, rows(12))
    halves = {"output": str(tmp_path / "b"), "total_epochs": 2, "save_freq": 1}
    config = settings(tmp_path, trainer=halves | {"total_training_steps": stop})
    # The schedule is constant, so that a shorter plan changes no step.
    store = open_checkpoints(tmp_path / "b")
    ImitationTrainer(config, model(), Imitation(config, 0), rows(12), checkpoints=store).fit()
    config = settings(tmp_path, trainer=halves)
    loop = ImitationTrainer(config, resumed, Imitation(config, 0), rows(12), checkpoints=store)
    loop.fit()
    assert loop.done == loop.total_steps == 6
    for name, value in straight.state_dict().items():
        assert torch.equal(value, resumed.state_dict()[name]), name
    # Three are kept.
    files = (tmp_path / "b" / "checkpoints" / "run").rglob("manifest.json~")
    assert sorted(file.parent.name for file in files) == [f"{step:08d}" for step in (4, 5, 6)], "older ones are gone"


def test_a_checkpoint_of_other_rows_is_refused(tmp_path: Path) -> None:
    config = settings(tmp_path)
    ImitationTrainer(config, model(), Imitation(config, 0), rows(8), checkpoints=open_checkpoints(tmp_path)).fit()
    # Positions in another list of rows would mean other rows.
    with pytest.raises(Conflict, match="rows"):
        ImitationTrainer(config, model(), Imitation(config, 0), rows(12), checkpoints=open_checkpoints(tmp_path)).fit()


def test_a_loss_that_is_not_finite_stops_with_its_step(tmp_path: Path) -> None:
    network = model()
    with torch.no_grad():
        # A weight that has gone bad before the first step.
        next(network.parameters()).fill_(float("nan"))
    with pytest.raises(TrainingDiverged, match="step 1"):
        train(tmp_path, network, rows(8))


def put(path: Path, *lines: dict[str, Any]) -> Path:
    path.write_text("\n".join(json.dumps(line) for line in lines))
    return path


GOOD = {"id": "a", "token_ids": [2, 5, 6], "loss_mask": [0, 1, 1]}


@pytest.mark.parametrize(
    ("line", "field"),
    [
        ({"token_ids": None}, "x.jsonl[1].token_ids"),
        ({"token_ids": [1.5, 2, 3]}, "x.jsonl[1].token_ids"),
        ({"loss_mask": [0, 0, 0]}, "x.jsonl[1].loss_mask"),
        ({"loss_mask": [1, 1, 1]}, "x.jsonl[1].loss_mask"),
        ({"loss_mask": [0, 1]}, "x.jsonl[1].loss_mask"),
        # Nine tokens of at most eight.
        ({"token_ids": [2] * 9, "loss_mask": [0] + [1] * 8}, "x.jsonl[1].token_ids"),
    ],
)
def test_a_row_that_teaches_nothing_is_named(tmp_path: Path, line: dict[str, Any], field: str) -> None:
    path = put(tmp_path / "x.jsonl", GOOD, GOOD | line)
    with pytest.raises(InvalidField) as caught:
        read_rows([path], ImitationConfig(max_length=8))
    assert caught.value.field == field


def test_long_rows_may_be_dropped_and_none_is_cut(tmp_path: Path) -> None:
    path = put(tmp_path / "x.jsonl", GOOD, GOOD | {"token_ids": [2] * 9, "loss_mask": [0] + [1] * 8})
    (row,) = read_rows([path], ImitationConfig(max_length=8, truncation="drop"))
    assert row.ids == (2, 5, 6)
    with pytest.raises(InvalidField, match="hold no row"):
        read_rows([], ImitationConfig())


def test_pairs_share_their_prompt(tmp_path: Path) -> None:
    pair = {"id": "p", "prompt_ids": [2, 5], "chosen_ids": [6, 3], "rejected_ids": [7]}
    first, second = read_pairs([put(tmp_path / "x.jsonl", pair, pair)], ImitationConfig())
    # The same id twice, as an export of two comparisons of one episode has it.
    assert first.id != second.id, "two pairs of one episode are two"
    assert (first.chosen.ids, first.chosen.mask) == ((2, 5, 6, 3), (0, 0, 1, 1))
    assert (first.rejected.ids, first.rejected.start) == ((2, 5, 7), 2)
    with pytest.raises(InvalidField, match=r"y.jsonl\[0\].chosen_ids"):
        read_pairs([put(tmp_path / "y.jsonl", pair | {"chosen_ids": "6"})], ImitationConfig())


def test_settings_that_contradict_each_other() -> None:
    # Hinge has no probability that could be smoothed.
    with pytest.raises(ValueError, match="label_smoothing"):
        ImitationConfig(loss_type="hinge", label_smoothing=0.1)


def files(tmp_path: Path) -> dict[str, Path]:
    """Exported files of both kinds."""
    sft = [{"id": row.id, "token_ids": list(row.ids), "loss_mask": list(row.mask)} for row in rows(12)]
    pairs = [
        {
            "id": pair.id,
            "prompt_ids": list(pair.chosen.ids[:3]),
            "chosen_ids": list(pair.chosen.ids[3:]),
            "rejected_ids": list(pair.rejected.ids[3:]),
        }
        for pair in preferences(8)
    ]
    return {"sft": put(tmp_path / "sft.jsonl", *sft), "dpo": put(tmp_path / "dpo.jsonl", *pairs)}


@pytest.mark.parametrize(("name", "made"), [("sft", SftTrainer), ("dpo", DpoTrainer)])
def test_a_training_from_settings_leaves_a_model_that_the_next_one_takes(tmp_path: Path, name: str, made: Any) -> None:
    """SFT, then DPO or RL: ``model.path`` of the one is the output of the other."""
    file = files(tmp_path)[name]
    tiny_model = {"path": "tiny", "hidden": 16, "layers": 1, "window": 64, "vocabulary": WORDS}
    config = settings(
        tmp_path / "one",
        model=tiny_model,
        data={"train_files": [file], "val_files": [file], "train_batch_size": 4},
        trainer={"output": str(tmp_path / "one"), "total_epochs": 4, "val_before_train": True},
    )
    seen: dict[int, dict[str, float]] = {}
    trainer = made(config, seen.__setitem__)
    last = trainer.fit()
    assert trainer.total_steps == max(seen) == 4 * (len(trainer.rows) // 4)
    assert last["val/loss"] < seen[0]["val/loss"]
    after = settings(
        tmp_path / "two",
        model={"path": str(tmp_path / "one" / "model")},
        data={"train_files": [file], "train_batch_size": 4},
        trainer={"output": str(tmp_path / "two"), "total_epochs": 1},
    )
    again = made(after)
    for key, value in trainer.model.state_dict().items():
        assert torch.equal(value, again.model.state_dict()[key]), key


@pytest.mark.parametrize(("name", "made"), [("sft", SftTrainer), ("dpo", DpoTrainer)])
def test_a_training_of_an_adapter_may_leave_the_adapter_alone(tmp_path: Path, name: str, made: Any) -> None:
    lora = {"lora_rank": 2, "lora_publish": "adapter", "lora_targets": ["q_proj", "v_proj"]}
    config = settings(
        tmp_path,
        model={"path": "tiny", "hidden": 16, "layers": 1, "window": 64, "vocabulary": WORDS, **lora},
        data={"train_files": [files(tmp_path)[name]], "train_batch_size": 4},
        trainer={"output": str(tmp_path), "total_training_steps": 2},
    )
    trainer = made(config)
    trainer.fit()
    assert not (tmp_path / "model").exists()
    saved = load_file(tmp_path / "adapter" / "adapter_model.safetensors")
    assert len(saved) == 4
    assert any(float(tensor.abs().max()) > 0 for key, tensor in saved.items() if "lora_B" in key), "nothing was learnt"


def test_the_command_trains_from_files_alone(tmp_path: Path) -> None:
    """No stack is asked for: the home is empty, and stays so. Stopped and called again, it goes on."""
    file = files(tmp_path)["sft"]
    words = "[" + ",".join(WORDS) + "]"
    arguments = [
        "train", "sft", "--home", str(tmp_path / "home"), "model.path=tiny", f"model.vocabulary={words}",
        "model.hidden=16", f"data.train_files=[{file}]", f"data.val_files=[{file}]", "data.train_batch_size=4",
        f"trainer.output={tmp_path / 'run'}", "actor.optim.lr=0.02", "actor.optim.lr_scheduler_type=constant",
    ]  # fmt: skip
    done = CliRunner().invoke(app, [*arguments, "trainer.total_training_steps=2"])
    assert done.exit_code == 0, done.output
    assert "2 steps; val/loss" in done.output
    # 3 epochs of 12 rows in batches of 4 are nine steps: seven more than before.
    done = CliRunner().invoke(app, [*arguments, "trainer.total_epochs=3"])
    assert done.exit_code == 0, done.output
    assert "9 steps; val/loss" in done.output
    assert (tmp_path / "run" / "model" / "model.safetensors").exists()
    # A step that is repeated after a resume would leave its line twice.
    assert (tmp_path / "run" / "metrics.jsonl").read_text().count("\n") == 10, "the start, then each step once"
    # Training from files starts no service, so it needs no home.
    assert not (tmp_path / "home").exists()
    report = ["report", str(tmp_path / "run"), "--home", str(tmp_path / "home"), "--target", str(tmp_path / "r.html")]
    done = CliRunner().invoke(app, report)
    assert (done.exit_code, done.output) == (0, f"{tmp_path / 'r.html'}: run\n")
    # Where a stack has its store, the page shows the training too, but never in the place of another one.
    (tmp_path / "home" / "store").mkdir(parents=True)
    done = CliRunner().invoke(app, [*arguments, "trainer.total_epochs=4"])
    assert done.exit_code == 0, done.output
    listed = CliRunner().invoke(app, ["report", "--home", str(tmp_path / "home"), "--target", str(tmp_path / "r.html")])
    assert listed.output == f"{tmp_path / 'r.html'}: run\n"
    elsewhere = [one.replace(str(tmp_path / "run"), str(tmp_path / "other" / "run")) for one in arguments]
    done = CliRunner().invoke(app, [*elsewhere, "trainer.total_training_steps=1"])
    assert done.exit_code == 0, done.output
    assert "The page shows another training named 'run'" in done.output
    wrong = CliRunner().invoke(app, ["train", "sft", "imitation.betta=1"])
    assert "did you mean 'beta'" in str(wrong.exception)
