"""Voting by the judge model: both orders, several votes, retries of unreadable replies, a cache of votes."""

from __future__ import annotations

import asyncio
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from prometheus_client import CollectorRegistry, Counter

from fathom.api.policy.v1 import policy_pb2 as pb
from fathom.clients import Clients
from fathom.clients.completions import read_completion
from fathom.core.cache import BoundedCache
from fathom.core.errors import DependencyFailed, FathomError, InvalidField
from fathom.core.ids import content_hash, new_id
from fathom.domain.chat.messages import Message, Role
from fathom.domain.chat.proto import message_to_proto
from fathom.domain.chat.quoting import quote
from fathom.domain.grading.text import CJK
from fathom.services.reward.judging.prompts import Language, Prompt, Prompts
from fathom.services.reward.judging.replies import Opinion, build_schema, parse_reply
from fathom.services.reward.judging.settings import JudgeSettings, Style
from fathom.services.reward.judging.votes import Judgement, Vote, aggregate_scores, aggregate_votes

# Each vote is two generations: the bound keeps one request from occupying the judge's model.
MAX_VOTES = 8
# Bytes of all votes in memory together.
MAX_KNOWN_BYTES = 64 << 20
# Bytes counted for a vote beside its text.
OPINION_BYTES = 256


@dataclass(frozen=True)
class Pair:
    """Two answers to one question; ``reference`` may be empty."""

    question: str
    left: str
    right: str
    reference: str = ""


@dataclass(frozen=True)
class Ballot:
    """One vote to request: the answers shown first and second, the judge's version and the prompt.

    ``second`` is None where an answer is shown alone.
    """

    style: Style
    prompt: Prompt
    judge: str
    question: str
    first: str
    second: str | None
    reference: str
    number: int
    temperature: float

    @property
    def key(self) -> str:
        """Return a hash of everything that the reply depends on."""
        # None has no text of its own: the prompt's version says already that an answer is shown alone.
        said = [self.judge, self.prompt.version, self.question, self.reference, self.first, self.second or ""]
        # The number of the vote is part of it: several votes of one question must not be one reply repeated.
        return content_hash([*said, self.number, self.temperature])

    @property
    def messages(self) -> list[Message]:
        """Return the system prompt and the material."""
        # Every text is quoted, so that none can instruct the judge.
        parts = [("Question", self.question), ("Reference", self.reference)]
        answers = [("Answer", self.first)]
        if self.second is not None:
            answers = [("First answer", self.first), ("Second answer", self.second)]
        shown = [*((title, text) for title, text in parts if text), *answers]
        said = "\n\n".join(f"# {title}\n{quote(text)}" for title, text in shown)
        return [Message(Role.SYSTEM, self.prompt.body), Message(Role.USER, said)]


class Judge:
    """Judges pairs through ``clients.policy``; caches votes and evicts the least recently used."""

    def __init__(self, settings: JudgeSettings, clients: Clients, registry: CollectorRegistry | None, log: Any) -> None:
        self._settings, self._clients, self._log = settings, clients, log
        self._prompts = Prompts()
        # One judge model serves all requests; more at once would only queue there, past their deadlines.
        self._places = asyncio.Semaphore(settings.concurrent)
        self._known = BoundedCache[str, Opinion](
            max_entries=settings.kept_votes, max_bytes=MAX_KNOWN_BYTES, ttl_s=math.inf
        )
        self._votes = Counter(
            "fathom_reward_judge_votes", "Votes of the judge by how they were had", ("outcome",), registry=registry
        )

    async def judge(
        self, pairs: Sequence[Pair], style: Style | None = None, votes: int = 0
    ) -> tuple[list[Judgement], str]:
        """Return judgements aligned with the pairs, and the judge's version.

        A vote that fails is counted, never guessed. Raises ``InvalidField`` naming the pair's field, and
        ``FathomError`` when the judge's model is unknown.
        """
        settings = self._settings
        style, votes = style or settings.style, votes or settings.votes
        self._check(pairs, votes)
        # Asked each time: votes are cached by the version of the model, which may change while the service runs.
        model = (await self._clients.policy.get_model(pb.GetModelRequest(model=settings.model))).model
        version = f"{model.name}@{model.policy_version}"
        ballots = [self._ballots(pair, style, votes, version) for pair in pairs]
        found = await asyncio.gather(
            *(self._vote(ballot, left_first) for of_pair in ballots for ballot, left_first in of_pair)
        )
        aggregate = aggregate_scores if style is Style.DIRECT else aggregate_votes
        each = [aggregate(found[start : start + 2 * votes], settings) for start in range(0, len(found), 2 * votes)]
        used = sorted({ballot.prompt.version for of_pair in ballots for ballot, _ in of_pair})
        return each, f"{version}/{'+'.join(used)}"

    def _check(self, pairs: Sequence[Pair], votes: int) -> None:
        settings = self._settings
        if not 1 <= len(pairs) <= settings.max_pairs:
            raise InvalidField("pairs", f"must be 1 to {settings.max_pairs}")
        if not 1 <= votes <= MAX_VOTES:
            raise InvalidField("votes", f"must be 1 to {MAX_VOTES}")
        for index, pair in enumerate(pairs):
            if not pair.question.strip():
                raise InvalidField(f"pairs[{index}].question", "is empty")
            for name in ("question", "left", "right", "reference"):
                if len(getattr(pair, name)) > settings.max_chars:
                    raise InvalidField(f"pairs[{index}].{name}", f"is longer than {settings.max_chars:,} characters")

    def _ballots(self, pair: Pair, style: Style, votes: int, judge: str) -> list[tuple[Ballot, bool]]:
        # The prompt has the language of the question.
        language: Language = "zh" if CJK.search(pair.question) else "en"
        prompt = self._prompts.find(style, language, self._settings.prompt_version)
        # Greedy votes would all be the same.
        temperature = 0.0 if votes == 1 else self._settings.temperature
        found = []
        # Judges prefer the first answer, so each vote is taken in both orders; alone, each answer is scored once.
        for number, left_first in itertools.product(range(votes), (True, False)):
            first, second = (pair.left, pair.right) if left_first else (pair.right, pair.left)
            other = None if style is Style.DIRECT else second
            ballot = Ballot(style, prompt, judge, pair.question, first, other, pair.reference, number, temperature)
            found.append((ballot, left_first))
        return found

    async def _vote(self, ballot: Ballot, left_first: bool) -> Vote:
        opinion = self._known.get(ballot.key)
        if opinion is not None:
            self._votes.labels("remembered").inc()
        else:
            try:
                async with self._places:
                    opinion = await self._ask(ballot)
            # One failed vote must not lose the others of a batch.
            except FathomError as error:
                self._votes.labels("failed").inc()
                self._log.warning("a vote of the judge failed", error=str(error), reason=error.reason)
                return Vote(left_first, None, str(error))
            self._known.put(ballot.key, opinion, OPINION_BYTES + len(opinion.reason.encode()))
            self._votes.labels("read").inc()
        # The opinion is of the answer shown first; the vote is of the left one.
        return Vote(left_first, opinion.margin if left_first else -opinion.margin, opinion.reason)

    async def _ask(self, ballot: Ballot) -> Opinion:
        """Return the opinion; send an unreadable reply back with its fault.

        Raises ``FathomError`` after the last attempt.
        """
        messages, wrong = ballot.messages, ""
        for attempt in range(self._settings.attempts):
            text = await self._complete(messages, ballot, attempt)
            opinion = parse_reply(ballot.style, text)
            if isinstance(opinion, Opinion):
                return opinion
            wrong = opinion
            self._votes.labels("unreadable").inc()
            said = f"That cannot be read: {wrong}. Reply with the JSON object alone."
            # The model sees its reply and the fault, as it repeats the mistake otherwise.
            messages = [*messages, Message(Role.ASSISTANT, text), Message(Role.USER, said)]
        raise DependencyFailed("judge", f"no reply could be read in {self._settings.attempts}: {wrong}")

    async def _complete(self, messages: Sequence[Message], ballot: Ballot, attempt: int) -> str:
        request = pb.GenerateRequest(
            request_id=new_id("judge"),
            model=self._settings.model,
            messages=[message_to_proto(message) for message in messages],
            sampling=pb.Sampling(
                temperature=ballot.temperature,
                max_tokens=self._settings.max_tokens,
                # Different for every vote and attempt, and the same when a request is repeated.
                seed=1 + ballot.number * self._settings.attempts + attempt,
            ),
            response_schema_json=build_schema(ballot.style),
        )
        return await read_completion(
            self._clients, request, lambda completion: str(completion.text), timeout_s=self._settings.timeout_s
        )
