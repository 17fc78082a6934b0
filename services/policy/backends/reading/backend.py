"""The ``reading`` backend: a language model writes the calculation of a question, the reference policy does the rest.

What a small model can learn is to read: the tools, their order and the answer stay rules. Its program goes to the data
tool with the question; the grammar lets it write nothing but programs with words of that question.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path

from fathom.core.cache import LoadingCache
from fathom.core.errors import InvalidField
from fathom.core.ids import new_id
from fathom.domain.chat.messages import Completion, FinishReason, Message, Role, Sampling, ToolFormat, ToolSpec
from fathom.domain.conversation import read_conversation
from fathom.domain.programs.asking import SYSTEM, read_program
from fathom.domain.programs.grammar import check_program, write_grammar
from fathom.domain.text.language import language_of
from fathom.domain.text.terms import is_small_talk
from fathom.services.policy.backends.rules.backend import RulesBackend
from fathom.services.policy.backends.transformers.backend import TransformersBackend
from fathom.services.policy.config import ReadingModel
from fathom.services.policy.model import Item, Occupancy, Request
from fathom.services.policy.reference.calls import Written

DATA = "data"
# Of what is asked in a run: each round needs the program of its first one.
REMEMBERED, REMEMBERED_BYTES = 1_024, 4 << 20
# A longer text is a document with a question in it, and no row of the training.
MAX_CHARS = 1_000


class ReadingBackend:
    """Reference policy with a language model's reading of the question; ``version`` is that of the model."""

    engine = "reading"
    # The language model has sampled no token of an episode's messages.
    exact = False

    def __init__(self, name: str, config: ReadingModel, cache_dir: Path) -> None:
        """Raise ``MissingExtra`` when a library of the language model is not installed."""
        self._name, self._config = name, config
        self._rules = RulesBackend(name, config, cache_dir)
        self._network = TransformersBackend(name, config.network, cache_dir)
        self._programs = LoadingCache[tuple[int, str], Written](
            max_entries=REMEMBERED, max_bytes=REMEMBERED_BYTES, size_of=measure
        )

    @property
    def version(self) -> int:
        return self._network.version

    @property
    def window_tokens(self) -> int:
        return self._rules.window_tokens

    @property
    def occupancy(self) -> Occupancy:
        return self._network.occupancy

    async def load(self) -> None:
        """Load the language model."""
        await self._network.load()

    async def load_weights(self, folder: Path, version: int) -> None:
        """Load a version of the language model, whole or an adapter."""
        await self._network.load_weights(folder, version)

    async def stage_weights(self, folder: Path, version: int) -> Callable[[], None]:
        """Prepare a version of the language model; return a call that makes it current."""
        return await self._network.stage_weights(folder, version)

    async def generate(self, request: Request) -> AsyncGenerator[Item, None]:
        """Yield what the reference policy does, its first call with the program that the language model writes."""
        version = self._network.version
        written = await self._find_program(request, version)
        async with aclosing(self._rules.generate(request, written)) as items:
            async for item in items:
                if isinstance(item, Completion):
                    item = hide_ids(item, version)
                yield item

    async def _find_program(self, request: Request, version: int) -> Written | None:
        """Return the program of the question that is asked; None where there is nothing that the model could read."""
        if request.tool_format is not ToolFormat.HERMES or not takes_program(request.tools):
            return None
        question = read_conversation(request.messages).question
        if not question or len(question) > MAX_CHARS or is_small_talk(question) or language_of(question) != "en":
            return None
        return await self._programs.get((version, question), lambda: self._write(question))

    async def _write(self, question: str) -> Written:
        """Return the program of a question; one without text where the model writes none that can be used."""
        try:
            asked = make_request(question, self._config.program_tokens)
        except InvalidField:
            return Written()
        completion = None
        async with aclosing(self._network.generate(asked)) as items:
            async for item in items:
                completion = item if isinstance(item, Completion) else completion
        if completion is None or completion.finish_reason is FinishReason.LENGTH:
            return Written()
        text = completion.text.strip()
        try:
            await asyncio.to_thread(lambda: check_program(read_program(text), question))
        except InvalidField:
            # Such as a step that refers to itself, which the grammar does not know.
            return Written()
        chances = completion.log_probs
        confidence = math.exp(sum(chances) / len(chances)) if chances else 0.0
        return Written(text, confidence >= self._config.confidence, confidence >= self._config.certain)

    async def score(self, sequences: Sequence[Sequence[int]], temperature: float) -> tuple[list[list[float]], int]:
        """Raise ``InvalidField("model")``, because the ids of its episodes are those of rules."""
        return await self._rules.score(sequences, temperature)

    async def tokenize(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec], add_generation_prompt: bool
    ) -> list[int]:
        return await self._rules.tokenize(messages, tools, add_generation_prompt)

    async def encode(self, text: str) -> list[int]:
        return await self._rules.encode(text)

    async def detokenize(self, ids: Sequence[int]) -> str:
        return await self._rules.detokenize(ids)

    async def close(self) -> None:
        await self._network.close()


def make_request(question: str, most: int) -> Request:
    """Return the request for the program of a question, as the rows of the training have it.

    Raises ``InvalidField("question")`` for one without words.
    """
    return Request(
        request_id=new_id("program"),
        model="",
        messages=(Message(Role.SYSTEM, SYSTEM), Message(Role.USER, question)),
        sampling=Sampling(temperature=0.0, max_tokens=most),
        grammar=write_grammar(question),
    )


def hide_ids(completion: Completion, version: int) -> Completion:
    """Return a completion of the rules without their token ids, which nobody has sampled, as one of a version."""
    return replace(
        completion,
        prompt_token_ids=(),
        sampled_token_ids=(),
        log_probs=(),
        boundary_tokens=0,
        exact=False,
        version_min=version,
        version_max=version,
    )


def takes_program(tools: Sequence[ToolSpec]) -> bool:
    """Return whether the data tool is there and takes a program."""
    return any(tool.name == DATA and '"program"' in tool.parameters_json for tool in tools)


def measure(written: Written) -> int:
    """Return about how many bytes a program takes."""
    return 200 + 4 * len(written.text)
