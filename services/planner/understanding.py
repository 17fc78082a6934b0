"""Everything that a planner asks about a question before it is played, built once per process."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from typing import Any

from fathom.core.call import UNTRACED, Call, calling
from fathom.core.errors import FathomError
from fathom.hosting.deps import Deps
from fathom.services.planner.classification.classifier import (
    FACT_FILE,
    FORM_FILE,
    MEASURE_FILE,
    SUBJECT_FILE,
    Classifier,
    load_heads,
)
from fathom.services.planner.classification.examples import ROUTE
from fathom.services.planner.classification.vectors import DatafetchVectors
from fathom.services.planner.config import Config
from fathom.services.planner.model.episode import Subject
from fathom.services.planner.prompts.selection import Prompts
from fathom.services.planner.questions.model_routing import ModelRouter
from fathom.services.planner.questions.routing import (
    AskModel,
    Form,
    Route,
    find_chart,
    find_form,
    find_subject,
    needs_evidence,
    route_question,
    split_clauses,
)
from fathom.services.planner.reader import DatafetchReader
from fathom.services.planner.workflow.rewriting import Rewriter

# Loading the encoder takes seconds, on a busy machine a minute.
WARM_ATTEMPTS, WARM_PAUSE_S = 30, 2.0


@dataclass
class Understanding:
    """The classifier, and what is made of it."""

    vectors: DatafetchVectors
    classifier: Classifier
    forms: Classifier
    measures: Classifier
    facts: Classifier
    subjects: Classifier
    rewriter: Rewriter
    ask_model: AskModel
    log: Any
    _warming: list[asyncio.Task[None]] = field(default_factory=list)

    @classmethod
    def of(cls, config: Config, deps: Deps, prompts: Prompts) -> Understanding:
        """Create them from the settings; raise ``CorruptData`` for unreadable weights of the classifier."""
        log = deps.telemetry.log

        def report(error: FathomError) -> None:
            log.info("questions are classified as unsure", error=error.message)

        vectors = DatafetchVectors(deps.clients, config.classify_s, report)
        classifier = Classifier(vectors, load_heads())
        files = (FORM_FILE, MEASURE_FILE, FACT_FILE, SUBJECT_FILE)
        forms, measures, facts, subjects = (Classifier(vectors, load_heads(file)) for file in files)
        rewriter = Rewriter(
            deps.clients,
            DatafetchReader(deps.clients, config.classify_s),
            classifier,
            measures,
            prompts.render_rewriting,
            config.route_model_s,
            config.clarify == "auto",
        )
        router = ModelRouter(deps.clients, config.default_model, config.route_model_s)
        return cls(vectors, classifier, forms, measures, facts, subjects, rewriter, router, log)

    def start(self) -> None:
        """Begin to load the encoder in datafetch, so that the first question need not wait for it."""
        self._warming.append(asyncio.create_task(self._warm_up(), name="warm up the encoder"))

    async def close(self) -> None:
        """Stop waiting for the encoder."""
        for task in self._warming:
            task.cancel()
        await asyncio.gather(*self._warming, return_exceptions=True)

    async def _warm_up(self) -> None:
        # No question's work: a trace of each attempt would say nothing about any run.
        with calling(Call.new(traceparent=UNTRACED)):
            for _ in range(WARM_ATTEMPTS):
                if (await self.classifier.classify_one(ROUTE, "ready")).label or self.vectors.is_absent:
                    return
                await asyncio.sleep(WARM_PAUSE_S)

    async def route(self, question: str) -> Route:
        """Return scene, mode and form of a whole question."""
        # One request for the vectors of both, which then come from the cache: a run's first event waits for its route.
        await self.vectors.encode(list(dict.fromkeys([question, *split_clauses(question)])))
        route = await route_question(question, self.classifier, self.ask_model)
        return replace(route, form=await self.find_form(question))

    async def find_form(self, question: str) -> Form:
        """Return the form of the answer that a question asks for."""
        return await find_form(question, self.forms)

    async def find_subject(self, question: str) -> Subject:
        """Return whether a question is about the data that there are, about the program, or about anything else."""
        return await find_subject(question, self.subjects)

    async def find_chart(self, question: str) -> str:
        """Return the kind of chart that a question asks for; "" for none."""
        return await find_chart(question, self.classifier)

    async def describe(self, question: str) -> tuple[Route, bool, str]:
        """Return the route, whether an answer needs a source, and the kind of chart."""
        # The route first: its vector then serves the other two from the cache.
        route = await self.route(question)
        return route, await needs_evidence(question, self.classifier), await self.find_chart(question)
