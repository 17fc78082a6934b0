"""gRPC servicer of policy: converts messages and delegates to the engine."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing

from fathom.api.common.v1 import common_pb2 as common
from fathom.api.policy.v1 import policy_pb2 as pb
from fathom.core.call import Call, Lane
from fathom.core.errors import InvalidField
from fathom.core.paging import MAX_PAGE, page_of_list
from fathom.domain.chat.messages import Completion
from fathom.domain.chat.proto import (
    completion_to_proto,
    message_from_proto,
    sampling_from_proto,
    tool_format_from_proto,
    tool_spec_from_proto,
)
from fathom.hosting.deps import Deps
from fathom.services.policy.config import Config
from fathom.services.policy.engine import Engine
from fathom.services.policy.model import ModelInfo, Request, State, ThoughtDelta, WaitChange
from fathom.services.policy.terms import add_terms
from fathom.transport.rpc.service import Service
from fathom.transport.store.refs import from_ref

STATES = {
    State.IDLE: pb.MODEL_STATE_IDLE,
    State.WARMING: pb.MODEL_STATE_WARMING,
    State.READY: pb.MODEL_STATE_READY,
    State.PAUSED: pb.MODEL_STATE_PAUSED,
    State.FAILED: pb.MODEL_STATE_FAILED,
}
LANES = {
    Lane.INTERACTIVE: common.LANE_INTERACTIVE,
    Lane.EVALUATION: common.LANE_EVALUATION,
    Lane.TRAINING: common.LANE_TRAINING,
}


def build(config: Config, deps: Deps) -> Service:
    """Build the policy service."""
    engine = Engine(config, deps.store, deps.telemetry.log, deps.bus, deps.telemetry.registry, deps.quotas)
    return Service("policy", PolicyServicer(engine, config), engine.start, engine.close)


class PolicyServicer:
    """Servicer of the policy API."""

    def __init__(self, engine: Engine, config: Config) -> None:
        self._engine, self._config = engine, config

    async def Generate(self, request: pb.GenerateRequest, call: Call) -> AsyncIterator[pb.GenerateResponse]:
        async with aclosing(self._engine.generate(request_from_proto(request), call.remaining_s)) as items:
            async for item in items:
                if isinstance(item, Completion):
                    yield pb.GenerateResponse(completion=completion_to_proto(item))
                elif isinstance(item, WaitChange):
                    yield pb.GenerateResponse(wait=pb.GenerationWait(is_over=item.is_over))
                elif request.without_deltas:
                    continue
                elif isinstance(item, ThoughtDelta):
                    yield pb.GenerateResponse(delta=pb.GenerateDelta(reasoning=item.text))
                else:
                    yield pb.GenerateResponse(delta=pb.GenerateDelta(text=item))

    async def ScoreTokens(self, request: pb.ScoreTokensRequest, call: Call) -> pb.ScoreTokensResponse:
        sequences = [tuple(sequence.token_ids) for sequence in request.sequences]
        scores, version = await self._engine.score(request.model, sequences, request.temperature)
        return pb.ScoreTokensResponse(scores=[pb.TokenScores(log_probs=row) for row in scores], policy_version=version)

    async def GetModel(self, request: pb.GetModelRequest, call: Call) -> pb.GetModelResponse:
        model = model_to_proto(self._engine.get_model(request.model))
        return pb.GetModelResponse(model=add_terms(model, self._config))

    async def ListModels(self, request: pb.ListModelsRequest, call: Call) -> pb.ListModelsResponse:
        # A page's token holds the last name shown, so that a model added between two calls moves no other one across
        # pages.
        models = {model.name: model for model in self._engine.list_models()}
        page, following = page_of_list(list(models), "models", min(request.page_size, MAX_PAGE), request.page_token)
        listed = [add_terms(model_to_proto(models[name]), self._config) for name in page]
        return pb.ListModelsResponse(models=listed, next_page_token=following)

    async def LoadWeights(self, request: pb.LoadWeightsRequest, call: Call) -> pb.LoadWeightsResponse:
        loaded = await self._engine.load_weights(
            request.model,
            # An unset message has an empty key; the engine then looks the version up by its number.
            from_ref(request.manifest) if request.manifest.key else None,
            request.policy_version,
            [lane_from_proto(lane) for lane in request.lanes],
            # Proto3 cannot tell 0 from unset, and a share of 0 percent would be no activation.
            request.percent or 100,
            request.wait_ms / 1000,
        )
        return pb.LoadWeightsResponse(
            model=model_to_proto(loaded.model),
            previous_version=loaded.previous_version,
            duration_ms=loaded.duration_ms,
        )

    async def PauseGeneration(self, request: pb.PauseGenerationRequest, call: Call) -> pb.PauseGenerationResponse:
        after_s = request.resume_after_ms / 1000 if request.resume_after_ms else None
        model, running = await self._engine.pause(request.model, request.drain_ms / 1000, after_s)
        return pb.PauseGenerationResponse(model=model_to_proto(model), running=running)

    async def ResumeGeneration(self, request: pb.ResumeGenerationRequest, call: Call) -> pb.ResumeGenerationResponse:
        return pb.ResumeGenerationResponse(model=model_to_proto(self._engine.resume(request.model)))

    async def Tokenize(self, request: pb.TokenizeRequest, call: Call) -> pb.TokenizeResponse:
        ids = await self._engine.tokenize(
            request.model,
            [message_from_proto(message) for message in request.messages],
            [tool_spec_from_proto(tool) for tool in request.tools],
            request.add_generation_prompt,
            request.text,
        )
        return pb.TokenizeResponse(token_ids=ids)

    async def Detokenize(self, request: pb.DetokenizeRequest, call: Call) -> pb.DetokenizeResponse:
        return pb.DetokenizeResponse(text=await self._engine.detokenize(request.model, tuple(request.token_ids)))


def request_from_proto(request: pb.GenerateRequest) -> Request:
    """Convert a request to the engine's type; raise ``InvalidField`` for a message without a role."""
    return Request(
        request_id=request.request_id,
        model=request.model,
        messages=tuple(message_from_proto(message) for message in request.messages),
        context_token_ids=tuple(request.context_token_ids),
        context_messages=request.context_messages,
        tools=tuple(tool_spec_from_proto(tool) for tool in request.tools),
        tool_format=tool_format_from_proto(request.tool_format),
        sampling=sampling_from_proto(request.sampling),
        policy_version=request.policy_version,
        response_schema_json=request.response_schema_json,
    )


def model_to_proto(model: ModelInfo) -> pb.Model:
    return pb.Model(
        name=model.name,
        engine=model.engine,
        state=STATES[model.state],
        policy_version=model.policy_version,
        window_tokens=model.window_tokens,
        exact=model.exact,
        detail=model.detail,
        lanes=[
            pb.LaneShare(lane=LANES[item.lane], policy_version=item.version, percent=item.percent)
            for item in model.lanes
        ],
    )


def lane_from_proto(lane: common.Lane) -> Lane:
    """Convert a lane; raise ``InvalidField("lanes")`` for an unspecified or unknown one."""
    for known, value in LANES.items():
        if value == lane:
            return known
    raise InvalidField("lanes", f"{lane} is not a lane")
