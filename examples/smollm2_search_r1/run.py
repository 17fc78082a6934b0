"""SmolLM2 learns to search: demonstrations, SFT, then Search-R1 GRPO, each measured on the same held-out questions.

    python -m examples.smollm2_search_r1.run --home .fathom --data ../shared/data --output .fathom/training/smollm2

Every stage stores its result under ``--output`` and is skipped when that exists, so that the same command resumes
where it was stopped; an evaluation or a training resumes from its last stored episode or checkpoint. ``report.json``
has the figures, ``*-grpo/report.html`` the curves.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from examples.smollm2_search_r1.measure import compare_stages, summarise_stage
from fathom.api.planner.v1 import planner_pb2 as pb
from fathom.api.planner.v1.trajectory_pb2 import PROTOCOL_SEARCH_R1, Trajectory
from fathom.api.policy.v1.policy_pb2 import Sampling
from fathom.api.retrieval.v1 import retrieval_pb2
from fathom.api.reward.v1 import reward_pb2
from fathom.clients import Clients, connect
from fathom.services.local import Endpoints, LocalSettings, LocalStack
from fathom.services.retrieval.commands.upload import pieces
from fathom.trainers.data.convert import convert
from fathom.trainers.data.export.files import Exported, Stored, Wanted, sft_rows
from fathom.trainers.data.export.tokens import PolicyRenderer
from fathom.trainers.data.records import Record, read, write
from fathom.trainers.rollouts.client import Patience, collect
from fathom.trainers.rollouts.publisher import Publisher
from fathom.transport.store import ObjectStore, open_store

HERE = Path(__file__).parent
CORPUS, MODEL, LEARNER = "qed", "smollm2", "searcher"
SYSTEM = (
    "Look things up with <search> query </search>, then give the shortest answer from the information as"
    " <answer> answer </answer>."
)
LONGEST_S = 6 * 3_600.0
GRADERS = ("em", "sub_em", "f1")


@dataclass
class Work:
    """One run of the example: its options, and clients of the running stack."""

    options: argparse.Namespace
    endpoints: Endpoints
    clients: Clients
    store: ObjectStore

    @property
    def output(self) -> Path:
        return Path(self.options.output)

    def folder(self, algorithm: str) -> Path:
        """Return the output folder of a training, whose name is also that of its checkpoints."""
        # All trainings of a stack keep their checkpoints in one store: names must differ between outputs.
        return self.output / f"{self.output.name}-{algorithm}"

    async def run_stages(self) -> None:
        """Run all stages in order, skipping those that have ended before."""
        options = self.options
        await self.serve_corpus()
        if not (self.output / "prompts" / "test.parquet").exists():
            convert("qed_nq", Path(options.data), self.output / "prompts")
        await self.make_demonstrations()
        held_out = read(self.output / "prompts" / "held_out.parquet")[: options.held_out]
        await self.evaluate("raw", MODEL, held_out)
        await self.fathom("sft", *self.sft_settings())
        tuned = self.folder("sft") / "model"
        if not (self.output / "answers" / "sft.jsonl").exists():
            await self.evaluate("sft", LEARNER, held_out, tuned)
        await self.fathom("grpo", *self.grpo_settings(tuned))
        await self.evaluate("grpo", LEARNER, held_out)
        write_report(self.output)

    async def serve_corpus(self) -> None:
        """Ingest the question set's passages into retrieval and activate them."""
        known = await self.clients.retrieval.list_corpora(retrieval_pb2.ListCorporaRequest())
        if any(item.name == CORPUS and item.snapshot for item in known.corpora):
            return
        files = [Path(self.options.data) / "qed_nq" / "corpus.jsonl"]
        done = await self.clients.retrieval.ingest(pieces(files, CORPUS), timeout_s=LONGEST_S)
        await self.clients.retrieval.activate_snapshot(
            retrieval_pb2.ActivateSnapshotRequest(corpus=CORPUS, snapshot=done.snapshot)
        )
        print(f"{done.added:,} passages served", flush=True)

    async def make_demonstrations(self) -> None:
        """Write demonstrations, GRPO's prompts and the held-out questions from searches of the reference policy.

        Only questions whose answer the search shows are used: of the training split some as demonstrations and the rest
        as prompts, of the test split all as held-out questions.
        """
        # Anything else cannot be answered by reading, and would teach guessing.
        target = self.output / "demonstrations.jsonl"
        if target.exists():
            return
        found = {split: await self.find_answerable(split) for split in ("train", "test")}
        chosen, rest = draw_pairs(found["train"], self.options.demonstrations)
        episodes = [add_answer(record, episode) for record, episode in chosen]
        done, wanted = Exported(), Wanted("sft", MODEL)
        rows = sft_rows(wrap_episodes(episodes), wanted, PolicyRenderer(self.clients, MODEL), done)
        lines = [json.dumps(row, ensure_ascii=False) async for row in rows]
        write([record for record, _ in rest], self.output / "prompts" / "grpo.parquet")
        write([record for record, _ in found["test"]], self.output / "prompts" / "held_out.parquet")
        target.write_text("\n".join(lines) + "\n", encoding="utf-8")
        print(f"{len(lines)} demonstrations, {done.learned_tokens:,} of {done.tokens:,} tokens carry loss;"
              f" {len(rest)} prompts of GRPO, {len(found['test'])} held out", flush=True)  # fmt: skip

    async def find_answerable(self, split: str) -> list[tuple[Record, Trajectory]]:
        """Return a split's questions whose answer the reference policy's search shows, with its episodes."""
        questions = read(self.output / "prompts" / f"{split}.parquet")
        episodes = await self.play("rules", questions, "em", rollout_id=f"{self.output.name}-look-up-{split}")
        right = sum(episode.reward == 1.0 for episode in episodes)
        pairs = [pair for pair in zip(questions, episodes, strict=True) if find_shortest_answer(*pair)]
        print(
            f"{split}: {len(pairs)} of {len(questions)} answers are in search results, rules gets {right}", flush=True
        )
        return pairs

    async def play(
        self, model: str, questions: Sequence[Record], grader: str, *, rollout_id: str, version: int = 0
    ) -> list[Trajectory]:
        """Play one greedy episode per question."""
        request = pb.RolloutRequest(
            request_id=rollout_id,
            model=model,
            policy_version=version,
            protocol=PROTOCOL_SEARCH_R1,
            system_prompt=SYSTEM,
            grader=grader,
            group_size=1,
            tasks=[pb.RolloutTask(id=item.id, question=item.question, references=item.targets) for item in questions],
            sampling=Sampling(temperature=0.0, max_tokens=self.options.max_tokens, seed=1),
            budget=pb.Budget(max_rounds=2),
        )
        return await collect(self.clients.planner, request, Patience(LONGEST_S, 5))

    async def evaluate(self, name: str, model: str, questions: Sequence[Record], weights: Path | None = None) -> None:
        """Play the questions with the served model, after publishing ``weights``, and store the graded answers."""
        target = self.output / "answers" / f"{name}.jsonl"
        if target.exists():
            return
        publisher = Publisher(self.clients, self.store, self.endpoints.store, model, timeout_s=900.0)
        if weights is not None:
            await publisher.publish(lambda target: target.upload(weights))
        version = await publisher.newest() if model == LEARNER else 0
        started = time.monotonic()
        episodes = await self.play(model, questions, "em", rollout_id=f"{self.output.name}-{name}", version=version)
        rows = [await self.grade_answer(*pair) for pair in zip(questions, episodes, strict=True)]
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
        print(f"{name}, version {version}: {summarise_stage(rows)}, {time.monotonic() - started:.0f} s", flush=True)

    async def grade_answer(self, question: Record, episode: Trajectory) -> dict[str, Any]:
        """Return the episode's answer with its grades, its completions and its number of searches."""
        answer = episode.answer.markdown if episode.HasField("answer") else ""
        items = [reward_pb2.ScoreItem(grader=name, answer=answer, references=question.targets) for name in GRADERS]
        scores = (await self.clients.reward.score(reward_pb2.ScoreRequest(items=items))).scores
        return {
            "id": question.id,
            "question": question.question,
            "references": list(question.targets),
            "answer": answer,
            "searches": sum(len(step.tool_results) for step in episode.steps),
            "said": [step.completion.text for step in episode.steps],
            **{name: score.value for name, score in zip(GRADERS, scores, strict=True)},
        }

    async def fathom(self, algorithm: str, *settings: str) -> None:
        """Run ``fathom train``, unless it has ended before."""
        folder = self.folder(algorithm)
        if (folder / "done").exists():
            return
        files = ("--config", str(HERE / f"{algorithm}.yaml"), "--home", str(self.options.home))
        command = [sys.executable, "-m", "fathom.cli.main", "train", algorithm, *files, *settings]
        command += [f"trainer.output={folder}", f"model.cache={Path(self.options.home) / 'models'}"]
        print(" ".join(command), flush=True)
        process = await asyncio.create_subprocess_exec(*command)
        if await process.wait():
            raise SystemExit(f"fathom train {algorithm} ended with {process.returncode}")
        (folder / "done").touch()

    def sft_settings(self) -> list[str]:
        return [f"data.train_files=[{self.output / 'demonstrations.jsonl'}]", *self.options.sft]

    def grpo_settings(self, model: Path) -> list[str]:
        return [
            f"data.train_files=[{self.output / 'prompts' / 'grpo.parquet'}]", f"model.path={model}",
            f"model.name={LEARNER}", f"rollout.system_prompt={SYSTEM}", f"rollout.max_tokens={self.options.max_tokens}",
            f"trainer.total_training_steps={self.options.steps}", *self.options.grpo,
        ]  # fmt: skip


def find_shortest_answer(question: Record, episode: Trajectory) -> str:
    """Return the shortest accepted answer that occurs in the search results; "" for none."""
    shown = " ".join(result.content for step in episode.steps for result in step.tool_results)
    return min((target for target in question.targets if target in shown), key=len, default="")


def add_answer(question: Record, episode: Trajectory) -> Trajectory:
    """Return a copy of the episode that ends with the right answer."""
    done = Trajectory()
    done.CopyFrom(episode)
    answer = find_shortest_answer(question, episode)
    done.steps[-1].completion.text = f"<think>The information names it.</think>\n<answer> {answer} </answer>"
    done.answer.markdown, done.reward = answer, 1.0
    return done


async def wrap_episodes(episodes: Iterable[Trajectory]) -> AsyncIterator[Stored]:
    """Yield episodes as the export reads them from the store."""
    for episode in episodes:
        yield Stored(episode, False, "")


def draw_pairs(pairs: list[Any], count: int) -> tuple[list[Any], list[Any]]:
    """Draw ``count`` pairs; return them and the rest."""
    mixed = random.Random(7).sample(pairs, len(pairs))
    return mixed[:count], mixed[count:]


def write_report(output: Path) -> None:
    """Write ``report.json`` and print one line per stage that has answers."""
    stages = {path.stem: path for path in (output / "answers").glob("*.jsonl")}
    rows = {name: [json.loads(line) for line in path.open(encoding="utf-8")] for name, path in stages.items()}
    found = {name: summarise_stage(rows[name]) for name in ("raw", "sft", "grpo") if name in rows}
    pairs = [pair for pair in (("raw", "sft"), ("sft", "grpo"), ("raw", "grpo")) if set(pair) <= set(rows)]
    differences = {f"{one} to {other}": compare_stages(rows[one], rows[other]) for one, other in pairs}
    (output / "report.json").write_text(json.dumps({"stages": found, "differences": differences}, indent=2))
    for name, figures in (found | differences).items():
        print(f"{name}: {figures}", flush=True)


async def main(options: argparse.Namespace) -> None:
    settings = LocalSettings(home=Path(options.home), gateway_port=0, config=HERE / "fathom.yaml", ready_timeout_s=600)
    async with LocalStack(settings).running() as endpoints:
        clients, store = connect(endpoints.services), open_store(endpoints.store)
        try:
            await Work(options, endpoints, clients, store).run_stages()
        finally:
            await clients.close()
            await store.close()


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--home", default=".fathom", help="folder of the local stack")
    parser.add_argument("--data", default="../shared/data", help="folder with qed_nq")
    parser.add_argument("--output", default=".fathom/training/smollm2-search-r1", help="folder of all results")
    parser.add_argument("--held-out", type=int, default=92, help="questions that every stage is measured on")
    parser.add_argument("--demonstrations", type=int, default=140, help="rows of the warm start")
    parser.add_argument("--steps", type=int, default=40, help="steps of GRPO")
    parser.add_argument("--max-tokens", type=int, default=64, help="tokens per turn")
    parser.add_argument("--sft", nargs="*", default=[], help="more settings of the warm start")
    parser.add_argument("--grpo", nargs="*", default=[], help="more settings of GRPO")
    return parser.parse_args()


if __name__ == "__main__":
    asked = parse_options()
    Path(asked.output).mkdir(parents=True, exist_ok=True)
    asyncio.run(main(asked))
